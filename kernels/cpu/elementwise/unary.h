/*
 * Inner loops of one tensor and of gradients, beside those of stencil.h. WIDE(f) is the
 * function f of kernels/common/wide in the precision that the element type needs: it takes and
 * gives doubles.
 */
#ifndef TENON_KERNELS_CPU_UNARY_H
#define TENON_KERNELS_CPU_UNARY_H

#include <string.h>

#include "kernels/common/wide/composed.h"
#include "kernels/common/wide/trig.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/cpu.h"

#define WIDE_9(f) wide_##f
#define WIDE_7(f) wide_##f
#define WIDE_8(f) wide_##f
#define WIDE_10(f) double_##f
#define WIDE_OF(dt, f) CPU_CAT(WIDE, dt)(f)
#define WIDE(f) WIDE_OF(DT, f)

/* An operator of 16 bits whose loop is that of floats whatever LOOPS is. */
#define UNARY_BORROWED(op)                                                                         \
  BORROWED_LOOP(op, 1, T)                                                                          \
  tn_status KERNEL(op)(const tn_kernel_args *args) {                                               \
    return ISA(elementwise)(args, NAME(op##_loop), NULL, CPU_GRAIN_MATHS);                         \
  }

/* y = f(x), rounded once. */
#define UNARY_WIDE(op) UNARY(op, (C)WIDE(op)((double)a), CPU_GRAIN_MATHS)

/* Attributes are k.name in EXPR; y is of type R. */
#define UNARY_OF_own(op, ATTRS, R, PUT, EXPR)                                                      \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *x = p[0];                                                                             \
    R *y = p[1];                                                                                   \
    ATTRS;                                                                                         \
    if (s[0] == 1 && s[1] == 1) {                                                                  \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const C a = LOAD(x[i]);                                                                    \
        y[i] = PUT(EXPR);                                                                          \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const C a = LOAD(x[i * s[0]]);                                                             \
        y[i * s[1]] = PUT(EXPR);                                                                   \
      }                                                                                            \
    }                                                                                              \
  }
#define UNARY_OF_borrowed(op, ATTRS, R, PUT, EXPR) BORROWED_LOOP(op, 1, R)
#define UNARY_OF_fused(op, ATTRS, R, PUT, EXPR) FUSED_UNARY(op, ATTRS, EXPR)

#define UNARY_OF_AS(loops, op, ATTRS, R, PUT, EXPR, grain)                                         \
  CPU_CAT(UNARY_OF, loops)                                                                         \
  (op, ATTRS, R, PUT, EXPR) tn_status KERNEL(op)(const tn_kernel_args *args) {                     \
    return ISA(elementwise)(args, NAME(op##_loop), args->attrs, grain);                            \
  }

#define UNARY_OF(op, ATTRS, R, PUT, EXPR, grain) UNARY_OF_AS(LOOPS, op, ATTRS, R, PUT, EXPR, grain)

#define ATTRS_OF(op) const tn_##op##_attrs k = *(const tn_##op##_attrs *)ctx
#define NO_ATTRS (void)ctx

#define UNARY_WITH(op, EXPR) UNARY_OF(op, ATTRS_OF(op), T, STORE, (C)(EXPR), CPU_GRAIN_MATHS)
#define UNARY_CHEAP_WITH(op, EXPR)                                                                 \
  UNARY_OF_AS(CHEAP_LOOPS, op, ATTRS_OF(op), T, STORE, (C)(EXPR), CPU_GRAIN_MATHS)
/* One loop of several of an operator with attributes: op_which_loop. */
#define UNARY_LOOP_WITH(op, which, EXPR)                                                           \
  CPU_CAT(UNARY_OF, LOOPS)(op##_##which, ATTRS_OF(op), T, STORE, (C)(EXPR))
#define UNARY_TEST(op, EXPR)                                                                       \
  UNARY_OF_AS(TEST_LOOPS, op, NO_ATTRS, uint8_t, AS_BOOL, EXPR, CPU_GRAIN_CHEAP)

/* Gradients: a is dy; b is y, or x where the gradient needs the input. Both are doubles, and floats
 * in fused loops. */
#define GRADIENT_LOOP_own(op, ATTRS, EXPR)                                                         \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *pa = p[0], *pb = p[1];                                                                \
    T *y = p[2];                                                                                   \
    ATTRS;                                                                                         \
    if (s[0] == 1 && s[1] == 1 && s[2] == 1) {                                                     \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const double a = (double)LOAD(pa[i]), b = (double)LOAD(pb[i]);                             \
        y[i] = STORE((C)(EXPR));                                                                   \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const double a = (double)LOAD(pa[i * s[0]]), b = (double)LOAD(pb[i * s[1]]);               \
        y[i * s[2]] = STORE((C)(EXPR));                                                            \
      }                                                                                            \
    }                                                                                              \
  }

#define GRADIENT_LOOP_borrowed(op, ATTRS, EXPR) BORROWED_LOOP(op, 2, T)
#define GRADIENT_LOOP_fused(op, ATTRS, EXPR) FUSED_BINARY(op, ATTRS, EXPR)
#define GRADIENT_LOOP_AS(loops, op, ATTRS, EXPR) CPU_CAT(GRADIENT_LOOP, loops)(op, ATTRS, EXPR)
#define GRADIENT_LOOP(op, ATTRS, EXPR) GRADIENT_LOOP_AS(LOOPS, op, ATTRS, EXPR)

#define GRADIENT_AS(loops, op, ATTRS, EXPR)                                                        \
  CPU_CAT(GRADIENT_LOOP, loops)                                                                    \
  (op, ATTRS, EXPR) tn_status KERNEL(op)(const tn_kernel_args *args) {                             \
    return ISA(elementwise)(args, NAME(op##_loop), args->attrs, CPU_GRAIN_MATHS);                  \
  }

/* Whether some number's size exceeds 2, or is NaN: the greatest of its bits without the sign. Of 16
 * bits, those of 2 are the same in both types. */
#define EXCEEDS_2(name, E, U, TWO)                                                                 \
  static inline bool name(int64_t n, const E *y, int64_t step) {                                   \
    U most = 0, bits;                                                                              \
    if (step == 1)                                                                                 \
      for (int64_t i = 0; i < n; i++) {                                                            \
        memcpy(&bits, y + i, sizeof bits);                                                         \
        bits = (U)(bits << 1);                                                                     \
        most = most > bits ? most : bits;                                                          \
      }                                                                                            \
    else                                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                            \
        memcpy(&bits, y + i * step, sizeof bits);                                                  \
        bits = (U)(bits << 1);                                                                     \
        most = most > bits ? most : bits;                                                          \
      }                                                                                            \
    return most > (U)(TWO << 1);                                                                   \
  }
EXCEEDS_2(exceeds_2_in_32, float, uint32_t, 0x40000000u)
EXCEEDS_2(exceeds_2_in_16, uint16_t, uint16_t, 0x4000u)
#undef EXCEEDS_2

/* Gradients by outputs y, NEAR in float where they are at most 2, within one and a half units since
 * fused multiply-add rounds the slope once; a block with a larger one goes by a loop that computes
 * those in double, FAR, whose products leave float's range. */
#define OUTPUT_GRADIENT(op, NEAR, FAR)                                                             \
  GRADIENT_LOOP_AS(CHEAP_LOOPS, op##_near, NO_ATTRS, NEAR)                                         \
  GRADIENT_LOOP_AS(own, op##_far, NO_ATTRS, fabs(b) <= 2 ? (double)(NEAR) : (FAR))                 \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    enum { BLOCK = 1024 };                                                                         \
    for (int64_t i = 0; i < n; i += BLOCK) {                                                       \
      const int64_t m = cpu_min(BLOCK, n - i);                                                     \
      T *const y = (T *)p[1] + i * s[1];                                                           \
      void *const part[] = {(T *)p[0] + i * s[0], y, (T *)p[2] + i * s[2]};                        \
      const bool far = IS_HALF ? exceeds_2_in_16(m, (const void *)y, s[1])                         \
                               : exceeds_2_in_32(m, (const void *)y, s[1]);                        \
      (far ? NAME(op##_far_loop) : NAME(op##_near_loop))(m, part, s, ctx);                         \
    }                                                                                              \
  }                                                                                                \
  tn_status KERNEL(op)(const tn_kernel_args *args) {                                               \
    return ISA(elementwise)(args, NAME(op##_loop), NULL, CPU_GRAIN_CHEAP);                         \
  }

#define GRADIENT(op, EXPR) GRADIENT_AS(LOOPS, op, NO_ATTRS, EXPR)
#define GRADIENT_CHEAP(op, ATTRS, EXPR) GRADIENT_AS(CHEAP_LOOPS, op, ATTRS, EXPR)

#endif
