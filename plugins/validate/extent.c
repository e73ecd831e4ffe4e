/*
 * Extents. Whether two strided sets of bytes meet is a bounded linear equation in whole
 * numbers; it is searched from the longest stride down, with what the shorter ones can
 * still reach as the bound, which decides tensors of one shape's family at once.
 */
#include "extent.h"

#include <string.h>

/* Puts an axis in its place among those with shorter strides. */
static void add_axis(extent *e, int64_t size, int64_t stride) {
  int32_t at = e->rank++;
  for (; at > 0 && e->stride[at - 1] > stride; --at) {
    e->stride[at] = e->stride[at - 1];
    e->size[at] = e->size[at - 1];
  }
  e->stride[at] = stride;
  e->size[at] = size;
}

/* Axes that leave no gap lengthen the run; axes that continue one another become one. */
static void merge_axes(extent *e) {
  int32_t kept = 0;
  for (int32_t i = 0; i < e->rank; ++i) {
    int64_t size = e->size[i], stride = e->stride[i];
    if (kept == 0 && stride <= e->run) {
      e->run += stride * (size - 1);
    } else if (kept && stride == e->stride[kept - 1] * e->size[kept - 1]) {
      e->size[kept - 1] *= size;
    } else {
      e->size[kept] = size;
      e->stride[kept++] = stride;
    }
  }
  e->rank = kept;
}

extent extent_of(const DLTensor *t, bool opaque) {
  extent e = {.base = opaque ? t->data : NULL, .run = (t->dtype.bits * t->dtype.lanes + 7) / 8};
  e.lo = opaque ? (int64_t)t->byte_offset : (int64_t)((uintptr_t)t->data + t->byte_offset);
  e.hi = e.lo;
  for (int32_t i = 0; i < t->ndim; ++i)
    if (t->shape[i] == 0) return e;
  int64_t item = e.run, reach = item;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int64_t stride = t->strides[i] * item, size = t->shape[i];
    if (size == 1 || stride == 0) continue;
    if (stride < 0) {
      e.lo += stride * (size - 1);
      stride = -stride;
    }
    reach += stride * (size - 1);
    add_axis(&e, size, stride);
  }
  e.hi = e.lo + reach;
  merge_axes(&e);
  return e;
}

bool extent_is_dense(const extent *e) { return e->rank == 0; }

bool extents_are_equal(const extent *a, const extent *b) {
  if (a->base != b->base || a->lo != b->lo || a->hi != b->hi || a->rank != b->rank ||
      a->run != b->run)
    return false;
  size_t bytes = (size_t)a->rank * sizeof *a->size;
  return !memcmp(a->size, b->size, bytes) && !memcmp(a->stride, b->stride, bytes);
}

bool extent_covers(const extent *a, const extent *b) {
  if (a->base != b->base) return false;
  return (extent_is_dense(a) && a->lo <= b->lo && b->hi <= a->hi) || extents_are_equal(a, b);
}

/* --- the search: distance + sum of step[i] * n[i], n[i] in least[i]..most[i], shall lie in
 * low..high --- */

enum { TERMS = 2 * TN_MAX_RANK, TRIES = 20000 };

typedef struct equation {
  int64_t low, high;
  int64_t step[TERMS], least[TERMS], most[TERMS]; /* longest step first, all positive */
  int64_t below[TERMS + 1], above[TERMS + 1];     /* reach of the terms from here on */
  int32_t count, tries;
} equation;

/* Axes of one stride count as one whose number is the difference of theirs. */
static void add_term(equation *q, int64_t step, int64_t least, int64_t most) {
  int32_t at = 0;
  while (at < q->count && q->step[at] > step) ++at;
  if (at < q->count && q->step[at] == step) {
    q->least[at] += least;
    q->most[at] += most;
    return;
  }
  for (int32_t i = q->count++; i > at; --i) {
    q->step[i] = q->step[i - 1];
    q->least[i] = q->least[i - 1];
    q->most[i] = q->most[i - 1];
  }
  q->step[at] = step;
  q->least[at] = least;
  q->most[at] = most;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a ^ b) < 0); }

static overlap search(equation *q, int32_t at, int64_t distance) {
  if (at == q->count) return distance >= q->low && distance <= q->high ? OVERLAP_YES : OVERLAP_NO;
  if (++q->tries > TRIES) return OVERLAP_UNDECIDED;
  int64_t step = q->step[at];
  int64_t first = -floor_div(-(q->low - distance - q->above[at + 1]), step);
  int64_t last = floor_div(q->high - distance - q->below[at + 1], step);
  if (first < q->least[at]) first = q->least[at];
  if (last > q->most[at]) last = q->most[at];
  for (int64_t n = first; n <= last; ++n) {
    overlap found = search(q, at + 1, distance + n * step);
    if (found != OVERLAP_NO) return found;
  }
  return OVERLAP_NO;
}

overlap extents_overlap(const extent *a, const extent *b) {
  if (a->lo == a->hi || b->lo == b->hi) return OVERLAP_NO;
  if (a->base != b->base || a->lo >= b->hi || b->lo >= a->hi) return OVERLAP_NO;
  if (extent_is_dense(a) && extent_is_dense(b)) return OVERLAP_YES;
  equation q = {.low = -(b->run - 1), .high = a->run - 1};
  for (int32_t i = 0; i < a->rank; ++i) add_term(&q, a->stride[i], -(a->size[i] - 1), 0);
  for (int32_t i = 0; i < b->rank; ++i) add_term(&q, b->stride[i], 0, b->size[i] - 1);
  for (int32_t i = q.count; i-- > 0;) {
    q.below[i] = q.below[i + 1] + q.step[i] * q.least[i];
    q.above[i] = q.above[i + 1] + q.step[i] * q.most[i];
  }
  return search(&q, 0, b->lo - a->lo);
}
