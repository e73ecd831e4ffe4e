/*
 * Attributes whose numbers lie in host memory in place of the attribute struct (TN_ATTR_TENSOR):
 * what kernels for such memory make of them. Without tensors each is a test for NULL.
 */
#ifndef TENON_KERNELS_SCALARS_H
#define TENON_KERNELS_SCALARS_H

#include "tenon/plugin.h"

/* Of a struct that a host of before may have made shorter. */
#define SCALAR_TENSOR(attrs, type, field) tn_attr_view(TN_FIELD_OR(attrs, type, field, NULL))

static inline double scalar_real(const DLTensor *t, double otherwise) {
  if (!t) return otherwise;
  return t->dtype.bits == 64 ? *(const double *)t->data : (double)*(const float *)t->data;
}

static inline int64_t scalar_whole(const DLTensor *t, int64_t otherwise) {
  return t ? *(const int64_t *)t->data : otherwise;
}

static inline bool scalar_is_true(const DLTensor *t) { return t && *(const uint8_t *)t->data; }

/* Of random operators. */
#define SCALAR_SEED(attrs, type)                                                                   \
  ((uint64_t)scalar_whole(SCALAR_TENSOR(attrs, type, seed_from), (int64_t)(attrs)->seed))
#define SCALAR_OFFSET(attrs, type)                                                                 \
  ((attrs)->offset + (uint64_t)scalar_whole(SCALAR_TENSOR(attrs, type, offset_from), 0))
/* Of optimisers. */
#define SCALAR_LR(attrs, type) scalar_real(SCALAR_TENSOR(attrs, type, lr_from), (attrs)->lr)
#define SCALAR_STEP(attrs, type) scalar_whole(SCALAR_TENSOR(attrs, type, step_from), (attrs)->step)
#define SCALAR_SKIP(attrs, type) scalar_is_true(SCALAR_TENSOR(attrs, type, skip_if))

#endif
