/* Bodies for map.h written as one expression of an element: x, or a and b. */
#ifndef TENON_KERNELS_REFERENCE_BODIES_H
#define TENON_KERNELS_REFERENCE_BODIES_H

#include "map.h"

#define BODY_ONE(name, type, expression)                                                           \
  static void name(const run *r, type *const *in, type *const *out) {                              \
    for (int64_t i = 0; i < r->n; ++i) {                                                           \
      type x = in[0][i];                                                                           \
      out[0][i] = expression;                                                                      \
    }                                                                                              \
  }

#define BODY_TWO(name, type, expression)                                                           \
  static void name(const run *r, type *const *in, type *const *out) {                              \
    for (int64_t i = 0; i < r->n; ++i) {                                                           \
      type a = in[0][i], b = in[1][i];                                                             \
      out[0][i] = expression;                                                                      \
    }                                                                                              \
  }

/* The kernels themselves. */
#define KERNEL_FLOAT(name)                                                                         \
  tn_status reference_##name(const tn_kernel_args *args) { return map_f64(args, name##_f64); }

#define KERNEL_NUMBER(name)                                                                        \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    return map(args, name##_f64, name##_i64);                                                      \
  }

#endif
