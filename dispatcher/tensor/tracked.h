/*
 * While a layer wants notices (notify.h), tensors are tracked, so that their use after release is
 * told: each has a header of its own with a count that has its sign bit set, so that making and
 * releasing it leave the usual way at branches that are there anyhow. Its header is kept for a
 * while after the release, in quarantine, where every function that takes it refuses it.
 */
#ifndef TENON_DISPATCHER_TRACKED_H
#define TENON_DISPATCHER_TRACKED_H

#include "dispatcher/objects/tensor.h"
#include "dispatcher/registry/registry.h"
#include "tenon/plugin.h"

enum {
  QUARANTINE_MAX = 4096, /* headers in quarantine */
  SITE_BYTES = 64,       /* bytes kept of a call site's text */
};

/* tn_tensor.refs of a tracked tensor is this plus its references. */
#define TRACKED_REFS 0xc0000000u

/* Begins to track. TN_ERR_OUT_OF_MEMORY. */
tn_status tracking_open(tn_runtime *runtime);
/* pre: no tensor is alive. */
void tracking_close(tn_runtime *runtime);

/* A zeroed header whose `spare` says that it is tracked; NULL when there is no memory. */
tn_tensor *tracked_header(tn_runtime *runtime);
/* The header is filled: sets its count and tells the layers, the first time. `stream`: whose
 * memory was taken; NULL for views and imports. */
void tracked_made(tn_tensor *t, const tn_stream *stream);
/* tn_tensor_release of a tracked tensor. */
void tracked_release(tn_tensor *t);

/* The host has the tensor's address from here on, or another library the tensor. */
void tracked_exposed(const tn_tensor *t);

/* Whether t is a header that is kept after its release. */
bool tracked_is_released(const tn_tensor *t);
/* A function that takes a tensor found `status` wrong: where the reason is that t was
 * released, tells the layers and fails with where it was made and released. */
tn_status tracked_explain(const tn_tensor *t, const char *function, tn_status status);
/* Refuses kernel arguments that show a released tensor's header, attributes of the call included.
 */
tn_status tracked_check_args(const op_entry *op, const tn_kernel_args *args);

#endif
