/* Which memory tensors share, for the rules on what a call may write. */
#ifndef TENON_DISPATCHER_OVERLAP_H
#define TENON_DISPATCHER_OVERLAP_H

#include "dispatcher/runtime.h"

/* Whether any byte may belong to both. */
bool tensors_overlap(const tn_tensor *a, const tn_tensor *b);

/* The very same elements at the very same places. */
bool tensors_same_view(const tn_tensor *a, const tn_tensor *b);

/* Whether two indexes may reach the same element. */
bool tensor_repeats_elements(const tn_tensor *t);

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
