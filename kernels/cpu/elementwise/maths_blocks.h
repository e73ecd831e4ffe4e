/*
 * Elementary functions and activations of blocks of floats, in float: within the bounds of their
 * operators, in a third to a half of the time that doubles take. They want fused multiply-add;
 * builds without it keep to kernels/common/wide. Sums are carried in two parts where rounding them
 * would cost more than a few tenths of a unit in the last place. Polynomials were fitted at
 * Chebyshev nodes in 50 digits (kernels/common/wide/fit.py). NaN, infinities, signs of zero and
 * subnormal numbers come out as C says.
 */
#ifndef TENON_KERNELS_CPU_MATHS_BLOCKS_H
#define TENON_KERNELS_CPU_MATHS_BLOCKS_H

#include <math.h>

#include "kernels/cpu/base/floats.h"

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MATHS_IN_BLOCKS 1

/* Words whose sums wrap. */
typedef uint32_t maths_words __attribute__((vector_size(sizeof(FLOATS))));

#define MATHS_OF(x) FLOATS_SPREAD(x)
#define MATHS_BITS(v) ((maths_words)(v))
#define MATHS_FLOAT(v) ((FLOATS)(v))
#define MATHS_ABS(v) MATHS_FLOAT(MATHS_BITS(v) & 0x7fffffffu)

/* a b + c, rounded once; of constants c and d, c + d x. Polynomials are sums of such pairs in x^2,
 * a chain of half as many steps. */
#define MATHS_FMA(a, b, c) FLOATS_DOT(c, a, b)
#define MATHS_PAIR(x, c, d) FLOATS_DOT(MATHS_OF(c), MATHS_OF(d), x)

/* Adding it to a number of at most 2^22 rounds to a whole one, which then stands in the low bits of
 * the sum. */
#define MATHS_ROUND 0x1.8p23f
#define MATHS_ROUND_BITS 0x4b400000u
#define MATHS_LOG2E 1.44269504f
#define MATHS_LN2 0x1.62e4p-1f /* of 16 bits, so that its products with whole numbers are exact */
#define MATHS_LN2_LOW 1.42860682e-6f
#define MATHS_ERF_FAR 0.90625f

/* e^x = 2^n e^(high + low), t = n + MATHS_ROUND, |high| <= ln 2 / 2. */
typedef struct maths_power {
  FLOATS t, high, low;
} maths_power;

static inline maths_power maths_power_of(FLOATS x) {
  maths_power y;
  y.t = MATHS_PAIR(x, MATHS_ROUND, MATHS_LOG2E);
  const FLOATS n = y.t - MATHS_OF(MATHS_ROUND);
  y.high = MATHS_FMA(n, MATHS_OF(-MATHS_LN2), x);
  y.low = n * MATHS_OF(-MATHS_LN2_LOW);
  return y;
}

/* e^(high + low) - 1 - high. */
static inline FLOATS maths_rest(maths_power y) {
  const FLOATS r = y.high + y.low, rr = r * r;
  FLOATS p = MATHS_PAIR(r, 1.393365e-3f, 1.989099082e-4f);
  p = MATHS_FMA(p, rr, MATHS_PAIR(r, 4.166646493e-2f, 8.333310925e-3f));
  p = MATHS_FMA(p, rr, MATHS_PAIR(r, 0.5f, 0.1666666668f));
  return MATHS_FMA(rr, p, y.low);
}

/* The scale is applied in two halves, so that results round once more only where they are
 * subnormal. */
static inline FLOATS maths_whole(maths_power y) {
  const FLOATS one = MATHS_OF(1.0f), s = one + y.high;
  const FLOATS e = s + (((one - s) + y.high) + maths_rest(y));
  const maths_words n = MATHS_BITS(y.t) + (254u - MATHS_ROUND_BITS); /* of both halves, biased */
  const maths_words half = (n << 22) & 0xff800000u;
  return e * MATHS_FLOAT(half) * MATHS_FLOAT((n << 23) - half);
}

/* Within these bounds, beyond which results are 0 and infinity. */
static inline FLOATS maths_bounded(FLOATS x, float least, float most) {
  return FLOATS_MIN(MATHS_OF(most), FLOATS_MAX(MATHS_OF(least), x));
}

static inline FLOATS maths_exp(FLOATS x) {
  return maths_whole(maths_power_of(maths_bounded(x, -104, 89)));
}

static inline FLOATS maths_exp2(FLOATS x) {
  const FLOATS c = maths_bounded(x, -151, 129), ln2 = MATHS_OF(0.693147181f);
  maths_power y;
  y.t = c + MATHS_OF(MATHS_ROUND);
  const FLOATS f = c - (y.t - MATHS_OF(MATHS_ROUND));
  y.high = f * ln2;
  y.low = MATHS_FMA(f, MATHS_OF(-1.9046543e-9f), MATHS_FMA(f, ln2, -y.high));
  return maths_whole(y);
}

/* 1 / (1 + e^-a) = v (1 + lack) of a >= 0, where e^-a = 2^n (1 + q + q_low), e.t = n + MATHS_ROUND;
 * `unit` is 2^n, or 2^-100 where that is more. */
typedef struct maths_share {
  FLOATS v, lack, q, q_low, unit;
  maths_power e;
} maths_share;

static inline maths_share maths_share_of(FLOATS a) {
  const FLOATS one = MATHS_OF(1);
  maths_share s;
  s.e = maths_power_of(-a);
  const FLOATS rest = maths_rest(s.e), q = s.e.high + rest;
  const FLOATS t = FLOATS_MAX(MATHS_OF(MATHS_ROUND - 100), s.e.t);
  const FLOATS unit = MATHS_FLOAT((MATHS_BITS(t) + (127u - MATHS_ROUND_BITS)) << 23);
  s.q = q;
  s.q_low = (s.e.high - q) + rest;
  s.unit = unit;
  const FLOATS d = MATHS_FMA(unit, q, one + unit), v = one / d;
  const FLOATS d_low = MATHS_FMA(unit, s.q_low, MATHS_FMA(unit, q, (one - d) + unit));
  s.v = v;
  s.lack = MATHS_FMA(-d_low, v, MATHS_FMA(-d, v, one));
  return s;
}

/* 1 / (1 + e^-x), below 0 as e^x / (1 + e^x), since e^-|x| never overflows: part (1 + more). What
 * the sum and the quotient leave is in `more`. Below 0 the part has 2^64 in it, so that what is
 * subnormal rounds once; `unit` takes it out. */
typedef struct maths_logistic {
  FLOATS part, more, unit;
} maths_logistic;

static inline maths_logistic maths_logistic_of(FLOATS x) {
  const FLOATS none = {0}, one = MATHS_OF(1);
  const floats_ints below = x < none;
  const maths_share s = maths_share_of(FLOATS_MIN(MATHS_OF(112), MATHS_ABS(x)));
  const FLOATS scale = MATHS_FLOAT((MATHS_BITS(s.e.t) + (127u + 64u - MATHS_ROUND_BITS)) << 23);
  maths_logistic y;
  y.part = FLOATS_PICK(below, scale * s.v, s.v);
  y.more = FLOATS_PICK(below, s.q + MATHS_FMA(s.lack, s.q, s.q_low + s.lack), s.lack);
  y.unit = FLOATS_PICK(below, MATHS_OF(0x1p-64f), one);
  return y;
}

static inline FLOATS maths_sigmoid(FLOATS x) {
  const maths_logistic y = maths_logistic_of(x);
  return MATHS_FMA(y.part, y.more, y.part) * y.unit;
}

/* From 100 on x itself, which may be infinite; far below 0 it is -0. */
static inline FLOATS maths_silu(FLOATS x) {
  const maths_logistic y = maths_logistic_of(x);
  const FLOATS part = y.part * FLOATS_MAX(MATHS_OF(-112), x);
  return FLOATS_PICK(x > MATHS_OF(100), x, MATHS_FMA(part, y.more, part) * y.unit);
}

/* Phi(-a) = t (p + p_low) e^power, t = 1 / (1 + a / 2), a = |x|. What t lacks acts on the product
 * as the exponent does, 1.3 times. The scale has 2^64 in it. Beyond 14.5 both Phi and the density
 * are 0 in float. */
typedef struct maths_bell {
  FLOATS a, t, p, p_low, scale;
  maths_power power;
} maths_bell;

static inline maths_bell maths_bell_of(FLOATS x) {
  const FLOATS one = MATHS_OF(1), half = MATHS_OF(0.5f);
  const FLOATS a = FLOATS_MIN(MATHS_OF(15), MATHS_ABS(x)), h = -half * a;
  maths_bell y = {.a = a};
  maths_power *e = &y.power;
  e->t = MATHS_PAIR(h * a, MATHS_ROUND, MATHS_LOG2E);
  const FLOATS n = e->t - MATHS_OF(MATHS_ROUND), d = MATHS_FMA(half, a, one), t = one / d;
  const FLOATS lack = MATHS_FMA(-t, MATHS_FMA(half, a, one - d), MATHS_FMA(-d, t, one));
  e->high = MATHS_FMA(h, a, n * MATHS_OF(-MATHS_LN2));
  e->low = MATHS_FMA(n, MATHS_OF(-MATHS_LN2_LOW), MATHS_OF(1.3f) * lack);
  const FLOATS s = t - MATHS_OF(0.6f), ss = s * s, first = MATHS_OF(0.369774163f);
  FLOATS q = MATHS_PAIR(s, -0.00266181005f, 0.0666759547f);
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, 0.0532119349f, -0.0732324779f));
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, -0.073531018f, 0.013689555f));
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, 0.0395994823f, 0.0646241708f));
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, 0.0142815779f, -0.138982932f));
  q = MATHS_FMA(q, s, MATHS_OF(0.338551908f));
  y.t = t;
  y.p = MATHS_FMA(q, s, first);
  y.p_low = MATHS_FMA(q, s, first - y.p);
  y.scale = MATHS_FLOAT((MATHS_BITS(e->t) + (127u + 64u - MATHS_ROUND_BITS)) << 23);
  return y;
}

/* x max(0, sign x) - |x| Phi(-|x|). */
static inline FLOATS maths_gelu(FLOATS x) {
  const FLOATS none = {0};
  const maths_bell b = maths_bell_of(x);
  const FLOATS u = b.t * b.a, u_low = MATHS_FMA(b.t, b.a, -u), w = u * b.p;
  const FLOATS w_low = MATHS_FMA(u, b.p_low, MATHS_FMA(u_low, b.p, MATHS_FMA(u, b.p, -w)));
  const FLOATS low = MATHS_FMA(w, maths_rest(b.power), w_low);
  const FLOATS y = (w + MATHS_FMA(w, b.power.high, low)) * b.scale;
  return MATHS_FMA(y, MATHS_OF(-0x1p-64f), FLOATS_PICK(x < none, MATHS_OF(-0.0f), x));
}

/* Its slope: of -a it is Phi(-a) - a times the density, of a that from 1. Within a few units in the
 * last place of the greater of the two. */
static inline FLOATS maths_gelu_slope(FLOATS x) {
  const FLOATS none = {0};
  const maths_bell b = maths_bell_of(x);
  const FLOATS d = MATHS_FMA(b.a, MATHS_OF(-0.398942280f), b.t * b.p);
  const FLOATS y = MATHS_FMA(d, b.power.high + maths_rest(b.power), d) * b.scale;
  const FLOATS s = y * MATHS_OF(0x1p-64f);
  return FLOATS_PICK(x > none, MATHS_OF(1) - s, s);
}

/* Up to MATHS_ERF_FAR a polynomial, from there on 1 - e^-q(|x|), which is 1 in float from 4 on. */
static inline FLOATS maths_erf(FLOATS x) {
  const FLOATS one = MATHS_OF(1), a = MATHS_ABS(x), edge = MATHS_OF(MATHS_ERF_FAR), z = x * x;
  const FLOATS zz = z * z;
  FLOATS p =
      MATHS_FMA(MATHS_OF(8.488969246e-5f), zz, MATHS_PAIR(z, 5.203466771e-3f, -8.170544749e-4f));
  p = MATHS_FMA(p, zz, MATHS_PAIR(z, 0.112837131f, -2.686037466e-2f));
  p = MATHS_FMA(p, zz, MATHS_PAIR(z, 0.1283791668f, -0.3761263489f));
  const FLOATS s = FLOATS_MIN(MATHS_OF(4), a) - edge, ss = s * s;
  FLOATS q =
      MATHS_FMA(MATHS_OF(1.643319785e-6f), ss, MATHS_PAIR(s, 3.425501112e-4f, -3.425620391e-5f));
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, 1.108409388e-2f, -2.241079829e-3f));
  q = MATHS_FMA(q, ss, MATHS_PAIR(s, -0.8308636453f, -4.554020949e-2f));
  q = MATHS_FMA(MATHS_FMA(q, s, MATHS_OF(-2.482015464f)), s, MATHS_OF(-1.609577377f));
  const maths_power e = maths_power_of(q);
  const FLOATS unit = MATHS_FLOAT((MATHS_BITS(e.t) + (127u - MATHS_ROUND_BITS)) << 23);
  const FLOATS tail = MATHS_FMA(-unit, e.high + maths_rest(e), one - unit);
  const FLOATS far = MATHS_FLOAT(MATHS_BITS(tail) | (MATHS_BITS(x) & 0x80000000u));
  return FLOATS_PICK(a > edge, far, MATHS_FMA(x, p, x));
}

/* ln(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt 2. */
static inline FLOATS maths_log_rest(FLOATS f) {
  const FLOATS s = f * f;
  FLOATS p = MATHS_FMA(MATHS_OF(0.06971611471f), s, MATHS_PAIR(f, 0.1168541992f, -0.1147973385f));
  p = MATHS_FMA(p, s, MATHS_PAIR(f, 0.1424905765f, -0.1242568733f));
  p = MATHS_FMA(p, s, MATHS_PAIR(f, 0.2000071575f, -0.1666780232f));
  p = MATHS_FMA(p, s, MATHS_PAIR(f, 0.3333333118f, -0.2499999696f));
  return MATHS_FMA(s * f, p, MATHS_OF(-0.5f) * s);
}

/* whole + high + low, `whole` being 0 or the largest. */
static inline FLOATS maths_sum(FLOATS whole, FLOATS high, FLOATS low) {
  const FLOATS sum = whole + high;
  return sum + (((whole - sum) + high) + low);
}

/* x = 2^k (1 + f). */
typedef struct maths_parts {
  FLOATS k, f;
} maths_parts;

static inline maths_parts maths_parts_of(FLOATS x) {
  const floats_ints tiny = x < MATHS_OF(0x1p-126f);
  const FLOATS a = FLOATS_PICK(tiny, x * MATHS_OF(0x1p23f), x);
  const maths_words from = MATHS_BITS(a) - 0x3f3504f3u; /* sqrt(1/2) */
  const floats_ints e = (floats_ints)from >> 23;        /* rounded down */
  maths_parts y;
  y.f = MATHS_FLOAT(MATHS_BITS(a) - (from & 0xff800000u)) - MATHS_OF(1);
  y.k = __builtin_convertvector(e - (tiny & 23), FLOATS);
  return y;
}

/* y, but for numbers without a finite logarithm. */
static inline FLOATS maths_log_ends(FLOATS x, FLOATS y) {
  const FLOATS none = {0}, most = MATHS_OF(INFINITY);
  const FLOATS end = FLOATS_PICK(x == none, -most, FLOATS_PICK(x == most, x, MATHS_OF(NAN)));
  return FLOATS_PICK((x > none) & (x < most), y, end);
}

static inline FLOATS maths_log(FLOATS x) {
  const maths_parts a = maths_parts_of(x);
  const FLOATS low = MATHS_FMA(a.k, MATHS_OF(MATHS_LN2_LOW), maths_log_rest(a.f));
  return maths_log_ends(x, maths_sum(a.k * MATHS_OF(MATHS_LN2), a.f, low));
}

/* To a base b, by 1 / ln b and log_b 2 in two parts, of which log_b 2's first has few bits. */
static inline FLOATS maths_log_to(FLOATS x, float by, float by_low, float two, float two_low) {
  const maths_parts a = maths_parts_of(x);
  const FLOATS high = a.f * MATHS_OF(by);
  const FLOATS low = MATHS_FMA(a.f, MATHS_OF(by_low), MATHS_FMA(a.f, MATHS_OF(by), -high));
  const FLOATS more = MATHS_FMA(a.k, MATHS_OF(two_low), low);
  const FLOATS rest = MATHS_FMA(maths_log_rest(a.f), MATHS_OF(by), more);
  return maths_log_ends(x, maths_sum(a.k * MATHS_OF(two), high, rest));
}

static inline FLOATS maths_log2(FLOATS x) {
  return maths_log_to(x, 1.442695022f, 1.925962991e-8f, 1, 0);
}

static inline FLOATS maths_log10(FLOATS x) {
  return maths_log_to(x, 0.434294492f, -1.010305005e-8f, 0x1.344p-2f, 4.605038981e-6f);
}

/* max(0, x) + ln(1 + e^-|x|), whose 1 + e is 1 + f or 2 (1 + f). */
static inline FLOATS maths_softplus(FLOATS x) {
  const FLOATS none = {0}, one = MATHS_OF(1), half = MATHS_OF(0.5f);
  const FLOATS e = maths_exp(-MATHS_ABS(x));
  const floats_ints twice = e > MATHS_OF(0.41421356f);
  const FLOATS f = FLOATS_PICK(twice, (e - one) * half, e);
  const FLOATS k = FLOATS_PICK(twice, one, none);
  const FLOATS low = MATHS_FMA(k, MATHS_OF(MATHS_LN2_LOW), maths_log_rest(f));
  const FLOATS more = maths_sum(k * MATHS_OF(MATHS_LN2), f, low);
  return FLOATS_MAX(none, x) + more;
}

/* name_block of a function of vectors, `name`; y may be x. */
#define MATHS_BLOCK(name)                                                                          \
  static inline void name##_block(int64_t n, const float *x, float *y) {                           \
    enum { LANES = sizeof(FLOATS) / sizeof(float) };                                               \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= n; i += LANES) FLOATS_KEEP(y + i, name(FLOATS_LOAD(x + i)));               \
    if (i == n) return;                                                                            \
    const FLOATS_LANES rest = FLOATS_FIRST(n - i);                                                 \
    FLOATS_KEEP_FIRST(y + i, rest, name(FLOATS_LOAD_FIRST(x + i, rest)));                          \
  }
MATHS_BLOCK(maths_exp)
MATHS_BLOCK(maths_exp2)
MATHS_BLOCK(maths_sigmoid)
MATHS_BLOCK(maths_silu)
MATHS_BLOCK(maths_gelu)
MATHS_BLOCK(maths_softplus)
MATHS_BLOCK(maths_erf)
MATHS_BLOCK(maths_log)
MATHS_BLOCK(maths_log2)
MATHS_BLOCK(maths_log10)

/* dx may be dy or x. */
static inline void maths_gelu_grad_block(int64_t n, const float *dy, const float *x, float *dx) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    FLOATS_KEEP(dx + i, FLOATS_LOAD(dy + i) * maths_gelu_slope(FLOATS_LOAD(x + i)));
  if (i == n) return;
  const FLOATS_LANES rest = FLOATS_FIRST(n - i);
  const FLOATS slope = maths_gelu_slope(FLOATS_LOAD_FIRST(x + i, rest));
  FLOATS_KEEP_FIRST(dx + i, rest, FLOATS_LOAD_FIRST(dy + i, rest) * slope);
}
#endif

#endif
