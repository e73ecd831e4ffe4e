/*
 * Scalar products, a thread per share of rows, and outer products, which are elementwise
 * products of tensors expanded along each other's axis.
 */
#include "kernels/common/broadcast.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

typedef struct dot_call {
  const DLTensor *a, *b, *y;
  int64_t k, step_a, step_b;                          /* of the vectors */
  int64_t batch_a[TN_MAX_RANK], batch_b[TN_MAX_RANK]; /* of the axes around them */
} dot_call;

/* Elements from the first to element `index` of y in row-major order. */
static int64_t dot_offset(const dot_call *c, const int64_t *step, int64_t index) {
  int64_t at = 0;
  for (int d = c->y->ndim - 1; d >= 0; d--) {
    at += index % c->y->shape[d] * step[d];
    index /= c->y->shape[d];
  }
  return at;
}

static tn_status dot_run(const tn_kernel_args *args, tn_range_fn fn) {
  dot_call c = {.a = args->in[0], .b = args->in[1], .y = args->out[0]};
  const int64_t n = cpu_count(c.y);
  c.k = c.a->shape[c.a->ndim - 1];
  c.step_a = c.a->strides[c.a->ndim - 1];
  c.step_b = c.b->strides[c.b->ndim - 1];
  batch_steps(c.a, c.y, c.y->ndim, c.batch_a);
  batch_steps(c.b, c.y, c.y->ndim, c.batch_b);
  const int64_t grain = 1 + CPU_GRAIN_CHEAP / (c.k + 1);
  if (n <= grain) return fn(&c, 0, n);
  return args->host->parallel_for(args->host, n, grain, fn, &c);
}

#define BODY "kernels/cpu/matmul/vectors.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
