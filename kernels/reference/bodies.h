/*
 * Elementwise operators written as one expression of an element: x, or a and b. A line is a whole
 * operator: ONE_ of one tensor, TWO_ of two; _FLOAT computed in double, whatever the element type,
 * _INT in int64, and _NUMBER in double for floats, the first expression, and in int64 for integers,
 * the second. With _WITH the attributes are k->name. So
 *   ONE_FLOAT(exp, exp(x))
 * defines reference_exp(args) and its body exp_f64.
 */
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

#define BODY_ONE_WITH(op, expression)                                                              \
  static void op##_f64(const run *r, double *const *in, double *const *out) {                      \
    const tn_##op##_attrs *k = r->attrs;                                                           \
    for (int64_t i = 0; i < r->n; ++i) {                                                           \
      double x = in[0][i];                                                                         \
      out[0][i] = expression;                                                                      \
    }                                                                                              \
  }

#define BODY_TWO_WITH(op, expression)                                                              \
  static void op##_f64(const run *r, double *const *in, double *const *out) {                      \
    const tn_##op##_attrs *k = r->attrs;                                                           \
    for (int64_t i = 0; i < r->n; ++i) {                                                           \
      double a = in[0][i], b = in[1][i];                                                           \
      out[0][i] = expression;                                                                      \
    }                                                                                              \
  }

/* The kernels themselves, of bodies <name>_f64 and <name>_i64. */
#define KERNEL_FLOAT(name)                                                                         \
  tn_status reference_##name(const tn_kernel_args *args) { return map_f64(args, name##_f64); }

#define KERNEL_INT(name)                                                                           \
  tn_status reference_##name(const tn_kernel_args *args) { return map(args, NULL, name##_i64); }

#define KERNEL_NUMBER(name)                                                                        \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    return map(args, name##_f64, name##_i64);                                                      \
  }

#define ONE_FLOAT(op, expression) BODY_ONE(op##_f64, double, expression) KERNEL_FLOAT(op)
#define ONE_INT(op, expression) BODY_ONE(op##_i64, int64_t, expression) KERNEL_INT(op)
#define ONE_NUMBER(op, floats, integers)                                                           \
  BODY_ONE(op##_f64, double, floats) BODY_ONE(op##_i64, int64_t, integers) KERNEL_NUMBER(op)
#define ONE_FLOAT_WITH(op, expression) BODY_ONE_WITH(op, expression) KERNEL_FLOAT(op)

#define TWO_FLOAT(op, expression) BODY_TWO(op##_f64, double, expression) KERNEL_FLOAT(op)
#define TWO_INT(op, expression) BODY_TWO(op##_i64, int64_t, expression) KERNEL_INT(op)
#define TWO_NUMBER(op, floats, integers)                                                           \
  BODY_TWO(op##_f64, double, floats) BODY_TWO(op##_i64, int64_t, integers) KERNEL_NUMBER(op)
#define TWO_FLOAT_WITH(op, expression) BODY_TWO_WITH(op, expression) KERNEL_FLOAT(op)

#endif
