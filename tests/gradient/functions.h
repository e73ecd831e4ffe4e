/*
 * Functions of two inputs, x [4, 4] and w [4] in float64, as graphs: their gradients, computed by
 * programs, against differences of the same program.
 */
#ifndef TENON_TESTS_GRADIENT_FUNCTIONS_H
#define TENON_TESTS_GRADIENT_FUNCTIONS_H

#include <math.h>
#include <stdio.h>

#include "tests/graph/graphs.h"

enum { X_SIZE = 16, W_SIZE = 4 };

/* Calls on x and w, which are on this device; a scalar. */
typedef tn_tensor *(*function)(tn_device *on, const tn_tensor *x, const tn_tensor *w,
                               uint64_t seed);

/* x and w, and a program of the loss with its gradients, of some order. */
typedef struct differentiated {
  tn_graph *graph;
  tn_program *program;
  tn_tensor *x, *w, *loss;
  double numbers[X_SIZE + W_SIZE]; /* x's, then w's */
  tn_status status;                /* of the gradient */
  bool depends[2];
} differentiated;

static inline double number_at(uint64_t seed) {
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ seed >> 31) * 0xbf58476d1ce4e5b9u;
  return (double)(seed >> 11) * 0x1p-53;
}

static inline void release(tn_tensor **t) {
  tn_tensor_release(*t);
  *t = NULL;
}

/* sum(t * c), c being other numbers for each `seed` and place. */
static inline tn_tensor *weighted_sum(tn_device *on, const tn_tensor *t, uint64_t seed) {
  double c[256];
  tn_tensor *weights = NULL, *product = NULL, *sum = NULL;
  int64_t n = tn_tensor_elements(t);
  ck_assert_int_le(n, 256);
  for (int64_t i = 0; i < n; ++i) c[i] = 0.5 + number_at(seed * 1000 + (uint64_t)i);
  ok(tn_tensor_from_host(on, TN_F64, tn_tensor_rank(t), tn_tensor_shape(t), c, &weights));
  ok(tn_mul(NULL, t, weights, &product));
  ok(tn_sum(NULL, product, NULL, &sum));
  RELEASE(weights, product);
  return sum;
}

static inline void add_to(tn_tensor **sum, tn_tensor *part) {
  tn_tensor *next = NULL;
  if (!*sum) {
    *sum = part;
    return;
  }
  ok(tn_add(NULL, *sum, part, &next));
  RELEASE(*sum, part);
  *sum = next;
}

/* The gradients of d->loss by x and w; of a higher order, of sum(c g) of those before. */
static inline void take_gradients(differentiated *d, tn_tensor **gradients, int order) {
  tn_tensor *wrt[2] = {d->x, d->w};
  d->status = tn_graph_gradient(d->graph, d->loss, 2, wrt, gradients);
  if (d->status || order == 1) return;
  tn_tensor *next = NULL;
  for (int i = 0; i < 2; ++i)
    if (gradients[i])
      add_to(&next, weighted_sum(tn_graph_device(d->graph), gradients[i], 900 + (uint64_t)i));
  release(&gradients[0]);
  release(&gradients[1]);
  if (!next) return;
  release(&d->loss);
  d->loss = next;
  take_gradients(d, gradients, order - 1);
}

static inline differentiated differentiate(function f, uint64_t seed, int order) {
  differentiated d = {.graph = make_graph()};
  tn_tensor *gradients[2] = {NULL, NULL};
  ok(tn_graph_input(d.graph, "x", TN_F64, 2, SHAPE(4, 4), &d.x));
  ok(tn_graph_input(d.graph, "w", TN_F64, 1, SHAPE(4), &d.w));
  for (uint64_t i = 0; i < X_SIZE + W_SIZE; ++i)
    d.numbers[i] = 0.3 + 0.7 * number_at(seed * 50 + i);
  d.loss = f(tn_graph_device(d.graph), d.x, d.w, seed);
  take_gradients(&d, gradients, order);
  if (d.status) return d;
  ok(tn_graph_output(d.graph, "loss", d.loss));
  for (int i = 0; i < 2; ++i) {
    d.depends[i] = gradients[i] != NULL;
    if (gradients[i]) ok(tn_graph_output(d.graph, i ? "dw" : "dx", gradients[i]));
  }
  ok(tn_graph_compile(d.graph, device, NULL, &d.program));
  RELEASE(gradients[0], gradients[1]);
  return d;
}

static inline void differentiated_free(differentiated *d) {
  RELEASE(d->x, d->w, d->loss);
  tn_program_destroy(d->program);
  tn_graph_destroy(d->graph);
}

/* The loss at d->numbers + step * direction; gradient, unless it is NULL, by all of them. */
static inline double loss_at(const differentiated *d, const double *direction, double step,
                             double *gradient) {
  double numbers[X_SIZE + W_SIZE], loss;
  tn_tensor *in[2] = {NULL}, *out[3] = {NULL};
  for (int i = 0; i < X_SIZE + W_SIZE; ++i) numbers[i] = d->numbers[i] + step * direction[i];
  ok(tn_tensor_from_host(device, TN_F64, 2, SHAPE(4, 4), numbers, &in[0]));
  ok(tn_tensor_from_host(device, TN_F64, 1, SHAPE(4), numbers + X_SIZE, &in[1]));
  const size_t num_out = 1u + d->depends[0] + d->depends[1];
  ok(tn_program_run(d->program, NULL, 2, (const tn_tensor *[]){in[0], in[1]}, num_out, out));
  ok(tn_tensor_to_host(out[0], &loss, sizeof loss));
  if (gradient) memset(gradient, 0, sizeof numbers);
  if (gradient && d->depends[0]) ok(tn_tensor_to_host(out[1], gradient, X_SIZE * sizeof *gradient));
  if (gradient && d->depends[1])
    ok(tn_tensor_to_host(out[num_out - 1], gradient + X_SIZE, W_SIZE * sizeof *gradient));
  RELEASE(in[0], in[1], out[0], out[1], out[2]);
  return loss;
}

/* Element by element. Whether the loss was small enough to say anything. */
static inline bool gradient_holds(const differentiated *d, uint64_t seed) {
  double gradient[X_SIZE + W_SIZE], size = 0;
  const double none[X_SIZE + W_SIZE] = {0}, h = 1e-3;
  const double at = loss_at(d, none, 0, gradient);
  if (!(fabs(at) < 1e4)) return false;
  for (int i = 0; i < X_SIZE + W_SIZE; ++i) size = fmax(size, fabs(gradient[i]));
  if (!(size < 1e5)) return false;
  for (int i = 0; i < X_SIZE + W_SIZE; ++i) {
    double direction[X_SIZE + W_SIZE] = {0}, slope[2];
    direction[i] = 1;
    for (int k = 0; k < 2; ++k) {
      const double step = h / (1 << k);
      slope[k] =
          (loss_at(d, direction, step, NULL) - loss_at(d, direction, -step, NULL)) / 2 / step;
    }
    const double want = (4 * slope[1] - slope[0]) / 3;
    ck_assert_msg(fabs(want - gradient[i]) <= 1e-6 * fmax(size, fmax(fabs(want), 1e-3 * fabs(at))),
                  "seed %llu, element %d: %.12g, the difference is %.12g", (unsigned long long)seed,
                  i, gradient[i], want);
  }
  return true;
}

/* The function's gradients of this order are those of differences. */
static inline void holds(function f, uint64_t seed, int order) {
  differentiated d = differentiate(f, seed, order);
  ck_assert_msg(!d.status, "%s", tn_last_error());
  ck_assert(gradient_holds(&d, seed));
  differentiated_free(&d);
}

#endif
