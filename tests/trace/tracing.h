/* What tests of the layer trace share. */
#ifndef TESTS_TRACE_TRACING_H
#define TESTS_TRACE_TRACING_H

#include "tests/scratch.h"
#include "tests/support.h"
#include "tests/trace/events.h"

/* --- runtimes that trace, and what they wrote --- */

static inline void trace_into(const char *name) {
  ck_assert_int_eq(setenv("TENON_TRACE_FILE", scratch_path(name), 1), 0);
}

static const tn_runtime_options tracing = {.struct_size = sizeof tracing,
                                           .plugin_path = PACE_PLUGIN,
                                           .plugins = "cpu,reference,pace,trace",
                                           .layers = "trace",
                                           .fallback = TN_FALLBACK_ALLOW};

/* A device that computes in the caller: `cpu` is not built everywhere. */
#define ON_HOST "cpu,reference"

static inline tn_runtime *open_tracing(const char *device) {
  tn_runtime_options options = tracing;
  options.device = device;
  return open_runtime(&options);
}

static inline value *read_trace(const char *name) {
  size_t size;
  char where[128];
  unsigned char *bytes = read_file(scratch_path(name), &size);
  value *v = tree_read((const char *)bytes, size, where, sizeof where);
  ck_assert_msg(v != NULL, "%s: %s", name, where);
  ck_assert_int_eq(v->kind, LIST);
  free(bytes);
  return v;
}

static inline void add_once(tn_stream *stream, const tn_tensor *a) {
  tn_tensor *y = NULL;
  ok(tn_add(stream, a, a, &y));
  tn_tensor_release(y);
}

#endif
