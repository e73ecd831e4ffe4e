/*
 * Inner loops stamped from one expression: BINARY over a and b, UNARY over a, both of
 * type C. The common strides get loops of their own, which vectorise: all dense, and
 * one operand a single value. LOOPS is `own`, or `borrowed` for types whose loops are those of
 * floats. CHEAP_LOOPS, of operators that do little, may be `fused` in its place: those widen and
 * narrow in registers.
 */
#ifndef TENON_KERNELS_CPU_STENCIL_H
#define TENON_KERNELS_CPU_STENCIL_H

#include "kernels/cpu/base/half_blocks.h"

#define BINARY_LOOP_own(op, R, PUT, EXPR)                                                          \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *pa = p[0], *pb = p[1];                                                                \
    R *y = p[2];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[2] == 1 && s[0] == 1 && s[1] == 1) {                                                     \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const C a = LOAD(pa[i]), b = LOAD(pb[i]);                                                  \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else if (s[2] == 1 && s[0] == 1 && s[1] == 0) {                                              \
      const C b = LOAD(*pb);                                                                       \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const C a = LOAD(pa[i]);                                                                   \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else if (s[2] == 1 && s[0] == 0 && s[1] == 1) {                                              \
      const C a = LOAD(*pa);                                                                       \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const C b = LOAD(pb[i]);                                                                   \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const C a = LOAD(pa[i * s[0]]), b = LOAD(pb[i * s[1]]);                                    \
        y[i * s[2]] = PUT(EXPR);                                                                   \
      }                                                                                            \
    }                                                                                              \
  }
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

#define UNARY_LOOP_own(op, EXPR)                                                                   \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *x = p[0];                                                                             \
    T *y = p[1];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[0] == 1 && s[1] == 1) {                                                                  \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const C a = LOAD(x[i]);                                                                    \
        y[i] = STORE(EXPR);                                                                        \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const C a = LOAD(x[i * s[0]]);                                                             \
        y[i * s[1]] = STORE(EXPR);                                                                 \
      }                                                                                            \
    }                                                                                              \
  }

#define UNARY_LOOP_borrowed(op, EXPR) BORROWED_LOOP(op, 1, T)
#define UNARY_LOOP_fused(op, EXPR) FUSED_UNARY(op, (void)ctx, EXPR)
#define UNARY_LOOP(op, EXPR) CPU_CAT(UNARY_LOOP, LOOPS)(op, EXPR)

#define UNARY_AS(loops, op, EXPR, grain)                                                           \
  CPU_CAT(UNARY_LOOP, loops)(op, EXPR) tn_status KERNEL(op)(const tn_kernel_args *args) {          \
    return ISA(elementwise)(args, NAME(op##_loop), NULL, grain);                                   \
  }
#define UNARY(op, EXPR, grain) UNARY_AS(LOOPS, op, EXPR, grain)
#define UNARY_CHEAP(op, EXPR) UNARY_AS(CHEAP_LOOPS, op, EXPR, CPU_GRAIN_CHEAP)

#endif
