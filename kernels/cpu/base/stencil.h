/*
 * Inner loops stamped from one expression: BINARY over a and b, UNARY over a, both of
 * type C, and of the elements' type T in loops that are `bits`. The common strides get loops of
 * their own, which vectorise: all dense, and one operand a single value. LOOPS is `own`, or
 * `borrowed` for types whose loops are those of floats. CHEAP_LOOPS, of operators that do little,
 * may be `fused` in its place: those widen and narrow in registers.
 */
#ifndef TENON_KERNELS_CPU_STENCIL_H
#define TENON_KERNELS_CPU_STENCIL_H

#include "kernels/cpu/base/half_blocks.h"

/* Over values of type V, which GET makes of elements; PUT makes results of type R of EXPR. */
#define BINARY_LOOP_OF(op, V, GET, R, PUT, EXPR)                                                   \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *pa = p[0], *pb = p[1];                                                                \
    R *y = p[2];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[2] == 1 && s[0] == 1 && s[1] == 1) {                                                     \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const V a = GET(pa[i]), b = GET(pb[i]);                                                    \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else if (s[2] == 1 && s[0] == 1 && s[1] == 0) {                                              \
      const V b = GET(*pb);                                                                        \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const V a = GET(pa[i]);                                                                    \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else if (s[2] == 1 && s[0] == 0 && s[1] == 1) {                                              \
      const V a = GET(*pa);                                                                        \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const V b = GET(pb[i]);                                                                    \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const V a = GET(pa[i * s[0]]), b = GET(pb[i * s[1]]);                                      \
        y[i * s[2]] = PUT(EXPR);                                                                   \
      }                                                                                            \
    }                                                                                              \
  }
#define BINARY_LOOP_own(op, R, PUT, EXPR) BINARY_LOOP_OF(op, C, LOAD, R, PUT, EXPR)
#define BINARY_LOOP_bits(op, R, PUT, EXPR) BINARY_LOOP_OF(op, T, AS_BITS, R, PUT, EXPR)
#define BINARY_LOOP_borrowed(op, R, PUT, EXPR) BORROWED_LOOP(op, 2, R)
#define BINARY_LOOP_fused(op, R, PUT, EXPR) FUSED_BINARY(op, (void)ctx, EXPR)

#define BINARY_AS(loops, op, R, PUT, EXPR, grain)                                                  \
  CPU_CAT(BINARY_LOOP, loops)(op, R, PUT, EXPR) tn_status KERNEL(op)(const tn_kernel_args *args) { \
    return ISA(elementwise)(args, NAME(op##_loop), NULL, grain);                                   \
  }
#define BINARY(op, R, PUT, EXPR, grain) BINARY_AS(LOOPS, op, R, PUT, EXPR, grain)
#define BINARY_CHEAP(op, EXPR) BINARY_AS(CHEAP_LOOPS, op, T, STORE, EXPR, CPU_GRAIN_CHEAP)
/* Whose results are truth. */
#define AS_BOOL(x) ((uint8_t)(x))
#define BINARY_TEST(op, EXPR) BINARY_AS(TEST_LOOPS, op, uint8_t, AS_BOOL, EXPR, CPU_GRAIN_CHEAP)

#define UNARY_LOOP_OF(op, V, GET, PUT, EXPR)                                                       \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *x = p[0];                                                                             \
    T *y = p[1];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[0] == 1 && s[1] == 1) {                                                                  \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const V a = GET(x[i]);                                                                     \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const V a = GET(x[i * s[0]]);                                                              \
        y[i * s[1]] = PUT(EXPR);                                                                   \
      }                                                                                            \
    }                                                                                              \
  }

#define UNARY_LOOP_own(op, EXPR) UNARY_LOOP_OF(op, C, LOAD, STORE, EXPR)
#define UNARY_LOOP_bits(op, EXPR) UNARY_LOOP_OF(op, T, AS_BITS, AS_BITS, EXPR)
#define UNARY_LOOP_borrowed(op, EXPR) BORROWED_LOOP(op, 1, T)
#define UNARY_LOOP_fused(op, EXPR) FUSED_UNARY(op, (void)ctx, EXPR)
#define UNARY_LOOP(op, EXPR) CPU_CAT(UNARY_LOOP, LOOPS)(op, EXPR)

#define UNARY_AS(loops, op, EXPR, grain)                                                           \
  CPU_CAT(UNARY_LOOP, loops)(op, EXPR) tn_status KERNEL(op)(const tn_kernel_args *args) {          \
    return ISA(elementwise)(args, NAME(op##_loop), NULL, grain);                                   \
  }
#define UNARY(op, EXPR, grain) UNARY_AS(LOOPS, op, EXPR, grain)
#define UNARY_CHEAP(op, EXPR) UNARY_AS(CHEAP_LOOPS, op, EXPR, CPU_GRAIN_CHEAP)

/* Of floats of 16 bits that only their sign is changed of: the elements themselves are computed
 * with. */
#define AS_BITS(x) ((T)(x))
#define UNARY_BITS(op, EXPR) UNARY_AS(bits, op, EXPR, CPU_GRAIN_CHEAP)
#define BINARY_BITS(op, EXPR) BINARY_AS(bits, op, T, AS_BITS, EXPR, CPU_GRAIN_CHEAP)

#endif
