/* Reading the ends of a tensor's axes; see corners.h. */
#include "dispatcher/composite/corners.h"

#include <string.h>

#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"

/* One corner: an end of every axis that is cut, the whole of the others. */
typedef struct corner {
  int64_t from[TN_MAX_RANK]; /* its place in the tensor */
  int64_t to[TN_MAX_RANK];   /* and among the elements that are kept */
  int64_t size[TN_MAX_RANK];
} corner;

static corner corner_at(const corners *c, uint32_t ends) {
  corner p = {{0}, {0}, {0}};
  for (int32_t i = 0; i < c->tensor->dl.ndim; ++i) {
    bool last = ends >> i & 1;
    p.size[i] = c->cut[i] ? c->edge : c->kept[i];
    p.from[i] = last ? c->tensor->shape[i] - c->edge : 0;
    p.to[i] = last ? c->edge : 0;
  }
  return p;
}

/* The corner as a view of the tensor. */
static tn_status view_corner(const corners *c, const corner *p, tn_tensor **view) {
  tn_tensor *t = (tn_tensor *)(uintptr_t)c->tensor;
  tn_status status = TN_OK;
  tn_tensor_retain(t);
  for (int32_t i = 0; i < c->tensor->dl.ndim && !status; ++i) {
    tn_tensor *part;
    if (!c->cut[i]) continue;
    status = tn_tensor_slice(t, i, p->from[i], p->from[i] + p->size[i], 1, &part);
    if (status) break;
    tn_tensor_release(t);
    t = part;
  }
  if (status)
    tn_tensor_release(t);
  else
    *view = t;
  return status;
}

/* Puts a corner's elements where they belong, one run of the last axis after the other. */
static void place_corner(const corners *c, const corner *p, const char *from, size_t size) {
  int32_t last = c->tensor->dl.ndim - 1;
  int64_t index[TN_MAX_RANK] = {0};
  size_t run = (size_t)p->size[last] * size;
  for (int32_t axis = 0; axis >= 0; from += run) {
    int64_t place = 0;
    for (int32_t i = 0; i <= last; ++i) place = place * c->kept[i] + p->to[i] + index[i];
    memcpy(c->elements + (size_t)place * size, from, run);
    for (axis = last - 1; axis >= 0 && ++index[axis] == p->size[axis]; --axis) index[axis] = 0;
  }
}

static tn_status read_corner(const corners *c, uint32_t ends, char *room) {
  const corner p = corner_at(c, ends);
  tn_tensor *view;
  tn_status status = view_corner(c, &p, &view);
  if (status) return status;
  status = tn_tensor_to_host(view, room, tn_tensor_bytes(view));
  if (!status) place_corner(c, &p, room, tn_dtype_size((tn_dtype)view->dtype));
  tn_tensor_release(view);
  return status;
}

static tn_status read_all(const corners *c, uint32_t cut, size_t bytes) {
  if (!cut) return tn_tensor_to_host(c->tensor, c->elements, bytes);
  tn_status status = TN_OK;
  for (uint32_t ends = 0; ends <= cut && !status; ++ends)
    if ((ends & ~cut) == 0) status = read_corner(c, ends, c->elements + bytes);
  return status;
}

tn_status corners_read(corners *c, const tn_tensor *tensor, int64_t threshold, int64_t edge) {
  *c = (corners){.tensor = tensor, .edge = edge, .count = 1};
  uint32_t cut = 0;
  for (int32_t i = 0; i < tensor->dl.ndim; ++i) {
    int64_t size = tensor->shape[i];
    c->cut[i] = tensor->elements > threshold && size > 2 * edge;
    c->kept[i] = c->cut[i] ? 2 * edge : size;
    c->count *= c->kept[i];
    cut |= (uint32_t)c->cut[i] << i;
  }
  if (c->count == 0) return TN_OK;
  size_t bytes = (size_t)c->count * tn_dtype_size((tn_dtype)tensor->dtype);
  c->elements = host_alloc(&tensor->device->runtime->memory, cut ? 2 * bytes : bytes);
  if (!c->elements) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory to read a tensor");
  tn_status status = read_all(c, cut, bytes);
  if (status) corners_free(c);
  return status;
}

void corners_free(corners *c) {
  host_free(&c->tensor->device->runtime->memory, c->elements);
  c->elements = NULL;
}
