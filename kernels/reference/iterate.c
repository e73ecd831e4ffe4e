/* Views and walks; see iterate.h. */
#include "iterate.h"

view view_of(const DLTensor *tensor) {
  view v = {.dtype = tn_dtype_of(tensor->dtype), .ndim = tensor->ndim};
  if (tensor->data) v.data = (char *)tensor->data + tensor->byte_offset;
  for (int a = 0; a < v.ndim; ++a) {
    v.shape[a] = tensor->shape[a];
    v.stride[a] = tensor->strides[a];
  }
  return v;
}

view view_slice(view v, int axis, int64_t begin, int64_t count) {
  if (v.data) v.data = view_at(&v, begin * v.stride[axis]);
  v.shape[axis] = count;
  return v;
}

view view_permute(view v, int ndim, const int *order) {
  view p = {.data = v.data, .dtype = v.dtype, .ndim = ndim};
  for (int a = 0; a < ndim; ++a) {
    p.shape[a] = v.shape[order[a]];
    p.stride[a] = v.stride[order[a]];
  }
  return p;
}

view view_drop(view v, int axis) {
  int order[TN_MAX_RANK], ndim = 0;
  for (int a = 0; a < v.ndim; ++a)
    if (a != axis) order[ndim++] = a;
  return view_permute(v, ndim, order);
}

view view_broadcast(view v, int ndim, const int64_t *shape) {
  view b = {.data = v.data, .dtype = v.dtype, .ndim = ndim};
  for (int a = 0; a < ndim; ++a) {
    int from = a - (ndim - v.ndim);
    b.shape[a] = shape[a];
    b.stride[a] = from >= 0 && v.shape[from] == shape[a] ? v.stride[from] : 0;
  }
  return b;
}

int64_t view_count(const view *v) {
  int64_t count = 1;
  for (int a = 0; a < v->ndim; ++a) count *= v->shape[a];
  return count;
}

/* Whether, in every view, one step along axis `outer` is a whole pass along `inner`. */
static bool joins(const view *views, int num_views, int outer, int inner) {
  for (int v = 0; v < num_views; ++v)
    if (views[v].stride[outer] != views[v].stride[inner] * views[0].shape[inner]) return false;
  return true;
}

/* Appends axis a of the views to the walk, or joins it to the last one. */
static void add_axis(walk *w, const view *views, int a, int previous) {
  bool join = w->ndim > 0 && joins(views, w->num_views, previous, a);
  int to = join ? w->ndim - 1 : w->ndim++;
  w->shape[to] = join ? w->shape[to] * views[0].shape[a] : views[0].shape[a];
  for (int v = 0; v < w->num_views; ++v) w->views[v].stride[to] = views[v].stride[a];
}

walk walk_over(const view *views, int num_views, int64_t begin, int64_t end) {
  walk w = {.num_views = num_views, .next = begin, .last = end};
  for (int v = 0; v < num_views; ++v) {
    w.views[v].data = views[v].data;
    w.views[v].dtype = views[v].dtype;
  }
  int previous = -1;
  for (int a = 0; a < views[0].ndim; ++a) {
    if (views[0].shape[a] == 1) continue;
    add_axis(&w, views, a, previous);
    previous = a;
  }
  return w;
}

bool walk_next(walk *w) {
  if (w->next >= w->last) return false;
  int64_t offset[WALK_VIEWS] = {0}, rest = w->next, left = 1;
  for (int a = w->ndim - 1; a >= 0; --a) {
    int64_t index = rest % w->shape[a];
    rest /= w->shape[a];
    if (a == w->ndim - 1) left = w->shape[a] - index;
    for (int v = 0; v < w->num_views; ++v) offset[v] += index * w->views[v].stride[a];
  }
  for (int v = 0; v < w->num_views; ++v) {
    w->at[v] = view_at(&w->views[v], offset[v]);
    w->step[v] = w->ndim > 0 ? w->views[v].stride[w->ndim - 1] : 0;
  }
  if (left > w->last - w->next) left = w->last - w->next;
  w->first = w->next;
  w->n = left < WALK_RUN ? left : WALK_RUN;
  w->next += w->n;
  return true;
}

void gather(view v, double *to) {
  walk w = walk_over(&v, 1, 0, view_count(&v));
  while (walk_next(&w)) load_f64(v.dtype, w.at[0], w.step[0], w.n, to + w.first);
}

void scatter(view v, const double *from) {
  walk w = walk_over(&v, 1, 0, view_count(&v));
  while (walk_next(&w)) store_f64(v.dtype, w.at[0], w.step[0], w.n, from + w.first);
}

double *scratch_alloc(const tn_host *host, int64_t n) {
  size_t bytes;
  double *p = NULL;
  if (!__builtin_mul_overflow(n, (int64_t)sizeof(double), &bytes)) p = host->alloc(host, bytes, 64);
  if (!p) host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld numbers of scratch", (long long)n);
  return p;
}
