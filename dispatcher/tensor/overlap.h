/* Which memory tensors share, for the rules on what a call may write. */
#ifndef TENON_DISPATCHER_OVERLAP_H
#define TENON_DISPATCHER_OVERLAP_H

#include "dispatcher/objects/tensor.h"

/* Steps of search for what two tensors share; all pairs of a call with lists have as many
 * together as would take a tenth of a second. */
enum { OVERLAP_WORK = 1 << 16, OVERLAP_WORK_OF_LISTS = 1 << 22 };

/* Whether the ranges that they lie in overlap: the question that is asked first, and mostly
 * answers no. */
bool tensors_interleave(const tn_tensor *a, const tn_tensor *b);

/* Whether any byte belongs to both, of two that interleave. Takes *work down; without any left the
 * answer is yes. */
bool tensors_share_elements(const tn_tensor *a, const tn_tensor *b, uint32_t *work);

/* The very same elements at the very same places. */
bool tensors_same_view(const tn_tensor *a, const tn_tensor *b);

/* Whether two indexes may reach the same element. */
bool strides_repeat_elements(const tn_tensor *t);
static inline bool tensor_repeats_elements(const tn_tensor *t) {
  return !t->contiguous && strides_repeat_elements(t);
}

/* A tensor's place in memory, for sorting. */
typedef struct span {
  intptr_t begin, end;
  const tn_tensor *tensor;
  uint32_t index;
  bool written;
} span;

void span_of(const tn_tensor *t, span *out);

/* Finds two of `count` tensors, at least one of them written, that may share memory; the
 * written one first. Reorders the array; `spare` is as long. */
bool spans_overlap(span *spans, span *spare, uint32_t count, const span **a, const span **b);

#endif
