/*
 * While a layer wants to be told of what happens beside calls (tn_layer.notify), tensors
 * are watched: each has a header of its own with a count that has its sign bit set, so that
 * making and releasing it leave the usual way at branches that are there anyhow, and its
 * header is kept for a while after the release, so that using it still can be told.
 * Nothing of this is entered while no such layer is on.
 */
#ifndef TENON_DISPATCHER_WATCH_H
#define TENON_DISPATCHER_WATCH_H

#include <time.h>

#include "dispatcher/runtime/runtime.h"

enum {
  WATCH_KEPT = 4096, /* headers kept after their release */
  WATCH_SITE = 64,   /* bytes kept of a call site's text */
};

/* tn_tensor.refs of a watched tensor is this plus its references. */
#define WATCH_REFS 0xc0000000u

/* Begins to watch. TN_ERR_OUT_OF_MEMORY. */
tn_status watch_open(tn_runtime *runtime);
/* pre: no tensor is alive. */
void watch_close(tn_runtime *runtime);

/* A zeroed header whose `spare` says that it is watched; NULL when there is no memory. */
tn_tensor *watch_header(tn_runtime *runtime);
/* The header is filled: sets its count and tells the layers, the first time. `stream`: whose
 * memory was taken; NULL for views and imports. */
void watch_made(tn_tensor *t, const tn_stream *stream);
/* tn_tensor_release of a watched tensor. */
void watch_release(tn_tensor *t);

/* The host has the tensor's address from here on, or another library the tensor. */
void watch_exposed(const tn_tensor *t);

/* Whether t is a header that is kept after its release. */
bool watch_is_released(const tn_tensor *t);
/* A function that takes a tensor found `status` wrong: where the reason is that t was
 * released, tells the layers and fails with where it was made and released. */
tn_status watch_explain(const tn_tensor *t, const char *function, tn_status status);
/* Refuses kernel arguments that show a released tensor's header. */
tn_status watch_check_args(const tn_kernel_args *args);

/* Pinned memory, to tell copies that wait from those that do not. */
void watch_pinned(tn_device *device, const void *ptr, size_t bytes);
void watch_unpinned(tn_device *device, const void *ptr);
bool watch_is_pinned(tn_runtime *runtime, const void *ptr);

/* The time if the runtime is watched, else 0. */
static inline uint64_t watch_clock(const tn_runtime *runtime) {
  struct timespec t;
  if (__builtin_expect(!runtime->watch, 1)) return 0;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* layers_notify.c: tells the layers. pre: the runtime is watched. `stream` may be NULL. */
void notify_tensor(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream);
/* A copy that began at the time of watch_clock and is done, as far as the host is concerned. */
void notify_copy(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream,
                 uint64_t began_ns);
void notify_stream(tn_layer_event_kind kind, const tn_stream *stream, const void *object);
/* The host waited for the stream, or the event, from then until now. */
void notify_waited(const tn_stream *stream, uint64_t began_ns);
void notify_passed(const tn_event *event, uint64_t began_ns);
void notify_memory(tn_layer_event_kind kind, const tn_device *device, const void *memory);
void notify_object(tn_layer_event_kind kind, const tn_device *device, const void *object,
                   uint64_t bytes);
void notify_prepared(tn_layer_event_kind kind, const tn_device *device, const void *prepared,
                     const tn_operator *op);
void notify_closing(const tn_runtime *runtime);

#endif
