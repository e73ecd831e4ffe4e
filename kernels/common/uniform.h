/*
 * Uniform numbers of [low, high) as an element type holds them. Rounding takes a number that is
 * next to high onto it, and high - low may leave the range of the type; what every device must
 * make of both alike stands here. Serves C and CUDA's host code; plugins/opencl/uniform.h is the
 * same for OpenCL, since a plugin includes headers of api/ alone.
 */
#ifndef TENON_KERNELS_UNIFORM_H
#define TENON_KERNELS_UNIFORM_H

#include <math.h>

/* A number is back * (low + width u), no less than least and no more than most: computed in
 * float, but for float64. The fused product and sum of float are rounded once. */
typedef struct uniform_range {
  double low, width, back; /* back: 1, or 2 where high - low overflows */
  double least, most;      /* of the element type */
} uniform_range;

/* A binary floating type: bits of its significand and exponent of its least number. */
typedef struct uniform_type {
  int bits, least;
} uniform_type;

static inline uniform_type uniform_type_of_bits(int bits, int least) {
  uniform_type t;
  t.bits = bits;
  t.least = least;
  return t;
}
static inline uniform_type uniform_type_f64(void) { return uniform_type_of_bits(53, -1074); }
static inline uniform_type uniform_type_f32(void) { return uniform_type_of_bits(24, -149); }
static inline uniform_type uniform_type_f16(void) { return uniform_type_of_bits(11, -24); }
static inline uniform_type uniform_type_bf16(void) { return uniform_type_of_bits(8, -133); }

/* The greatest number: its exponents reach as far up as down. */
static inline double uniform_greatest(uniform_type t) {
  return ldexp(ldexp(1, t.bits) - 1, 3 - 2 * t.bits - t.least);
}

/* The exponent of a number's last bit. x is finite. */
static inline int uniform_last_bit(double x, uniform_type t) {
  int exponent;
  (void)frexp(x, &exponent);
  return exponent - t.bits > t.least ? exponent - t.bits : t.least;
}

static inline double uniform_clamp(double x, double most) {
  const double up = x < -most ? -most : x;
  return up > most ? most : up;
}

/* To nearest, and no further than the greatest number. */
static inline double uniform_rounded(double x, uniform_type t) {
  const double c = uniform_clamp(x, uniform_greatest(t));
  const int last = uniform_last_bit(c, t);
  return ldexp(rint(ldexp(c, -last)), last);
}

/* The next number of the type below one that it holds. A power of two has finer ones below. */
static inline double uniform_below(double x, uniform_type t) {
  const int last = uniform_last_bit(x, t);
  const double units = ldexp(x, -last);
  if (units == ldexp(1, t.bits - 1) && last > t.least) return ldexp(2 * units - 1, last - 1);
  return ldexp(units - 1, last);
}

static inline uniform_range uniform_range_of(double low, double high, uniform_type t) {
  const uniform_type f32 = uniform_type_f32();
  const double reach = uniform_greatest(t.bits > f32.bits ? t : f32);
  const double a = uniform_clamp(low, reach), b = uniform_clamp(high, reach);
  uniform_range r = {a, b - a, 1, uniform_rounded(a, t), uniform_rounded(b, t)};
  if (!(r.width <= reach)) {
    r.back = 2;
    r.low = a / 2;
    r.width = b / 2 - a / 2;
  }
  if (high <= uniform_greatest(t)) r.most = uniform_below(r.most, t);
  if (!(r.least <= r.most)) r.most = r.least; /* nothing lies between: low itself */
  return r;
}

#endif
