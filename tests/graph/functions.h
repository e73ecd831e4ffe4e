/* What the tests of functions share: a model with sizes left open. */
#ifndef TENON_TESTS_FUNCTIONS_H
#define TENON_TESTS_FUNCTIONS_H

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/graph/graphs.h"

typedef struct model {
  tn_tensor *w;            /* [3, 4], of the device */
  atomic_int builds, stop; /* builds begun; how many of the next fail */
  atomic_int slow;         /* rows of which building takes its time */
  atomic_int inside, most; /* threads that build at once */
} model;

/* relu(x w) / sqrt(rows), as one row: host code computes with the sizes. */
static inline tn_status forward(const tn_tensor *x, const tn_tensor *w, tn_tensor **y) {
  tn_tensor *h = NULL, *r = NULL, *s = NULL, *scaled = NULL;
  const int64_t rows = tn_tensor_shape(x)[0];
  tn_status status = tn_matmul(NULL, x, w, NULL, NULL, &h);
  if (!status) status = tn_relu(NULL, h, &r);
  if (!status)
    status = tn_scalar(tn_tensor_device(x), NULL, TN_F32, rows ? 1 / sqrt((double)rows) : 1, &s);
  if (!status) status = tn_mul(NULL, r, s, &scaled);
  if (!status) status = tn_tensor_reshape(scaled, 1, SHAPE(rows * 4), y);
  RELEASE(h, r, s, scaled);
  return status;
}

static inline tn_status build_model(void *context, tn_graph *g, size_t num_in,
                                    tn_tensor *const *in) {
  model *m = context;
  tn_tensor *w = NULL, *y = NULL;
  int inside = atomic_fetch_add(&m->inside, 1) + 1, most = atomic_load(&m->most);
  while (inside > most && !atomic_compare_exchange_weak(&m->most, &most, inside)) continue;
  atomic_fetch_add(&m->builds, 1);
  ck_assert_uint_eq(num_in, 1);
  if (tn_tensor_shape(in[0])[0] == atomic_load(&m->slow)) usleep(60000);
  tn_status status = tn_graph_parameter(g, "w", m->w, &w);
  if (!status) status = forward(in[0], w, &y);
  if (!status) status = tn_graph_output(g, "y", y);
  RELEASE(w, y);
  if (!status && atomic_load(&m->stop) > 0) {
    atomic_fetch_sub(&m->stop, 1);
    status = tn_matmul(NULL, in[0], in[0], NULL, NULL, &y);
  }
  atomic_fetch_sub(&m->inside, 1);
  return status;
}

static const tn_function_input rows_of_3 = {
    .name = "x", .dtype = TN_F32, .rank = 2, .shape = (const int64_t[]){TN_SIZE_OPEN, 3}};

static inline tn_function *make(tn_function_build build, void *context, uint32_t max_programs,
                                const tn_function_input *inputs, size_t num_inputs) {
  const tn_function_options options = {.struct_size = sizeof options,
                                       .max_programs = max_programs,
                                       .inputs = inputs,
                                       .num_inputs = num_inputs,
                                       .input_size = sizeof *inputs};
  tn_function *f = NULL;
  ok(tn_function_create(rt, device, "model", build, context, &options, &f));
  return f;
}

static inline tn_function_info told(tn_function *f) {
  tn_function_info info = {.struct_size = sizeof info};
  ok(tn_function_report(f, &info));
  return info;
}

/* Runs it with so many rows, and compares with the calls themselves. */
static inline void run_rows(tn_function *f, const model *m, int64_t rows, float first) {
  tn_tensor *x = numbers(device, rows, 3, first), *want = NULL, *got = NULL;
  ok(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &got));
  ok(forward(x, m->w, &want));
  same(got, want);
  RELEASE(x, want, got);
}

#endif
