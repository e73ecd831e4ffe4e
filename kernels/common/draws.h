/*
 * From Philox words to draws: what every device must compute alike. Serves C and CUDA as
 * philox.h does.
 */
#ifndef TENON_KERNELS_DRAWS_H
#define TENON_KERNELS_DRAWS_H

#include <math.h>

#include "kernels/common/philox.h"

/* Two of a counter's words as 64 bits: number i of a sequence that takes pairs. */
TN_PHILOX_FN uint64_t philox_pair(uint64_t seed, uint64_t offset, uint64_t i) {
  philox_words words = philox_at(seed, offset + i / 2);
  const uint32_t *w = words.w + 2 * (i % 2);
  return (uint64_t)w[1] << 32 | w[0];
}

/* The upper 64 bits of a product: 64 random bits as a number below n. */
TN_PHILOX_FN uint64_t draw_below(uint64_t bits, uint64_t n) {
  uint64_t a0 = (uint32_t)bits, a1 = bits >> 32, b0 = (uint32_t)n, b1 = n >> 32;
  uint64_t middle = a1 * b0 + (a0 * b0 >> 32), low = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (low >> 32);
}

/* Words below this are ones: whole for every probability from 0 to 1. */
TN_PHILOX_FN uint64_t bernoulli_threshold(double probability) {
  return (uint64_t)ceil(probability * 4294967296.0);
}

/* ------------------------------------------------------- truncated normal --- */

/* The normal numbers from low to high, as a stretch of probabilities. Bounds right of 0 are
 * mirrored, for probabilities near 0 are known better than those near 1. */
typedef struct truncated {
  double from, width; /* Phi(low) and Phi(high) - Phi(low) */
  double low, high;
  int mirrored;
} truncated;

TN_PHILOX_FN double normal_probability(double z) { return 0.5 * erfc(-z * 0.70710678118654752440); }

TN_PHILOX_FN truncated truncated_between(double low, double high) {
  truncated t;
  t.mirrored = low > 0;
  t.low = t.mirrored ? -high : low;
  t.high = t.mirrored ? -low : high;
  t.from = normal_probability(t.low);
  t.width = normal_probability(t.high) - t.from;
  return t;
}

TN_PHILOX_FN double polynomial7(double x, double c0, double c1, double c2, double c3, double c4,
                                double c5, double c6, double c7) {
  return ((((((c7 * x + c6) * x + c5) * x + c4) * x + c3) * x + c2) * x + c1) * x + c0;
}

/* The inverse of Phi is that of AS 241, PPND16 (Wichura 1988), by three quotients. Around the
 * centre: of q = p - 1/2, |q| <= 0.425. */
TN_PHILOX_FN double quantile_centre(double q) {
  const double r = 0.180625 - q * q;
  return q *
         polynomial7(r, 3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
                     1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                     3.3430575583588128105e+4, 2.5090809287301226727e+3) /
         polynomial7(r, 1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2,
                     5.3941960214247511077e+3, 2.1213794301586595867e+4, 3.9307895800092710610e+4,
                     2.8729085735721942674e+4, 5.2264952788528545610e+3);
}

/* Further out, its size: of r = sqrt(-log(the less of p and 1 - p)) <= 5. */
TN_PHILOX_FN double quantile_flank(double r) {
  return polynomial7(r - 1.6, 1.42343711074968357734e0, 4.63033784615654529590e0,
                     5.76949722146069140550e0, 3.64784832476320460504e0, 1.27045825245236838258e0,
                     2.41780725177450611770e-1, 2.27238449892691845833e-2,
                     7.74545014278341407640e-4) /
         polynomial7(r - 1.6, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
                     6.89767334985100004550e-1, 1.48103976427480074590e-1,
                     1.51986665636164571966e-2, 5.47593808499534494600e-4,
                     1.05075007164441684324e-9);
}

/* The same of r > 5. */
TN_PHILOX_FN double quantile_tail(double r) {
  return polynomial7(r - 5, 6.65790464350110377720e0, 5.46378491116411436990e0,
                     1.78482653991729133580e0, 2.96560571828504891230e-1, 2.65321895265761230930e-2,
                     1.24266094738807843860e-3, 2.71155556874348757815e-5,
                     2.01033439929228813265e-7) /
         polynomial7(r - 5, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                     1.48753612908506148525e-2, 7.86869131145613259100e-4,
                     1.84631831751005468180e-5, 1.42151175831644588870e-7,
                     2.04426310338993978564e-15);
}

/* pre: 0 < p < 1 */
TN_PHILOX_FN double normal_quantile(double p) {
  const double q = p - 0.5;
  double r, z;
  if (fabs(q) <= 0.425) return quantile_centre(q);
  r = sqrt(-log(q < 0 ? p : 1 - p));
  z = r <= 5 ? quantile_flank(r) : quantile_tail(r);
  return q < 0 ? -z : z;
}

/* The number at u, 0 < u < 1. Where all probabilities are too small for a double, the bound
 * next to 0 has nearly all of them. */
TN_PHILOX_FN double truncated_at(const truncated *t, double u) {
  double p = t->from + u * t->width, z = t->high;
  if (p > 0 && p < 1) z = normal_quantile(p);
  z = z < t->low ? t->low : z > t->high ? t->high : z;
  return t->mirrored ? -z : z;
}

/* ------------------------------------------------------------ multinomial --- */

/* Weights become whole numbers, so that their sums do not depend on the order and every
 * device finds the same place. */
TN_PHILOX_FN int weight_counts(double w) { return w > 0 && w <= 1.7976931348623157e308; }

/* Bits of the greatest weight, such that a sum of n fits 62 bits. n < 2^31. */
TN_PHILOX_FN int weight_bits(int64_t n) {
  int bits = 62;
  for (; n > 0; n >>= 1) --bits;
  return bits < 50 ? bits : 50;
}

/* The power of two that weights are multiplied by. pre: weight_counts(greatest). */
TN_PHILOX_FN int weight_shift(double greatest, int64_t n) {
  int exponent;
  (void)frexp(greatest, &exponent);
  return weight_bits(n) - exponent;
}

TN_PHILOX_FN uint64_t weight_units(double w, int shift) {
  return weight_counts(w) ? (uint64_t)ldexp(w, shift) : 0;
}

#endif
