/*
 * Choosing, limiting and blending elements: where, clamp and its gradient, lerp, fma.
 */
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/base/vwide.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/elementwise/unary.h"

#define WHERE_LOOP(bits, U)                                                                        \
  static void where_##bits(int64_t n, void *const *p, const int64_t *s, const void *ctx) {         \
    const uint8_t *c = p[0];                                                                       \
    const U *a = p[1], *b = p[2];                                                                  \
    U *y = p[3];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[0] == 1 && s[1] == 1 && s[2] == 1 && s[3] == 1) {                                        \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const U va = a[i], vb = b[i];                                                              \
        y[i] = c[i] ? va : vb;                                                                     \
      }                                                                                            \
    } else if (s[0] == 1 && s[1] == 1 && s[2] == 0 && s[3] == 1) {                                 \
      const U vb = *b;                                                                             \
      CPU_IVDEP for (int64_t i = 0; i < n; i++) {                                                  \
        const U va = a[i];                                                                         \
        y[i] = c[i] ? va : vb;                                                                     \
      }                                                                                            \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) y[i * s[3]] = c[i * s[0]] ? a[i * s[1]] : b[i * s[2]];       \
    }                                                                                              \
  }
WHERE_LOOP(8, uint8_t)
WHERE_LOOP(16, uint16_t)
WHERE_LOOP(32, uint32_t)
WHERE_LOOP(64, uint64_t)

tn_status ISA(where_any)(const tn_kernel_args *args) {
  const int bits = args->out[0]->dtype.bits;
  const elementwise_fn fn = bits == 8    ? where_8
                            : bits == 16 ? where_16
                            : bits == 32 ? where_32
                                         : where_64;
  return ISA(elementwise)(args, fn, NULL, CPU_GRAIN_CHEAP);
}

/* What float32 to compare with: the least that is not below x, the greatest not above. */
static float float_not_below(double x) {
  const float f = (float)x;
  return (double)f < x ? nextafterf(f, INFINITY) : f;
}

static float float_not_above(double x) {
  const float f = (float)x;
  return (double)f > x ? nextafterf(f, -INFINITY) : f;
}

/* Towards zero, saturating. */
static int64_t int_bound(double x, int64_t low, int64_t high) {
  if (x <= (double)low) return low;
  if (x >= (double)high) return high;
  return (int64_t)x;
}

/* a b + c rounded to odd in double, where the product of two 16-bit floats is exact:
 * narrowing it is then the one rounding (Boldo and Melquiond 2008). */
static inline double fma_to_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c, from_c = sum - product;
  const double error = (product - (sum - from_c)) + (c - from_c);
  const uint64_t u = bits_of_double(sum), inexact = fabs(error) > 0 ? 1 : 0;
  const uint64_t step = 1 - 2 * ((u ^ bits_of_double(error)) >> 63);
  return double_of_bits(u + ((0 - (inexact & ~u)) & step));
}

#define BODY "kernels/cpu/elementwise/select_float.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/select_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
