/*
 * The frame of elementwise kernels: a body sees runs of elements as dense arrays of
 * double or int64, whatever types and strides the tensors have.
 */
#ifndef TENON_KERNELS_REFERENCE_MAP_H
#define TENON_KERNELS_REFERENCE_MAP_H

#include "iterate.h"

/* What a body may want to know of its run. */
typedef struct run {
  const void *attrs;
  tn_dtype dtype; /* of the first tensor */
  int64_t first;  /* logical index of element 0 */
  int64_t n;
} run;

/* in and out are in schema order. In-out arguments come loaded in out. */
typedef void (*body_f64)(const run *r, double *const *in, double *const *out);
typedef void (*body_i64)(const run *r, int64_t *const *in, int64_t *const *out);

/* Runs `floats` if the first tensor is of a float type, else `integers`; whichever the
 * operator's types cannot reach may be NULL. An output may be an input. */
tn_status map(const tn_kernel_args *args, body_f64 floats, body_i64 integers);

/* Float bodies on every type: outputs are converted as tn_cast converts doubles. */
tn_status map_f64(const tn_kernel_args *args, body_f64 body);

/* As map_f64, with in-out arguments loaded before the body runs. */
tn_status map_update(const tn_kernel_args *args, body_f64 body);

#endif
