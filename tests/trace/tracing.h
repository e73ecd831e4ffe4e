/* What tests of the layer trace share. */
#ifndef TESTS_TRACE_TRACING_H
#define TESTS_TRACE_TRACING_H

#include <math.h>

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

/* --- what is in it --- */

static inline const value *event_at(const value *v, const char *category, const char *name,
                                    size_t index) {
  const value *e = events_at(v, category, name, index);
  ck_assert_msg(e != NULL, "there is no event %zu of %s %s", index, category, name ? name : "");
  return e;
}

static inline double length_of(const value *e) { return tree_number(e, "dur", NAN); }

static inline void assert_nested(const value *v) {
  char text[256];
  ck_assert_msg(events_nest(v, NULL, false, text, sizeof text), "%s", text);
  ck_assert_msg(events_nest(v, "kernel", true, text, sizeof text), "%s", text);
}

#endif
