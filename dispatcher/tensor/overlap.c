/*
 * Which memory tensors share. Ranges are compared first; where they overlap, strides decide. An
 * answer that would take too long errs on the safe side, and counts as shared.
 */
#include "dispatcher/tensor/overlap.h"

#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/diophantine.h"

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

bool tensors_interleave(const tn_tensor *a, const tn_tensor *b) {
  if (a->storage != b->storage && a->storage->block && b->storage->block) return false;
  if (a->elements == 0 || b->elements == 0) return false;
  /* Handles say nothing about each other. */
  if (a->device->opaque && a->dl.data != b->dl.data) return false;
  intptr_t a0, a1, b0, b1;
  memory_range(a, &a0, &a1);
  memory_range(b, &b0, &b1);
  return a0 < b1 && b0 < a1;
}

/* Adds a tensor's strides and the bytes of its elements, in units of `unit` bytes. Their largest
 * sum is added to *reach; false if something overflows. */
static bool add_terms(diophantine *l, const tn_tensor *t, int64_t unit, int64_t *reach) {
  int64_t item = (int64_t)tn_dtype_size((tn_dtype)t->dtype) / unit, step, part;
  diophantine_add(l, 1, item - 1);
  bool fits = !__builtin_add_overflow(*reach, item - 1, reach);
  for (int32_t i = 0; fits && i < t->dl.ndim; ++i) {
    fits = !__builtin_mul_overflow(t->strides[i], item, &step) && step != INT64_MIN;
    if (!fits) break;
    if (step < 0) step = -step;
    diophantine_add(l, step, t->shape[i] - 1);
    fits = !__builtin_mul_overflow(step, t->shape[i] - 1, &part) &&
           !__builtin_add_overflow(*reach, part, reach);
  }
  return fits;
}

/* An element of a begins at begin_a + sum(step x), one of b at begin_b + sum(step x); they share a
 * byte if those are equal for some byte of each. With b's terms counted from their far end, all
 * stand on one side: a's + b's = begin_b - begin_a + the largest sum of b's. */
bool tensors_share_elements(const tn_tensor *a, const tn_tensor *b, uint32_t *work) {
  intptr_t a0, a1, b0, b1;
  memory_range(a, &a0, &a1);
  memory_range(b, &b0, &b1);
  int64_t between = (int64_t)(b0 - a0), ignored = 0, reach = 0, target;
  uint64_t unit =
      common_divisor(tn_dtype_size((tn_dtype)a->dtype), tn_dtype_size((tn_dtype)b->dtype));
  unit = common_divisor(unit, (uint64_t)(between < 0 ? -between : between));
  diophantine l = {0};
  bool fits = add_terms(&l, a, (int64_t)unit, &ignored) && add_terms(&l, b, (int64_t)unit, &reach);
  return !fits || __builtin_add_overflow(between / (int64_t)unit, reach, &target) ||
         diophantine_solvable(&l, target, work);
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

/* The axes longer than 1 by rising stride, all counted as positive. Returns their number. */
static int32_t sorted_axes(const tn_tensor *t, int64_t *size, int64_t *stride) {
  int32_t count = 0;
  for (int32_t i = 0; i < t->dl.ndim; ++i) {
    int64_t step = t->strides[i] < 0 ? -t->strides[i] : t->strides[i];
    if (t->shape[i] <= 1) continue;
    int32_t at = count++;
    for (; at > 0 && stride[at - 1] > step; --at) {
      size[at] = size[at - 1];
      stride[at] = stride[at - 1];
    }
    size[at] = t->shape[i];
    stride[at] = step;
  }
  return count;
}

/* Whether each stride goes beyond all that the smaller ones reach. */
static bool strides_nest(int32_t count, const int64_t *size, const int64_t *stride) {
  int64_t reach = 0;
  for (int32_t k = 0; k < count; ++k) {
    if (stride[k] <= reach) return false;
    reach += stride[k] * (size[k] - 1);
  }
  return true;
}

/* Whether two indexes that differ in axis k, and else only in axes before it, reach the same
 * element: stride[k] (1 + x) = the sum of stride[j] d[j] over those, |d[j]| < size[j]. */
static bool repeats_along(int32_t k, const int64_t *size, const int64_t *stride, uint32_t *work) {
  diophantine l = {0};
  int64_t target = -stride[k], part;
  diophantine_add(&l, stride[k], size[k] - 2);
  for (int32_t j = 0; j < k; ++j) {
    if (__builtin_mul_overflow(stride[j], size[j] - 1, &part) ||
        __builtin_add_overflow(target, part, &target))
      return true;
    diophantine_add(&l, stride[j], 2 * (size[j] - 1));
  }
  return diophantine_solvable(&l, target, work);
}

bool strides_repeat_elements(const tn_tensor *t) {
  int64_t size[TN_MAX_RANK], stride[TN_MAX_RANK];
  uint32_t work = OVERLAP_WORK;
  int32_t count = sorted_axes(t, size, stride);
  if (strides_nest(count, size, stride)) return false;
  if (stride[0] == 0) return true;
  for (int32_t k = 1; k < count; ++k)
    if (repeats_along(k, size, stride, &work)) return true;
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
  uint32_t work = OVERLAP_WORK_OF_LISTS;
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t k = i + 1; k < count && r[k].begin < r[i].end; ++k) {
      const tn_tensor *first = r[i].tensor, *second = r[k].tensor;
      if (!(r[i].written || r[k].written) || !tensors_interleave(first, second) ||
          !tensors_share_elements(first, second, &work))
        continue;
      *a = r[i].written ? &r[i] : &r[k];
      *b = r[i].written ? &r[k] : &r[i];
      return true;
    }
  return false;
}
