/* Shared by the tests of watching calls: a watcher that runs each call as it is and counts. */
#ifndef TENON_TESTS_WATCHING_H
#define TENON_TESTS_WATCHING_H

#include <stdatomic.h>

#include "dispatcher/notify/watch.h"
#include "dispatcher/objects/tensor.h"
#include "tests/support.h"

static inline tn_runtime *open_with(const char *plugins, const char *layers) {
  return open_runtime(&(tn_runtime_options){.struct_size = sizeof(tn_runtime_options),
                                            .device = "reference",
                                            .plugin_path = PLUGINS,
                                            .plugins = plugins,
                                            .layers = layers});
}

static tn_runtime *rt;
static tn_device *device;

static inline void setup(void) {
  rt = open_with("reference", NULL);
  device = tn_runtime_device(rt);
}
static inline void teardown(void) { tn_runtime_close(rt); }

/* Runs each call as it is and counts, or fails. */
typedef struct counter {
  call_watcher watcher; /* first */
  int calls, writes;
  uint32_t op;           /* of the last call */
  const tn_tensor *into; /* of the last write */
  tn_status answer;
} counter;

static inline tn_status count_call(call_watcher *w, const tn_call *call) {
  counter *c = (counter *)w;
  ++c->calls;
  c->op = call->op;
  return c->answer ? c->answer : tn_invoke(call);
}

static inline tn_status count_write(call_watcher *w, const tn_tensor *tensor) {
  counter *c = (counter *)w;
  ++c->writes;
  c->into = tensor;
  return c->answer;
}

static inline counter counter_of(tn_runtime *runtime) {
  return (counter){.watcher = {.call = count_call, .written = count_write, .runtime = runtime}};
}

static inline uint8_t attention(const tn_device *d) { return atomic_load(&d->attention); }

static inline void is_counting(const tn_tensor *t, int64_t size, float factor) {
  float values[64];
  ok(tn_tensor_to_host(t, values, (size_t)size * sizeof *values));
  for (int64_t i = 0; i < size; ++i) ck_assert_float_eq(values[i], factor * (float)(i + 1));
}

static inline tn_prepared *prepare_add(const tn_tensor *a, tn_tensor **y) {
  tn_prepared *p = NULL;
  const tn_tensor *in[2] = {a, a};
  ok(tn_prepare(&(tn_call){.struct_size = sizeof(tn_call),
                           .op = TN_OP_ADD,
                           .in = in,
                           .out = y,
                           .num_in = 2,
                           .num_out = 1},
                &p));
  return p;
}

#endif
