/* Scalar and outer products of vectors, batched. */
#include "iterate.h"
#include "kernels.h"

enum { Y, A, B };

typedef struct dot_call {
  view views[3]; /* under y's axes, without the last axes of a and b */
  int64_t k, step[3];
} dot_call;

static double dot_f64(const dot_call *c, const walk *w, int64_t i) {
  double a[WALK_RUN], b[WALK_RUN], sum = 0;
  for (int64_t p = 0; p < c->k; p += WALK_RUN) {
    int64_t n = c->k - p < WALK_RUN ? c->k - p : WALK_RUN;
    const char *at = walk_at(w, A, i), *bt = walk_at(w, B, i);
    int64_t bytes = (int64_t)tn_dtype_size(c->views[A].dtype) * p;
    load_f64(c->views[A].dtype, at + bytes * c->step[A], c->step[A], n, a);
    load_f64(c->views[B].dtype, bt + bytes * c->step[B], c->step[B], n, b);
    for (int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  }
  return sum;
}

static int64_t dot_i64(const dot_call *c, const walk *w, int64_t i) {
  int64_t a[WALK_RUN], b[WALK_RUN];
  uint64_t sum = 0;
  for (int64_t p = 0; p < c->k; p += WALK_RUN) {
    int64_t n = c->k - p < WALK_RUN ? c->k - p : WALK_RUN;
    const char *at = walk_at(w, A, i), *bt = walk_at(w, B, i);
    int64_t bytes = (int64_t)tn_dtype_size(c->views[A].dtype) * p;
    load_i64(c->views[A].dtype, at + bytes * c->step[A], c->step[A], n, a);
    load_i64(c->views[B].dtype, bt + bytes * c->step[B], c->step[B], n, b);
    for (int64_t j = 0; j < n; ++j) sum += (uint64_t)a[j] * (uint64_t)b[j];
  }
  return (int64_t)sum;
}

static tn_status dot_range(void *ctx, int64_t begin, int64_t end) {
  const dot_call *c = ctx;
  tn_dtype dtype = c->views[Y].dtype;
  walk w = walk_over(c->views, 3, begin, end);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      if (dtype_is_float(dtype)) {
        double sum = dot_f64(c, &w, i);
        store_f64(dtype, walk_at(&w, Y, i), 1, 1, &sum);
      } else {
        int64_t sum = dot_i64(c, &w, i);
        store_i64(dtype, walk_at(&w, Y, i), 1, 1, &sum);
      }
    }
  }
  return TN_OK;
}

tn_status reference_dot(const tn_kernel_args *args) {
  view y = view_of(args->out[0]);
  dot_call c = {.views = {y}};
  for (int i = 0; i < 2; ++i) {
    view x = view_of(args->in[i]);
    c.k = x.shape[x.ndim - 1];
    c.step[A + i] = x.stride[x.ndim - 1];
    c.views[A + i] = view_broadcast(view_drop(x, x.ndim - 1), y.ndim, y.shape);
  }
  int64_t count = view_count(&y);
  if (count == 0) return TN_OK;
  return args->host->parallel_for(args->host, count, 1 + 4096 / (c.k + 1), dot_range, &c);
}

/* v with an axis of size 1 put in at `axis`. */
static view with_axis(view v, int axis) {
  for (int a = v.ndim++; a > axis; --a) {
    v.shape[a] = v.shape[a - 1];
    v.stride[a] = v.stride[a - 1];
  }
  v.shape[axis] = 1;
  v.stride[axis] = 0;
  return v;
}

static tn_status outer_range(void *ctx, int64_t begin, int64_t end) {
  const view *views = ctx;
  walk w = walk_over(views, 3, begin, end);
  while (walk_next(&w)) {
    if (dtype_is_float(views[Y].dtype)) {
      double a[WALK_RUN], b[WALK_RUN];
      load_f64(views[A].dtype, w.at[A], w.step[A], w.n, a);
      load_f64(views[B].dtype, w.at[B], w.step[B], w.n, b);
      for (int64_t i = 0; i < w.n; ++i) a[i] *= b[i];
      store_f64(views[Y].dtype, w.at[Y], w.step[Y], w.n, a);
    } else {
      int64_t a[WALK_RUN], b[WALK_RUN];
      load_i64(views[A].dtype, w.at[A], w.step[A], w.n, a);
      load_i64(views[B].dtype, w.at[B], w.step[B], w.n, b);
      for (int64_t i = 0; i < w.n; ++i) a[i] = (int64_t)((uint64_t)a[i] * (uint64_t)b[i]);
      store_i64(views[Y].dtype, w.at[Y], w.step[Y], w.n, a);
    }
  }
  return TN_OK;
}

tn_status reference_outer(const tn_kernel_args *args) {
  view y = view_of(args->out[0]), a = view_of(args->in[0]), b = view_of(args->in[1]);
  view views[3] = {y};
  views[A] = view_broadcast(with_axis(a, a.ndim), y.ndim, y.shape);
  views[B] = view_broadcast(with_axis(b, b.ndim - 1), y.ndim, y.shape);
  int64_t count = view_count(&y);
  return count ? args->host->parallel_for(args->host, count, 4096, outer_range, views) : TN_OK;
}
