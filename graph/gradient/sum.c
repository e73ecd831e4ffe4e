/*
 * How a buffer's gradient comes together from parts by its views. One part alone is kept as it
 * came, and parts by the same view are added; only where different views meet is there memory of
 * the buffer's size, zero but for what arrived.
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

/* All of the buffer's elements, in whatever order: as many, no two alike. */
static bool is_all(const gradient_walk *w, const record_value *v) {
  int64_t last = 0;
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->shape[i] == 0) return true;
    last += (v->shape[i] - 1) * v->strides[i];
  }
  return v->offset == 0 && elements_of(v) == buffer_elements(w, v) && last + 1 == elements_of(v);
}

/* Sums the part along axes that show one element many times, which then are of size 1 in `v`. */
static tn_status fold(const gradient_walk *w, record_value *v, const tn_tensor *part,
                      tn_tensor **folded) {
  tn_sum_attrs attrs = {.struct_size = sizeof attrs, .keepdims = 1};
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->shape[i] == 1) v->strides[i] = 1; /* says nothing, and shall not tell layouts apart */
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

static tn_status flatten(gradient_walk *w, buffer_gradient *g, const record_value *any) {
  const int64_t n = buffer_elements(w, any);
  tn_tensor *flat = NULL, *view = NULL;
  tn_status status;
  if (g->flat) return TN_OK;
  if (g->whole && g->whole->contiguous && is_row_major(w, &g->layout)) {
    status = tn_tensor_reshape(g->whole, 1, &n, &flat);
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

static tn_status add_folded(gradient_walk *w, buffer_gradient *g, const record_value *v,
                            tn_tensor *part) {
  tn_tensor *sum = NULL;
  if (!g->whole && !g->flat) {
    tn_tensor_retain(part);
    g->whole = part;
    g->layout = *v;
    g->shared = true;
    return TN_OK;
  }
  if (!g->whole || !same_layout(&g->layout, v)) return add_to_view(w, g, v, part);
  tn_status status = tn_add(w->stream, g->whole, part, &sum);
  if (status) return status;
  tn_tensor_release(g->whole);
  g->whole = sum;
  g->shared = true;
  return TN_OK;
}

tn_status gradient_add(gradient_walk *w, const record_value *value, const tn_tensor *part) {
  record_value v = *value;
  tn_tensor *folded = NULL;
  tn_status status = fold(w, &v, part, &folded);
  if (status) return status;
  status = add_folded(w, &w->gradients[v.buffer], &v, folded);
  tn_tensor_release(folded);
  return status;
}

/* An axis of size 1 has whatever stride `fold` gave it. */
static void normalise(record_value *v) {
  for (int32_t i = 0; i < v->rank; ++i)
    if (v->shape[i] == 1) v->strides[i] = 1;
}

tn_status gradient_of(gradient_walk *w, const record_value *value, tn_tensor **gradient) {
  buffer_gradient *g = &w->gradients[value->buffer];
  record_value v = *value;
  *gradient = NULL;
  if (!g->whole && !g->flat) return TN_OK;
  normalise(&v);
  if (g->whole && same_layout(&g->layout, &v)) {
    tn_tensor_retain(g->whole);
    *gradient = g->whole;
    return TN_OK;
  }
  tn_status status = flatten(w, g, &v);
  g->shared = true;
  return status ? status : header_make(&v, g->flat, 0, gradient);
}

tn_status gradient_drop(gradient_walk *w, const record_value *value) {
  buffer_gradient *g = &w->gradients[value->buffer];
  record_value v = *value;
  tn_tensor *view = NULL;
  if (!g->whole && !g->flat) return TN_OK;
  normalise(&v);
  if (is_all(w, &v) || (g->whole && same_layout(&g->layout, &v))) {
    gradient_free(g);
    return TN_OK;
  }
  tn_status status = flatten(w, g, &v);
  if (!status) status = own_flat(w, g);
  if (!status) status = header_make(&v, g->flat, 0, &view);
  if (!status) status = tn_fill(w->stream, view, NULL);
  tn_tensor_release(view);
  return status;
}
