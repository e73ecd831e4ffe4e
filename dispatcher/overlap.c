/*
 * Which memory tensors share. Answers err on the safe side: ranges that interleave
 * without touching count as overlapping.
 */
#include "dispatcher/overlap.h"

/* The bytes from a tensor's first to behind its last element in memory. */
static void memory_range(const tn_tensor *t, intptr_t *begin, intptr_t *end) {
  intptr_t size = (intptr_t)tn_dtype_size((tn_dtype)t->dtype);
  intptr_t at = (intptr_t)t->dl.data + (intptr_t)t->dl.byte_offset;
  *begin = at;
  *end = at + size;
  for (int32_t i = 0; i < t->dl.ndim; ++i) {
    intptr_t reach = (intptr_t)((t->shape[i] - 1) * t->strides[i]) * size;
    *(reach < 0 ? begin : end) += reach;
  }
}

bool tensors_overlap(const tn_tensor *a, const tn_tensor *b) {
  if (a->storage != b->storage && a->storage->block && b->storage->block) return false;
  if (a->elements == 0 || b->elements == 0) return false;
  intptr_t a0, a1, b0, b1;
  memory_range(a, &a0, &a1);
  memory_range(b, &b0, &b1);
  return a0 < b1 && b0 < a1;
}

bool tensors_same_view(const tn_tensor *a, const tn_tensor *b) {
  if (a->dl.data != b->dl.data || a->dl.byte_offset != b->dl.byte_offset ||
      a->dl.ndim != b->dl.ndim ||
      tn_dtype_size((tn_dtype)a->dtype) != tn_dtype_size((tn_dtype)b->dtype))
    return false;
  for (int32_t i = 0; i < a->dl.ndim; ++i)
    if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i]))
      return false;
  return true;
}

/* Strides must nest: each goes beyond all that the smaller ones reach. */
bool tensor_repeats_elements(const tn_tensor *t) {
  if (t->contiguous) return false;
  int32_t order[TN_MAX_RANK], count = 0;
  for (int32_t i = 0; i < t->dl.ndim; ++i) {
    if (t->shape[i] <= 1) continue;
    int64_t stride = t->strides[i] < 0 ? -t->strides[i] : t->strides[i];
    int32_t at = count++;
    for (; at > 0; --at) {
      int64_t other =
          t->strides[order[at - 1]] < 0 ? -t->strides[order[at - 1]] : t->strides[order[at - 1]];
      if (other <= stride) break;
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  int64_t reach = 0;
  for (int32_t k = 0; k < count; ++k) {
    int64_t stride = t->strides[order[k]] < 0 ? -t->strides[order[k]] : t->strides[order[k]];
    if (stride <= reach) return true;
    reach += stride * (t->shape[order[k]] - 1);
  }
  return false;
}
