/* Softmax, its logarithm and their gradients: one slice along the axis at a time. */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

/* Makes a slice of the output out of the inputs' slices, which it may spoil. */
typedef void (*slice_fn)(int64_t n, double *const *in, double *out);

enum { SLICE_VIEWS = 3 }; /* two inputs, one output */

typedef struct slices {
  const tn_host *host;
  view kept[SLICE_VIEWS];       /* the tensors without the axis; the output is last */
  int64_t step[SLICE_VIEWS], n; /* along the axis */
  int num_views;
  slice_fn fn;
} slices;

static tn_status slices_range(void *ctx, int64_t begin, int64_t end) {
  const slices *s = ctx;
  int num_in = s->num_views - 1;
  double *room = scratch_alloc(s->host, s->n * s->num_views), *at[SLICE_VIEWS];
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int v = 0; v < s->num_views; ++v) at[v] = room + v * s->n;
  walk w = walk_over(s->kept, s->num_views, begin, end);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      for (int v = 0; v < num_in; ++v)
        load_f64(s->kept[v].dtype, walk_at(&w, v, i), s->step[v], s->n, at[v]);
      s->fn(s->n, at, at[num_in]);
      store_f64(s->kept[num_in].dtype, walk_at(&w, num_in, i), s->step[num_in], s->n, at[num_in]);
    }
  }
  s->host->free(s->host, room);
  return TN_OK;
}

static tn_status map_slices(const tn_kernel_args *args, int64_t attr_axis, slice_fn fn) {
  slices s = {.host = args->host, .num_views = args->num_in + 1, .fn = fn};
  int axis = axis_index(attr_axis, args->in[0]->ndim);
  for (int v = 0; v < s.num_views; ++v) {
    view whole = view_of(v < args->num_in ? args->in[v] : args->out[0]);
    s.n = whole.shape[axis];
    s.step[v] = whole.stride[axis];
    s.kept[v] = view_drop(whole, axis);
  }
  int64_t count = s.n ? view_count(&s.kept[0]) : 0, grain = 1 + 4096 / (s.n + 1);
  return count ? s.host->parallel_for(s.host, count, grain, slices_range, &s) : TN_OK;
}

/* Replaces x by its distance from the maximum and returns sum e^x. */
static double centre(int64_t n, double *x) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] > most) most = x[i];
  for (int64_t i = 0; i < n; ++i) {
    x[i] -= most;
    sum += exp(x[i]);
  }
  return sum;
}

static void softmax(int64_t n, double *const *in, double *out) {
  double sum = centre(n, in[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = exp(in[0][i]) / sum;
}

static void log_softmax(int64_t n, double *const *in, double *out) {
  double log_sum = log(centre(n, in[0]));
  for (int64_t i = 0; i < n; ++i) out[i] = in[0][i] - log_sum;
}

static void softmax_grad(int64_t n, double *const *in, double *out) {
  const double *dy = in[0], *y = in[1];
  double dot = 0;
  for (int64_t i = 0; i < n; ++i) dot += dy[i] * y[i];
  for (int64_t i = 0; i < n; ++i) out[i] = y[i] * (dy[i] - dot);
}

static void log_softmax_grad(int64_t n, double *const *in, double *out) {
  const double *dy = in[0], *y = in[1];
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += dy[i];
  for (int64_t i = 0; i < n; ++i) out[i] = dy[i] - exp(y[i]) * sum;
}

tn_status reference_softmax(const tn_kernel_args *args) {
  const tn_softmax_attrs *attrs = args->attrs;
  return map_slices(args, attrs->axis, softmax);
}

tn_status reference_log_softmax(const tn_kernel_args *args) {
  const tn_log_softmax_attrs *attrs = args->attrs;
  return map_slices(args, attrs->axis, log_softmax);
}

tn_status reference_softmax_grad(const tn_kernel_args *args) {
  const tn_softmax_grad_attrs *attrs = args->attrs;
  return map_slices(args, attrs->axis, softmax_grad);
}

tn_status reference_log_softmax_grad(const tn_kernel_args *args) {
  const tn_log_softmax_grad_attrs *attrs = args->attrs;
  return map_slices(args, attrs->axis, log_softmax_grad);
}
