/*
 * elu, celu and selu, and gradients dy f'(x) of activations, over blocks of floats, in float, as
 * maths_blocks.h has functions: within the bounds of their operators, in a third to a half of the
 * time that doubles take. A slope far below 0 is less than any float where dy may yet make a normal
 * number of it, so dy comes in before the exponential's scale.
 */
#ifndef TENON_KERNELS_CPU_SLOPE_BLOCKS_H
#define TENON_KERNELS_CPU_SLOPE_BLOCKS_H

#include "kernels/cpu/elementwise/maths_blocks.h"

#ifdef MATHS_IN_BLOCKS

/* From here down dy brings 2^-64 along, and below the second, where exponentials of doubles end, a
 * slope is 0. */
#define SLOPE_FAR (-64.0f)
#define SLOPE_NONE (-745.2f)
/* No float is large enough to leave anything of a slope below this. */
#define SLOPE_LEAST (-200.0f)

/* dy b 2^n, e.t = n + MATHS_ROUND, -290 <= n <= 0; of the scale the second factor is 1 where the
 * first can hold it all. */
static inline FLOATS slope_faded(FLOATS dy, FLOATS b, FLOATS x, maths_power e) {
  const FLOATS none = {0};
  const floats_ints far = x < MATHS_OF(SLOPE_FAR);
  const FLOATS up = FLOATS_PICK(far, dy * MATHS_OF(0x1p-64f), dy);
  const FLOATS t = e.t + FLOATS_PICK(far, MATHS_OF(64), none);
  const FLOATS first = FLOATS_MAX(MATHS_OF(MATHS_ROUND - 100), t), second = t - first;
  const FLOATS one = MATHS_FLOAT((MATHS_BITS(first) + (127u - MATHS_ROUND_BITS)) << 23);
  const FLOATS two =
      MATHS_FLOAT((MATHS_BITS(second + MATHS_OF(MATHS_ROUND)) + (127u - MATHS_ROUND_BITS)) << 23);
  return up * (FLOATS_PICK(x < MATHS_OF(SLOPE_NONE), none, b) * one) * two;
}

/* ------------------------------------------------------- exponential units --- */

/* above x from 0 up, and else by (e^(in x) - 1), whose factors have two parts. */
typedef struct slope_elu {
  float above, by, by_low, in, in_low, least; /* least: what x is at least for that not to be -by */
} slope_elu;

/* Factors that products neither overflow nor make subnormal by. */
static inline bool slope_elu_fits(double by) { return by >= 0x1p-10 && by <= 2; }

static inline slope_elu slope_elu_of(double above, double by, double in) {
  slope_elu k = {
      .above = (float)above, .by = (float)by, .in = (float)in, .least = (float)(-20 / in)};
  k.by_low = (float)(by - (double)k.by);
  k.in_low = (float)(in - (double)k.in);
  return k;
}

/* x, or one of both ends. NaN stays NaN. */
static inline FLOATS slope_below(FLOATS x, float least) {
  return FLOATS_MIN((FLOATS){0}, FLOATS_MAX(MATHS_OF(least), x));
}

static inline FLOATS maths_elu(FLOATS x, const slope_elu *k) {
  const FLOATS c = slope_below(x, k->least), in = MATHS_OF(k->in), z = c * in;
  maths_power e = maths_power_of(z);
  e.low += MATHS_FMA(c, MATHS_OF(k->in_low), MATHS_FMA(c, in, -z));
  const FLOATS unit = MATHS_FLOAT((MATHS_BITS(e.t) + (127u - MATHS_ROUND_BITS)) << 23);
  const FLOATS m = maths_sum(unit - MATHS_OF(1), unit * e.high, unit * maths_rest(e));
  const FLOATS y = MATHS_FMA(m, MATHS_OF(k->by), m * MATHS_OF(k->by_low));
  const FLOATS signed_y =
      MATHS_FLOAT((MATHS_BITS(y) & 0x7fffffffu) | (MATHS_BITS(x) & 0x80000000u));
  return FLOATS_PICK(x > (FLOATS){0}, x * MATHS_OF(k->above), signed_y);
}

/* dy above, or dy by e^x, of a k whose `in` is 1. */
static inline FLOATS maths_elu_grad(FLOATS dy, FLOATS x, const slope_elu *k) {
  const FLOATS one = MATHS_OF(1), by = MATHS_OF(k->by);
  const maths_power e = maths_power_of(slope_below(x, SLOPE_LEAST));
  const FLOATS s = one + e.high, low = ((one - s) + e.high) + maths_rest(e);
  const FLOATS b = MATHS_FMA(s, by, MATHS_FMA(low, by, s * MATHS_OF(k->by_low)));
  return FLOATS_PICK(x > (FLOATS){0}, dy * MATHS_OF(k->above), slope_faded(dy, b, x, e));
}

/* x (x + 3) / 6 between -3 and 3, of a sum and a sixth of it in two parts: rounded twice. */
static inline FLOATS maths_hardswish(FLOATS x) {
  const FLOATS three = MATHS_OF(3), sixth = MATHS_OF(0x1.555556p-3f), none = {0};
  const FLOATS s = x + three, s_low = (three - s) + x;
  const FLOATS low = MATHS_FMA(s, MATHS_OF(-0x1.555556p-28f), s_low * sixth);
  const FLOATS within = x * MATHS_FMA(s, sixth, low);
  return FLOATS_PICK(x >= three, x, FLOATS_PICK(x <= -three, none, within));
}

/* --------------------------------------------------- by the logistic function --- */

/* dy / (1 + e^-x). */
static inline FLOATS maths_softplus_grad(FLOATS dy, FLOATS x) {
  const floats_ints below = x < (FLOATS){0};
  const maths_share s = maths_share_of(FLOATS_MIN(MATHS_OF(-SLOPE_LEAST), MATHS_ABS(x)));
  const FLOATS more = s.q + MATHS_FMA(s.lack, s.q, s.q_low + s.lack);
  const FLOATS b = MATHS_FMA(s.v, FLOATS_PICK(below, more, s.lack), s.v);
  return FLOATS_PICK(below, slope_faded(dy, b, x, s.e), dy * b);
}

/* dy v (1 + x (1 - v)), v = 1 / (1 + e^-x): within a few units in the last place of the greater
 * term. */
static inline FLOATS maths_silu_grad(FLOATS dy, FLOATS x) {
  const FLOATS one = MATHS_OF(1), a = FLOATS_MIN(MATHS_OF(-SLOPE_LEAST), MATHS_ABS(x));
  const floats_ints below = x < (FLOATS){0};
  const maths_share s = maths_share_of(a);
  const FLOATS e = one + s.q;
  const FLOATS t = FLOATS_PICK(below, -a, a * (s.unit * e));
  const FLOATS b = s.v * MATHS_FMA(t, s.v, one);
  return FLOATS_PICK(below, slope_faded(dy, b * e, x, s.e), dy * b);
}

/* --------------------------------------------------------------------- blocks --- */

/* y may be x. */
static inline void maths_elu_block(int64_t n, const float *x, float *y, const slope_elu *k) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) FLOATS_KEEP(y + i, maths_elu(FLOATS_LOAD(x + i), k));
  if (i == n) return;
  const FLOATS_LANES rest = FLOATS_FIRST(n - i);
  FLOATS_KEEP_FIRST(y + i, rest, maths_elu(FLOATS_LOAD_FIRST(x + i, rest), k));
}

static inline void maths_hardswish_block(int64_t n, const float *x, float *y) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) FLOATS_KEEP(y + i, maths_hardswish(FLOATS_LOAD(x + i)));
  if (i == n) return;
  const FLOATS_LANES rest = FLOATS_FIRST(n - i);
  FLOATS_KEEP_FIRST(y + i, rest, maths_hardswish(FLOATS_LOAD_FIRST(x + i, rest)));
}

/* dx may be dy or x; `of` is a gradient of dy and x. */
#define SLOPE_BLOCK(n, dy, x, dx, of)                                                              \
  do {                                                                                             \
    enum { LANES = sizeof(FLOATS) / sizeof(float) };                                               \
    int64_t i = 0;                                                                                 \
    for (; i + LANES <= (n); i += LANES)                                                           \
      FLOATS_KEEP((dx) + i, of(FLOATS_LOAD((dy) + i), FLOATS_LOAD((x) + i)));                      \
    if (i == (n)) break;                                                                           \
    const FLOATS_LANES rest = FLOATS_FIRST((n)-i);                                                 \
    FLOATS_KEEP_FIRST((dx) + i, rest,                                                              \
                      of(FLOATS_LOAD_FIRST((dy) + i, rest), FLOATS_LOAD_FIRST((x) + i, rest)));    \
  } while (0)

static inline void maths_elu_grad_block(int64_t n, const float *dy, const float *x, float *dx,
                                        const slope_elu *k) {
#define SLOPE_OF(dy, x) maths_elu_grad(dy, x, k)
  SLOPE_BLOCK(n, dy, x, dx, SLOPE_OF);
#undef SLOPE_OF
}

/* name_block of a gradient of dy and x, `name`. */
#define SLOPE_BLOCK_OF(name)                                                                       \
  static inline void name##_block(int64_t n, const float *dy, const float *x, float *dx) {         \
    SLOPE_BLOCK(n, dy, x, dx, name);                                                               \
  }
SLOPE_BLOCK_OF(maths_softplus_grad)
SLOPE_BLOCK_OF(maths_silu_grad)
#endif

#endif
