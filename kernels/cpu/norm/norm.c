/*
 * Normalisation and its gradients over x seen as [n, c, inner]. A set is what mean and
 * variance are taken over: a channel (batch norm), or one of `groups` runs of channels of
 * a sample (all others; layer norm has inner 1 and one group). A plane is one channel of
 * one sample.
 *
 * Statistics are sums of doubles, which hold the square of every float, and stay doubles: a
 * mean rounded to float is off by more than a small variance. Sums of floats and of their squares
 * come from one pass; where the mean outweighs the deviation, squares of distances from it are
 * summed in another. A float element is normalised in float by a mean in two parts, unless
 * something on the way could leave float's range. For doubles the distance from a set's first
 * element is summed, so that equal elements have no variance; floats that are equal have an exact
 * mean without.
 */
#include <math.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/cpu.h"

enum { NORM_BATCH = -1, NORM_BLOCK = 2048, NORM_TILE = 256, NORM_ROWS = 64, NORM_PARTS = 32 };

/* rstd is 1 / sqrt(var + eps). */
typedef struct norm_stat {
  double mean, var, rstd;
} norm_stat;

typedef struct norm_call {
  const tn_host *host;
  const void *x, *dy;
  void *y;                       /* or dx */
  const void *gamma, *beta;      /* of the type computed in, always there */
  const void *mean_in, *rstd_in; /* mean_in NULL: not centred */
  void *mean, *rstd;             /* NULL: nobody asks */
  norm_stat *channels;           /* of batch norm */
  void *factors;                 /* of samples: two parts of the mean and a factor each */
  void *running_mean, *running_var;
  double *sums;                     /* per plane, or per part and channel: sum dy, sum dy z */
  void *shift, *shift_low, *slope;  /* per set: mean of g in two parts, mean of g z */
  int64_t n, c, inner, groups, per; /* per: channels of a group */
  int64_t size;                     /* elements of a set */
  int64_t parts, part_rows;         /* of the rows, where columns are summed */
  double *room;                     /* of parts: sums of few rows */
  bool centred;
  double eps, momentum;
} norm_call;

static norm_call norm_open(const tn_kernel_args *args, const DLTensor *x, int first, int last,
                           int64_t groups) {
  norm_call k = {.host = args->host, .x = x->data, .n = 1, .c = 1, .inner = 1, .centred = true};
  for (int d = 0; d < x->ndim; d++) *(d < first ? &k.n : d < last ? &k.c : &k.inner) *= x->shape[d];
  k.groups = groups;
  k.per = groups > 0 ? k.c / groups : k.c;
  k.size = groups == NORM_BATCH ? k.n * k.inner : k.per * k.inner;
  return k;
}

static norm_call norm_by_channel(const tn_kernel_args *args, const DLTensor *x, int64_t groups) {
  return norm_open(args, x, 1, 2, groups);
}

static norm_call norm_by_row(const tn_kernel_args *args, const DLTensor *x, int64_t axis) {
  return norm_open(args, x, (int)(axis < 0 ? axis + x->ndim : axis), x->ndim, 1);
}

static inline int64_t norm_set(const norm_call *k, int64_t plane) {
  const int64_t channel = plane % k->c;
  return k->groups == NORM_BATCH ? channel : plane / k->c * k->groups + channel / k->per;
}

/* Whether float holds (x - mean) times the factor, a set's rstd or that times gamma, and what
 * lies between: x is within sqrt(size) / rstd of the mean. */
static inline bool norm_fits_float(norm_stat s, double factor) {
  const double size = fabs(factor);
  return fabs(s.mean) < 0x1p100 && s.rstd > 0x1p-60 && s.rstd < 0x1p60 &&
         (size == 0 || (size > 0x1p-100 && size < 0x1p100));
}

static tn_status norm_parallel(norm_call *k, int64_t count, int64_t each, tn_range_fn fn) {
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / cpu_max(1, each));
  if (count == 0) return TN_OK;
  if (count <= grain) return fn(k, 0, count);
  return k->host->parallel_for(k->host, count, grain, fn, k);
}

static void *norm_scratch(const norm_call *k, int64_t count, size_t bytes) {
  void *p = k->host->alloc(k->host, (size_t)count * bytes, 64);
  if (!p) k->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld numbers", (long long)count);
  return p;
}

/* Weights come in any float type. */
static double weight_load(const DLTensor *t, int64_t i) {
  if (t->dtype.code == kDLBfloat) return bf16_load(((const uint16_t *)t->data)[i]);
  if (t->dtype.bits == 16) return f16_load(((const uint16_t *)t->data)[i]);
  return t->dtype.bits == 32 ? ((const float *)t->data)[i] : ((const double *)t->data)[i];
}

static void weight_store(const DLTensor *t, int64_t i, double value) {
  if (t->dtype.code == kDLBfloat)
    ((uint16_t *)t->data)[i] = bf16_store((float)value);
  else if (t->dtype.bits == 16)
    ((uint16_t *)t->data)[i] = f16_store((float)value);
  else if (t->dtype.bits == 32)
    ((float *)t->data)[i] = (float)value;
  else
    ((double *)t->data)[i] = value;
}

/* dbeta and dgamma from the sums of planes or of parts; either may be NULL. */
static void norm_store_weights(const norm_call *k, DLTensor *dgamma, DLTensor *dbeta) {
  const int64_t rows = k->parts ? k->parts : k->n;
  for (int64_t c = 0; c < k->c && (dgamma || dbeta); c++) {
    double by_one = 0, by_z = 0;
    for (int64_t r = 0; r < rows; r++) {
      by_one += k->sums[(r * k->c + c) * 2];
      by_z += k->sums[(r * k->c + c) * 2 + 1];
    }
    if (dgamma) weight_store(dgamma, c, by_z);
    if (dbeta) weight_store(dbeta, c, by_one);
  }
}

#define BODY "kernels/cpu/norm/norm.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/norm/norm_grad.inc"
#include "kernels/cpu/base/stamp_float.inc"
