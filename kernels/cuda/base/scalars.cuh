/*
 * Attributes whose numbers lie in device memory (TN_ATTR_TENSOR): kernels get the addresses, and
 * read them when they run.
 */
#ifndef KERNELS_CUDA_SCALARS_CUH
#define KERNELS_CUDA_SCALARS_CUH

#include <string.h>

#include "tenon/plugin.h"

template <class T> static const T *scalar_address(const struct tn_tensor *given) {
  const DLTensor *t = tn_attr_view(given);
  return t ? (const T *)t->data : NULL;
}

/* Of an attribute that a host of before does not have. */
#define SCALAR_ADDRESS(T, attrs, type, field)                                                      \
  scalar_address<T>(TN_FIELD_OR(attrs, type, field, NULL))

/* Where random numbers begin. */
struct draw_origin {
  uint64_t seed_attr, offset_attr;
  const uint64_t *seed_from, *offset_from;
  __device__ __forceinline__ uint64_t seed() const { return seed_from ? *seed_from : seed_attr; }
  __device__ __forceinline__ uint64_t offset() const {
    return offset_from ? offset_attr + *offset_from : offset_attr;
  }
};

template <class A> static draw_origin origin_of(const A *attrs) {
  return {attrs->seed, attrs->offset, SCALAR_ADDRESS(uint64_t, attrs, A, seed_from),
          SCALAR_ADDRESS(uint64_t, attrs, A, offset_from)};
}

/* An attribute struct by value, zero where a host of before has less of it. */
template <class A> static A attrs_copy(const void *given) {
  A a = {};
  uint32_t size;
  memcpy(&size, given, sizeof size);
  memcpy(&a, given, size < sizeof a ? size : sizeof a);
  return a;
}

/* What an optimiser reads. Rules that differ from step to step are made from it on the device, by
 * what makes them on the host. */
struct step_scalars {
  const void *lr;
  const int64_t *step;
  const bool *skip;
  bool lr_is_double;
  bool any() const { return lr || step || skip; }
  __device__ __forceinline__ bool skips() const { return skip && *skip; }
  __device__ __forceinline__ double rate(double otherwise) const {
    if (!lr) return otherwise;
    return lr_is_double ? *(const double *)lr : (double)*(const float *)lr;
  }
  __device__ __forceinline__ int64_t number(int64_t otherwise) const {
    return step ? *step : otherwise;
  }
};

template <class A> static step_scalars scalars_of(const A *attrs) {
  const DLTensor *lr = tn_attr_view(TN_FIELD_OR(attrs, A, lr_from, NULL));
  step_scalars s = {lr ? lr->data : NULL, NULL, SCALAR_ADDRESS(bool, attrs, A, skip_if),
                    lr && lr->dtype.bits == 64};
  return s;
}

/* The same of one that counts its steps. */
template <class A> static step_scalars counted_scalars_of(const A *attrs) {
  step_scalars s = scalars_of(attrs);
  s.step = SCALAR_ADDRESS(int64_t, attrs, A, step_from);
  return s;
}

#endif /* KERNELS_CUDA_SCALARS_CUH */
