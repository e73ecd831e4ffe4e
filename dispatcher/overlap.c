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
  /* Handles say nothing about each other. */
  if (a->device->opaque && a->dl.data != b->dl.data) return false;
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

/* --- many at once --- */

void span_of(const tn_tensor *t, span *out) {
  out->tensor = t;
  memory_range(t, &out->begin, &out->end);
}

/* Behind the last of the elements from `at` on that stand in order. */
static uint32_t run_end(const span *r, uint32_t at, uint32_t count) {
  if (at < count) ++at;
  while (at < count && r[at - 1].begin <= r[at].begin) ++at;
  return at;
}

static void merge(const span *r, uint32_t begin, uint32_t middle, uint32_t end, span *to) {
  for (uint32_t a = begin, b = middle, k = begin; k < end; ++k) {
    bool first = b == end || (a < middle && r[a].begin <= r[b].begin);
    to[k] = first ? r[a++] : r[b++];
  }
}

/* Natural merge sort: tensors made one after the other often lie so. Returns the array
 * that holds the result. */
static const span *sorted(span *r, span *spare, uint32_t count) {
  for (;;) {
    uint32_t merges = 0;
    for (uint32_t at = 0, middle, end; at < count; at = end, ++merges) {
      middle = run_end(r, at, count);
      if (at == 0 && middle == count) return r;
      end = run_end(r, middle, count);
      merge(r, at, middle, end, spare);
    }
    if (merges == 0) return r;
    span *swap = r;
    r = spare;
    spare = swap;
  }
}

bool spans_overlap(span *spans, span *spare, uint32_t count, const span **a, const span **b) {
  const span *r = sorted(spans, spare, count);
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t k = i + 1; k < count && r[k].begin < r[i].end; ++k) {
      if (!(r[i].written || r[k].written) || !tensors_overlap(r[i].tensor, r[k].tensor)) continue;
      *a = r[i].written ? &r[i] : &r[k];
      *b = r[i].written ? &r[k] : &r[i];
      return true;
    }
  return false;
}
