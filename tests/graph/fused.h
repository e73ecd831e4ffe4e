/* What the tests of fusion share: operands, and models that must give what their calls give. */
#ifndef TENON_TESTS_GRAPH_FUSED_H
#define TENON_TESTS_GRAPH_FUSED_H

#include <math.h>

#include "tests/graph/graphs.h"

enum { M = 6, K = 5, N = 4 };

/* A model that is called on real tensors and on symbolic ones: x [M, K], w [K, N], b and c [N],
 * s [N, N]. Up to two results. */
typedef struct operands {
  tn_tensor *x, *w, *b, *c, *s;
} operands;
typedef void (*model)(const operands *o, tn_tensor *out[2]);

static inline tn_tensor *product(const operands *o) {
  tn_tensor *h = NULL;
  ok(tn_matmul(NULL, o->x, o->w, NULL, NULL, &h));
  return h;
}

/* Convolutions of [1, 1, M, K] by windows of 2 x 2 for each of N channels, scaled so that all
 * pieces of the activations are met. */
static inline tn_tensor *windows(const operands *o, bool transposed) {
  tn_tensor *x = NULL, *w = NULL, *b = NULL, *h = NULL, *big = NULL;
  ok(tn_add(NULL, o->x, o->x, &big));
  ok(tn_mul(NULL, big, big, &big));
  ok(tn_add(NULL, big, o->x, &big));
  ok(tn_tensor_reshape(big, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, transposed ? SHAPE(1, N, 2, 2) : SHAPE(N, 1, 2, 2), &w));
  ok(tn_tensor_reshape(o->b, 1, SHAPE(N), &b));
  ok(transposed ? tn_conv_transpose2d(NULL, x, w, b, NULL, &h)
                : tn_conv2d(NULL, x, w, b, NULL, &h));
  RELEASE(x, w, b, big);
  return h;
}
static inline operands real_operands(void) {
  tn_tensor *b = numbers(device, 1, N, -0.7f), *c = numbers(device, 1, N, 0.2f);
  operands o = {.x = numbers(device, M, K, -1),
                .w = numbers(device, K, N, -0.9f),
                .s = numbers(device, N, N, -1.1f)};
  ok(tn_tensor_reshape(b, 1, SHAPE(N), &o.b));
  ok(tn_tensor_reshape(c, 1, SHAPE(N), &o.c));
  RELEASE(b, c);
  return o;
}
static inline void free_operands(const operands *o) { RELEASE(o->x, o->w, o->b, o->c, o->s); }

static inline void near(const tn_tensor *a, const tn_tensor *b, double tolerance) {
  float x[2 * M * K * N], y[2 * M * K * N];
  size_t bytes = tn_tensor_bytes(a);
  ck_assert_uint_eq(bytes, tn_tensor_bytes(b));
  ck_assert_uint_le(bytes, sizeof x);
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  for (size_t i = 0; i < bytes / sizeof *x; ++i)
    ck_assert_msg(fabs((double)x[i] - (double)y[i]) <= tolerance * (1 + fabs((double)y[i])),
                  "element %zu is %g, by calls %g", i, (double)x[i], (double)y[i]);
}

/* The model as a program and by calls, with fusion, in which `fused` nodes go, and without. */
static inline void takes_up(model make, uint32_t fused) {
  operands real = real_operands(), o = {NULL};
  tn_graph *g = make_graph();
  tn_tensor *made[2] = {NULL}, *want[2] = {NULL};
  o.x = input(g, "x", M, K);
  ok(tn_graph_parameter(g, "w", real.w, &o.w));
  ok(tn_graph_parameter(g, "b", real.b, &o.b));
  ok(tn_graph_parameter(g, "c", real.c, &o.c));
  ok(tn_graph_parameter(g, "s", real.s, &o.s));
  make(&o, made);
  make(&real, want);
  for (int i = 0; i < 2; ++i)
    if (made[i]) ok(tn_graph_output(g, i ? "second" : "first", made[i]));
  const uint32_t count = 1 + (made[1] != NULL);
  for (uint32_t flags = 0; flags <= TN_COMPILE_AS_CALLED; ++flags) {
    tn_program *p = compiled_with(g, flags);
    tn_program_info info = report(p);
    if (flags == 0) ck_assert_uint_eq(info.fused, fused);
    if (flags & TN_COMPILE_NO_FUSION) ck_assert_uint_eq(info.fused, 0);
    ck_assert_uint_eq(info.nodes + info.left_out + info.merged + info.folded + info.fused,
                      tn_graph_num_nodes(g));
    for (int run = 0; run < 2; ++run) {
      tn_tensor *got[2] = {NULL};
      ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real.x}, count, got));
      for (uint32_t i = 0; i < count; ++i) near(got[i], want[i], 1e-6);
      RELEASE(got[0], got[1]);
    }
    tn_program_destroy(p);
  }
  RELEASE(made[0], made[1], want[0], want[1]);
  free_operands(&o);
  free_operands(&real);
  tn_graph_destroy(g);
}

#endif
