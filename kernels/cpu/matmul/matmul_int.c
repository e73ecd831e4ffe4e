/*
 * matmul_int: products of integers in their own type. A share of rows of y is summed in blocks of
 * its columns, several rows together, so that a row of b that was loaded is used several times.
 */
#include "kernels/common/broadcast.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { ROWS = 4, COLUMNS = 256 };

/* Row-major matrices, `step` elements from one batch to the next. */
typedef struct int_call {
  const DLTensor *a, *b, *y;
  int64_t m, n, k;
  int64_t batch_a[TN_MAX_RANK], batch_b[TN_MAX_RANK];
} int_call;

static int64_t batch_offset(const int_call *c, const int64_t *step, int64_t item) {
  int64_t at = 0;
  for (int d = c->y->ndim - 3; d >= 0; d--) {
    at += item % c->y->shape[d] * step[d];
    item /= c->y->shape[d];
  }
  return at;
}

static tn_status run_int(const tn_kernel_args *args, tn_range_fn fn) {
  int_call c = {.a = args->in[0], .b = args->in[1], .y = args->out[0]};
  const int batch = c.y->ndim - 2;
  DLTensor a = *c.a, b = *c.b;
  if (cpu_count(c.y) == 0) return TN_OK;
  a.ndim -= 1; /* batch_steps leaves out the last axis */
  b.ndim -= 1;
  batch_steps(&a, c.y, batch, c.batch_a);
  batch_steps(&b, c.y, batch, c.batch_b);
  c.m = c.y->shape[batch];
  c.n = c.y->shape[batch + 1];
  c.k = c.a->shape[c.a->ndim - 1];
  const double row = (double)c.n * (double)(c.k + 1);
  const int64_t grain = 1 + (int64_t)(1e5 / row);
  return args->host->parallel_for(args->host, cpu_count(c.y) / c.n, cpu_max(grain, ROWS), fn, &c);
}

#define BODY "kernels/cpu/matmul/matmul_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
