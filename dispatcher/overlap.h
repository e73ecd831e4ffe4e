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

#endif
