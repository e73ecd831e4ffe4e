/*
 * How a buffer's gradient comes together from parts by its views. One part alone is kept as it
 * came, and parts by the same view are added, whatever the order of its axes; only where different
 * views meet is there memory of the buffer's size, zero but for what arrived.
 */
#include <string.h>

#include "dispatcher/base/error.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/gradient/walk.h"
#include "graph/objects.h"
#include "tenon/ops.h"

void gradient_free(buffer_gradient *g) {
  tn_tensor_release(g->whole);
  tn_tensor_release(g->flat);
  g->whole = g->flat = NULL;
}

/* --- layouts --- */

static bool same_layout(const record_value *a, const record_value *b) {
  size_t bytes = (size_t)a->rank * sizeof(int64_t);
  return a->rank == b->rank && a->offset == b->offset && !memcmp(a->shape, b->shape, bytes) &&
         !memcmp(a->strides, b->strides, bytes);
}

static int64_t elements_of(const record_value *v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v->rank; ++i) n *= v->shape[i];
  return n;
}

static int64_t buffer_elements(const gradient_walk *w, const record_value *v) {
  return (int64_t)(w->extent[v->buffer] / tn_dtype_size(v->dtype));
}

/* The buffer's elements in their order, each once. */
static bool is_row_major(const gradient_walk *w, const record_value *v) {
  return v->offset == 0 && elements_of(v) == buffer_elements(w, v) &&
         strides_are_contiguous(v->rank, v->shape, v->strides);
}

/* Axes of other than one element, those of larger steps first. Returns how many. */
static int32_t order_of(const record_value *v, int32_t *order) {
  int32_t n = 0;
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->shape[i] == 1) continue;
    int32_t at = n++;
    for (; at > 0 && v->strides[order[at - 1]] < v->strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  return n;
}

/* The view with these axes alone: two that show the same elements have one layout. */
static record_value arranged(const record_value *v, const int32_t *order, int32_t n) {
  record_value a = *v;
  a.rank = n;
  for (int32_t i = 0; i < n; ++i) {
    a.shape[i] = v->shape[order[i]];
    a.strides[i] = v->strides[order[i]];
  }
  return a;
}

static bool keeps_order(const int32_t *order, int32_t n, int32_t rank) {
  for (int32_t i = 0; i < n; ++i)
    if (order[i] != i) return false;
  return n == rank;
}

/* `t` with the axes order[0], order[1], ... */
static tn_status take_axes(const tn_tensor *t, const int32_t *order, int32_t n, tn_tensor **view) {
  tn_status status = tensor_view(t, view);
  if (status) return status;
  (*view)->dl.ndim = n;
  for (int32_t i = 0; i < n; ++i) {
    (*view)->shape[i] = t->shape[order[i]];
    (*view)->strides[i] = t->strides[order[i]];
  }
  tensor_finish(*view);
  return TN_OK;
}

/* The reverse: `t` as a view of v's shape, of which it has the axes of more than one element. */
static tn_status put_axes(const tn_tensor *t, const int32_t *order, int32_t n,
                          const record_value *v, tn_tensor **view) {
  tn_status status = tensor_view(t, view);
  if (status) return status;
  (*view)->dl.ndim = v->rank;
  for (int32_t i = 0; i < v->rank; ++i) (*view)->shape[i] = (*view)->strides[i] = 1;
  for (int32_t i = 0; i < n; ++i) {
    (*view)->shape[order[i]] = t->shape[i];
    (*view)->strides[order[i]] = t->strides[i];
  }
  tensor_finish(*view);
  return TN_OK;
}

/* Sums the part along axes that show one element many times, which then are of size 1 in `v`. */
static tn_status fold(const gradient_walk *w, record_value *v, const tn_tensor *part,
                      tn_tensor **folded) {
  tn_sum_attrs attrs = {.struct_size = sizeof attrs, .keepdims = 1};
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->strides[i] != 0 || v->shape[i] < 2) continue;
    attrs.axes.axis[attrs.axes.count++] = i;
    v->shape[i] = v->strides[i] = 1;
  }
  if (attrs.axes.count) return tn_sum(w->stream, part, &attrs, folded);
  *folded = (tn_tensor *)(uintptr_t)part;
  tn_tensor_retain(*folded);
  return TN_OK;
}

/* --- memory of the buffer's size --- */

/* Memory that nobody else holds, with what `g` has in it. */
static tn_status own_flat(gradient_walk *w, buffer_gradient *g) {
  tn_tensor *copy = NULL;
  if (!g->shared) return TN_OK;
  tn_status status = tn_copy(w->stream, g->flat, &copy);
  if (status) return status;
  tn_tensor_release(g->flat);
  g->flat = copy;
  g->shared = false;
  return TN_OK;
}

/* A tensor of all elements in their order, as one of rank 1. */
static tn_status as_flat(const gradient_walk *w, tn_tensor *t, int64_t n, tn_tensor **flat) {
  tn_tensor *dense = NULL;
  tn_status status = tn_tensor_contiguous(w->stream, t, &dense);
  if (!status) status = tn_tensor_reshape(dense, 1, &n, flat);
  tn_tensor_release(dense);
  return status;
}

static tn_status flatten(gradient_walk *w, buffer_gradient *g, const record_value *any) {
  const int64_t n = buffer_elements(w, any);
  tn_tensor *flat = NULL, *view = NULL;
  tn_status status;
  if (g->flat) return TN_OK;
  if (g->whole && is_row_major(w, &g->layout)) {
    status = as_flat(w, g->whole, n, &flat);
    if (!g->whole->contiguous) g->shared = false;
  } else {
    status = tn_zeros(w->device, w->stream, any->dtype, 1, &n, &flat);
    if (!status && g->whole) status = header_make(&g->layout, flat, 0, &view);
    if (!status && g->whole) status = tn_copy(w->stream, g->whole, &view);
    tn_tensor_release(view);
    g->shared = false;
  }
  if (status) return tn_tensor_release(flat), status;
  tn_tensor_release(g->whole);
  g->whole = NULL;
  g->flat = flat;
  return TN_OK;
}

/* --- parts --- */

static tn_status add_to_view(gradient_walk *w, buffer_gradient *g, const record_value *v,
                             const tn_tensor *part) {
  tn_tensor *view = NULL;
  tn_status status = flatten(w, g, v);
  if (!status) status = own_flat(w, g);
  if (!status) status = header_make(v, g->flat, 0, &view);
  if (!status) status = tn_add(w->stream, view, part, &view);
  tn_tensor_release(view);
  return status;
}

/* A part by all elements in their order: nobody's memory is needed for the sum. */
static tn_status add_to_all(gradient_walk *w, buffer_gradient *g, const record_value *v,
                            tn_tensor *part) {
  tn_tensor *flat = NULL, *sum = NULL;
  tn_status status = flatten(w, g, v);
  if (!status) status = as_flat(w, part, buffer_elements(w, v), &flat);
  if (!status && !g->shared) sum = g->flat;
  if (!status) status = tn_add(w->stream, g->flat, flat, &sum);
  tn_tensor_release(flat);
  if (status || sum == g->flat) return status;
  tn_tensor_release(g->flat);
  g->flat = sum;
  g->shared = false;
  return TN_OK;
}

static tn_status add_arranged(gradient_walk *w, buffer_gradient *g, const record_value *v,
                              tn_tensor *part) {
  tn_tensor *sum = NULL;
  if (!g->whole && !g->flat) {
    tn_tensor_retain(part);
    g->whole = part;
    g->layout = *v;
    g->shared = true;
    return TN_OK;
  }
  if (!g->whole || !same_layout(&g->layout, v))
    return is_row_major(w, v) ? add_to_all(w, g, v, part) : add_to_view(w, g, v, part);
  tn_status status = tn_add(w->stream, g->whole, part, &sum);
  if (status) return status;
  tn_tensor_release(g->whole);
  g->whole = sum;
  g->shared = true;
  return TN_OK;
}

tn_status gradient_add(gradient_walk *w, const record_value *value, const tn_tensor *part) {
  record_value v = *value;
  tn_tensor *folded = NULL, *view = NULL;
  int32_t order[TN_MAX_RANK];
  tn_status status = fold(w, &v, part, &folded);
  if (status) return status;
  const int32_t n = order_of(&v, order);
  const record_value layout = arranged(&v, order, n);
  if (!keeps_order(order, n, v.rank)) status = take_axes(folded, order, n, &view);
  if (!status) status = add_arranged(w, &w->gradients[v.buffer], &layout, view ? view : folded);
  tn_tensor_release(view);
  tn_tensor_release(folded);
  return status;
}

tn_status gradient_of(gradient_walk *w, const record_value *value, tn_tensor **gradient) {
  buffer_gradient *g = &w->gradients[value->buffer];
  int32_t order[TN_MAX_RANK];
  *gradient = NULL;
  if (!g->whole && !g->flat) return TN_OK;
  const int32_t n = order_of(value, order);
  const record_value layout = arranged(value, order, n);
  if (g->whole && same_layout(&g->layout, &layout)) {
    if (!keeps_order(order, n, value->rank)) return put_axes(g->whole, order, n, value, gradient);
    tn_tensor_retain(g->whole);
    *gradient = g->whole;
    return TN_OK;
  }
  tn_status status = flatten(w, g, value);
  g->shared = true;
  return status ? status : header_make(value, g->flat, 0, gradient);
}

tn_status gradient_drop(gradient_walk *w, const record_value *value) {
  buffer_gradient *g = &w->gradients[value->buffer];
  int32_t order[TN_MAX_RANK];
  tn_tensor *view = NULL;
  if ((!g->whole && !g->flat) || elements_of(value) == 0) return TN_OK;
  const record_value layout = arranged(value, order, order_of(value, order));
  if (is_row_major(w, &layout) || (g->whole && same_layout(&g->layout, &layout))) {
    gradient_free(g);
    return TN_OK;
  }
  tn_status status = flatten(w, g, value);
  if (!status) status = own_flat(w, g);
  if (!status) status = header_make(value, g->flat, 0, &view);
  if (!status) status = tn_fill(w->stream, view, NULL);
  tn_tensor_release(view);
  return status;
}
