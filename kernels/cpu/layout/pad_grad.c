/*
 * pad_grad, row by row of dx: each of its rows is the sum of the rows of dy that read it
 * along the outer axes, folded along the innermost one. All tensors are dense.
 */
#include <string.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

typedef struct fold {
  const tn_host *host;
  const void *dy;
  void *dx;
  int rank, mode;
  int64_t n[TN_MAX_RANK], before[TN_MAX_RANK], after[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK]; /* of dy */
} fold;

/* Reader k of place j along axis d: an index of dy; false if there are no more. */
static bool reader(const fold *f, int d, int64_t j, int64_t k, int64_t *at) {
  const int64_t n = f->n[d], before = f->before[d], after = f->after[d], back = n - 1 - j;
  *at = before + j;
  if (k-- == 0) return true;
  if (f->mode == TN_PAD_EDGE) {
    if (j == 0 && k < before) return *at = k, true;
    if (j == 0) k -= before;
    *at = before + n + k;
    return back == 0 && k < after;
  }
  if (f->mode == TN_PAD_CONSTANT) return false;
  if (j > 0 && j <= before && k-- == 0) return *at = before - j, true;
  *at = before + n - 1 + back;
  return back > 0 && back <= after && k == 0;
}

/* The readers of one row of dx along its outer axes, in turn. */
typedef struct readers {
  int64_t place[TN_MAX_RANK], which[TN_MAX_RANK], at[TN_MAX_RANK];
} readers;

static int64_t readers_begin(const fold *f, int64_t row, readers *r) {
  int64_t offset = 0;
  for (int d = f->rank - 2; d >= 0; d--) {
    r->place[d] = row % f->n[d];
    row /= f->n[d];
    r->which[d] = 0;
    (void)reader(f, d, r->place[d], 0, &r->at[d]);
    offset += r->at[d] * f->step[d];
  }
  return offset;
}

/* Goes on to the next row of dy; false when all have been. */
static bool readers_next(const fold *f, readers *r, int64_t *offset) {
  for (int d = f->rank - 2; d >= 0; d--) {
    *offset -= r->at[d] * f->step[d];
    const bool more = reader(f, d, r->place[d], ++r->which[d], &r->at[d]);
    if (!more) {
      r->which[d] = 0;
      (void)reader(f, d, r->place[d], 0, &r->at[d]);
    }
    *offset += r->at[d] * f->step[d];
    if (more) return true;
  }
  return false;
}

static tn_status run_fold(const tn_kernel_args *args, tn_range_fn fn) {
  const tn_pad_grad_attrs *attrs = args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  fold f = {.host = args->host, .dy = dy->data, .dx = dx->data, .mode = (int)attrs->mode};
  f.rank = dx->ndim ? dx->ndim : 1;
  f.n[0] = f.step[0] = 1; /* of a scalar */
  int64_t step = 1;
  for (int d = dx->ndim - 1; d >= 0; d--) {
    f.n[d] = dx->shape[d];
    f.before[d] = attrs->before.count ? attrs->before.dim[d] : 0;
    f.after[d] = attrs->after.count ? attrs->after.dim[d] : 0;
    f.step[d] = step;
    step *= dy->shape[d];
  }
  const int64_t count = cpu_count(dx), width = f.n[f.rank - 1];
  if (count == 0) return TN_OK;
  return args->host->parallel_for(args->host, count / width, 1 + CPU_GRAIN_MATHS / width, fn, &f);
}

#define BODY "kernels/cpu/layout/pad_grad.inc"
#include "kernels/cpu/base/stamp_float.inc"
