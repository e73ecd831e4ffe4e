/* What the tests of graphs share: a runtime on host memory, graphs, numbers, programs. */
#ifndef TENON_TESTS_GRAPHS_H
#define TENON_TESTS_GRAPHS_H

#include "tests/graph/tensors.h"

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

static inline tn_program *compiled(tn_graph *g) {
  tn_program *p = NULL;
  ok(tn_graph_compile(g, device, NULL, &p));
  return p;
}

static inline tn_program *compiled_with(tn_graph *g, uint32_t flags) {
  tn_compile_options options = {.struct_size = sizeof options, .flags = flags};
  tn_program *p = NULL;
  ok(tn_graph_compile(g, device, &options, &p));
  return p;
}

/* A graph without parameters, compiled with `flags` and as it was called: several runs of each give
 * the same bits. Every node is accounted for in what is returned, the program's report. */
static inline tn_program_info agree(tn_graph *g, uint32_t flags, size_t num_in,
                                    const tn_tensor *const *in) {
  enum { MOST = 8 };
  tn_program *p = compiled_with(g, flags), *q = compiled_with(g, TN_COMPILE_AS_CALLED);
  size_t num_out = tn_graph_num_outputs(g);
  tn_program_info info = report(p), plain = report(q);
  ck_assert_uint_eq(info.nodes + info.left_out + info.merged + info.folded + info.fused,
                    tn_graph_num_nodes(g));
  ck_assert_uint_eq(plain.nodes + plain.left_out, tn_graph_num_nodes(g));
  ck_assert_uint_le(num_out, MOST);
  for (int run = 0; run < 3; ++run) {
    tn_tensor *got[MOST] = {NULL}, *want[MOST] = {NULL};
    ok(tn_program_run(p, NULL, num_in, in, num_out, got));
    ok(tn_program_run(q, NULL, num_in, in, num_out, want));
    for (size_t i = 0; i < num_out; ++i) same(got[i], want[i]);
    for (size_t i = 0; i < num_out; ++i) tn_tensor_release(got[i]), tn_tensor_release(want[i]);
  }
  tn_program_destroy(p);
  tn_program_destroy(q);
  return info;
}

#endif
