/*
 * Reading one axis at places, and normalising by neighbouring channels: whole tensors as dense
 * doubles, seen as [outer, axis, inner].
 */
#include <math.h>

#include "iterate.h"
#include "kernels.h"
#include "kernels/common/resample.h"

/* What the operators have in common: both tensors as doubles. */
typedef struct lines {
  view x, y;
  int64_t outer, size, out, inner;
  double *from, *to;
} lines;

static tn_status lines_begin(lines *l, const tn_kernel_args *args, int64_t axis) {
  l->x = view_of(args->in[0]);
  l->y = view_of(args->out[0]);
  const int at = axis_index(axis, l->x.ndim);
  l->outer = l->inner = 1;
  for (int d = 0; d < at; ++d) l->outer *= l->x.shape[d];
  for (int d = at + 1; d < l->x.ndim; ++d) l->inner *= l->x.shape[d];
  l->size = l->x.shape[at];
  l->out = l->y.shape[at];
  const int64_t read = view_count(&l->x), written = view_count(&l->y);
  l->from = scratch_alloc(args->host, read + written);
  if (!l->from) return TN_ERR_OUT_OF_MEMORY;
  l->to = l->from + read;
  gather(l->x, l->from);
  for (int64_t i = 0; i < written; ++i) l->to[i] = 0;
  return TN_OK;
}

static tn_status lines_end(lines *l, const tn_kernel_args *args) {
  scatter(l->y, l->to);
  args->host->free(args->host, l->from);
  return TN_OK;
}

/* One element of y along the axis, for all that stands beside it. */
static void read_place(const lines *l, const resample_plan *p, int64_t i, double value) {
  const resample_reading r = resample_read(p, i);
  for (int64_t o = 0; o < l->outer; ++o) {
    double *y = l->to + (o * l->out + i) * l->inner;
    if (r.first > r.last)
      for (int64_t k = 0; k < l->inner; ++k) y[k] = value;
    for (int64_t j = r.first; j <= r.last; ++j) {
      const double w = resample_weight(p, r.place, j) / r.total;
      const double *x = l->from + (o * l->size + resample_inside(p, j)) * l->inner;
      for (int64_t k = 0; k < l->inner; ++k) y[k] += w * x[k];
    }
  }
}

/* The same backwards: l->from is dy, l->to dx. */
static void spread_place(const lines *l, const resample_plan *p, int64_t i) {
  const resample_reading r = resample_read(p, i);
  for (int64_t o = 0; o < l->outer; ++o) {
    const double *dy = l->from + (o * l->size + i) * l->inner;
    for (int64_t j = r.first; j <= r.last; ++j) {
      const double w = resample_weight(p, r.place, j) / r.total;
      double *dx = l->to + (o * l->out + resample_inside(p, j)) * l->inner;
      for (int64_t k = 0; k < l->inner; ++k) dx[k] += w * dy[k];
    }
  }
}

tn_status reference_resample(const tn_kernel_args *args) {
  const tn_resample_attrs *a = args->attrs;
  lines l;
  tn_status status = lines_begin(&l, args, a->axis);
  if (status) return status;
  const resample_plan plan = RESAMPLE_PLAN(a, l.size, l.out);
  for (int64_t i = 0; i < l.out; ++i) read_place(&l, &plan, i, a->value);
  return lines_end(&l, args);
}

tn_status reference_resample_grad(const tn_kernel_args *args) {
  const tn_resample_grad_attrs *a = args->attrs;
  lines l;
  tn_status status = lines_begin(&l, args, a->axis);
  if (status) return status;
  const resample_plan plan = RESAMPLE_PLAN(a, l.out, l.size);
  for (int64_t i = 0; i < l.size; ++i) spread_place(&l, &plan, i);
  return lines_end(&l, args);
}

tn_status reference_local_response_norm(const tn_kernel_args *args) {
  const tn_local_response_norm_attrs *a = args->attrs;
  lines l;
  tn_status status = lines_begin(&l, args, 1);
  if (status) return status;
  for (int64_t o = 0; o < l.outer; ++o)
    for (int64_t c = 0; c < l.size; ++c)
      for (int64_t k = 0; k < l.inner; ++k) {
        const double *x = l.from + o * l.size * l.inner + k;
        double sum = 0;
        const int64_t before = (a->size - 1) / 2;
        for (int64_t j = c < before ? 0 : c - before; j <= c + a->size / 2 && j < l.size; ++j)
          sum += x[j * l.inner] * x[j * l.inner];
        l.to[(o * l.size + c) * l.inner + k] =
            x[c * l.inner] * pow(a->bias + a->alpha / (double)a->size * sum, -a->beta);
      }
  return lines_end(&l, args);
}
