/*
 * Exact and correctly rounded functions of one tensor, and questions about an element.
 * Where an instruction set has none for it in vectors, rounding to whole numbers goes by adding and
 * taking away 2^23 (2^52 in doubles).
 */
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/elementwise/unary.h"

static inline float abs_f(float x) { return fabsf(x); }
static inline double abs_d(double x) { return fabs(x); }

#if defined(__SSE4_1__) || defined(__aarch64__)
static inline float round_f(float x) { return rintf(x); }
static inline double round_d(double x) { return rint(x); }
static inline float floor_f(float x) { return floorf(x); }
static inline double floor_d(double x) { return floor(x); }
static inline float trunc_f(float x) { return truncf(x); }
static inline double trunc_d(double x) { return trunc(x); }
#else
/* To the nearest, even of two; larger numbers are whole. */
static inline float round_f(float x) {
  const float a = fabsf(x), r = (a + 0x1p23f) - 0x1p23f;
  return a < 0x1p23f ? copysignf(r, x) : x;
}
static inline double round_d(double x) {
  const double a = fabs(x), r = (a + 0x1p52) - 0x1p52;
  return a < 0x1p52 ? copysign(r, x) : x;
}

static inline float floor_f(float x) {
  const float r = round_f(x);
  return r - (r > x ? 1.0f : 0.0f);
}
static inline double floor_d(double x) {
  const double r = round_d(x);
  return r - (r > x ? 1.0 : 0.0);
}

static inline float trunc_f(float x) { return copysignf(floor_f(fabsf(x)), x); }
static inline double trunc_d(double x) { return copysign(floor_d(fabs(x)), x); }
#endif

#define BODY "kernels/cpu/elementwise/simple_float.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/simple_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/simple_bool.inc"
#include "kernels/cpu/base/stamp_bool.inc"
