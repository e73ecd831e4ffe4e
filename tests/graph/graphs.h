/* What the tests of graphs share: a runtime on host memory, graphs, numbers, programs. */
#ifndef TENON_TESTS_GRAPHS_H
#define TENON_TESTS_GRAPHS_H

#include "tenon/graph.h"
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *device;

static inline void setup(void) {
  rt = open_host_runtime();
  device = tn_runtime_device(rt);
}
static inline void teardown(void) { tn_runtime_close(rt); }

static inline tn_graph *make_graph(void) {
  tn_graph *g = NULL;
  ok(tn_graph_create(rt, "test", &g));
  return g;
}

static inline tn_tensor *input(tn_graph *g, const char *name, int64_t rows, int64_t columns) {
  tn_tensor *t = NULL;
  ok(tn_graph_input(g, name, TN_F32, 2, SHAPE(rows, columns), &t));
  return t;
}

/* Numbers that are never zero and never alike. */
static inline tn_tensor *numbers(tn_device *on, int64_t rows, int64_t columns, float first) {
  int64_t n = rows * columns;
  float *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) values[i] = first + (float)((i * 37) % 101) / 50;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(on, TN_F32, 2, SHAPE(rows, columns), values, &t));
  free(values);
  return t;
}

static inline void same(const tn_tensor *a, const tn_tensor *b) {
  size_t bytes = tn_tensor_bytes(a);
  ck_assert_uint_eq(bytes, tn_tensor_bytes(b));
  unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  ck_assert(memcmp(x, y, bytes) == 0);
  free(x);
  free(y);
}

static inline tn_program *compiled(tn_graph *g) {
  tn_program *p = NULL;
  ok(tn_graph_compile(g, device, NULL, &p));
  return p;
}

static inline tn_program_info report(tn_program *p) {
  tn_program_info info = {.struct_size = sizeof info};
  ok(tn_program_report(p, &info));
  return info;
}

#define RELEASE(...)                                                                               \
  do {                                                                                             \
    tn_tensor *all_[] = {__VA_ARGS__};                                                             \
    for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; ++i_) tn_tensor_release(all_[i_]);        \
  } while (0)

#endif
