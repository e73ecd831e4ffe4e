/*
 * Elementwise operators that need no more than the element type's own computing type. Integers
 * are computed modulo 2^64, and the store keeps the low bits.
 */
#define LOADED(T, v) (v)
#define STORE(p, i, v) SAVE(T0, p, i, (WORK(T0))(v))
#if C0 > 0
typedef WORK(T1) num;
#else
typedef WORK(T0) num;
#endif
#define NUMBER num

/* Moving, choosing and asking, of every type. */
#define apply_copy(x) (x)
#define apply_fill(p) (p)
#define apply_where(c, a, b) ((c) ? (a) : (b))
#define apply_equal(a, b) ((a) == (b))
#define apply_not_equal(a, b) ((a) != (b))
#define apply_less(a, b) ((a) < (b))
#define apply_less_equal(a, b) ((a) <= (b))
#define apply_greater(a, b) ((a) > (b))
#define apply_greater_equal(a, b) ((a) >= (b))
#define apply_logical_not(x) ((x) == 0)
#define apply_logical_and(a, b) ((a) != 0 && (b) != 0)
#define apply_logical_or(a, b) ((a) != 0 || (b) != 0)
#define apply_logical_xor(a, b) (((a) != 0) != ((b) != 0))

static inline num apply_clamp(num x, num least, num most) {
  const num raised = x < least ? least : x;
  return raised > most ? most : raised;
}

#if C0 > 0 && IS_FLOAT(T1)

/* Correctly rounded: by the build's option, or twice in a type wide enough for that to be
 * harmless (Figueroa 1995). */
#if defined(HAS_FP64) && !defined(EXACT_DIVISION)
#define DIVIDE(a, b) ((num)((double)(a) / (double)(b)))
#define ROOT(x) ((num)sqrt((double)(x)))
#else
#define DIVIDE(a, b) ((a) / (b))
#define ROOT(x) sqrt(x)
#endif

#define apply_neg(x) (-(x))
#define apply_abs(x) fabs(x)
#define apply_square(x) ((x) * (x))
#define apply_reciprocal(x) DIVIDE((num)1, x)
#define apply_sqrt(x) ROOT(x)
#define apply_rsqrt(x) DIVIDE((num)1, ROOT(x))
#define apply_floor(x) floor(x)
#define apply_ceil(x) ceil(x)
#define apply_round(x) rint(x)
#define apply_trunc(x) trunc(x)
#define apply_isnan(x) ((x) != (x))
#define apply_isinf(x) (fabs(x) == (num)INFINITY)
#define apply_isfinite(x) (fabs(x) < (num)INFINITY)
#define apply_add(a, b) ((a) + (b))
#define apply_sub(a, b) ((a) - (b))
#define apply_mul(a, b) ((a) * (b))
#define apply_div(a, b) DIVIDE(a, b)
#define apply_fmod(a, b) fmod(a, b)
#define apply_relu_grad(dy, y) ((y) > 0 ? (dy) : (num)0)

#define apply_softsign(x) (isinf(x) ? copysign((num)1, x) : DIVIDE(x, (num)1 + fabs(x)))
#define apply_prelu(x, slope) ((x) > 0 ? (x) : (slope) * (x))
#define apply_copysign(a, b) copysign(a, b)

static inline num apply_sign(num x) { return x > 0 ? (num)1 : x < 0 ? (num)-1 : x; }
static inline num apply_relu(num x) { return x <= 0 ? (num)0 : x; } /* NaN stays */
static inline num apply_maximum(num a, num b) { return a > b || a != a ? a : b; }
static inline num apply_minimum(num a, num b) { return a < b || a != a ? a : b; }

/* The remainder with the sign of b; a multiple of b keeps its zero with b's sign. */
static inline num apply_mod(num a, num b) {
  const num rest = fmod(a, b);
  if (rest == 0) return copysign((num)0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

#else

#define apply_neg(x) (0 - (ulong)(x))
#define apply_square(x) ((ulong)(x) * (ulong)(x))
#define apply_relu(x) ((x) > 0 ? (x) : 0)
#define apply_sign(x) (((x) > 0) - ((x) < 0))
#define apply_abs(x) ((x) < 0 ? 0 - (ulong)(x) : (ulong)(x))
#define apply_add(a, b) ((ulong)(a) + (ulong)(b))
#define apply_sub(a, b) ((ulong)(a) - (ulong)(b))
#define apply_mul(a, b) ((ulong)(a) * (ulong)(b))
#define apply_fma(a, b, c) ((ulong)(a) * (ulong)(b) + (ulong)(c))
#define apply_maximum(a, b) ((a) > (b) ? (a) : (b))
#define apply_minimum(a, b) ((a) < (b) ? (a) : (b))
#define apply_bitwise_and(a, b) ((a) & (b))
#define apply_bitwise_or(a, b) ((a) | (b))
#define apply_bitwise_xor(a, b) ((a) ^ (b))
#define apply_left_shift(a, b) ((b) < 0 || (b) > 63 ? 0 : (ulong)(a) << (ulong)(b))
#define apply_right_shift(a, b) ((long)(a) >> ((b) < 0 || (b) > 63 ? 63 : (long)(b)))
#if C0 > 0 && IS_BOOL(T1)
#define apply_bitwise_not(x) ((x) == 0)
#else
#define apply_bitwise_not(x) (~(x))
#endif

/* Division by 0 gives 0, and the minimum by -1 wraps; every type goes through 64 bits. */
static inline long apply_div(long a, long b) {
  if (b == 0) return 0;
  return b == -1 ? (long)(0 - (ulong)a) : a / b;
}
static inline long apply_fmod(long a, long b) { return b == 0 || b == -1 ? 0 : a % b; }
static inline long apply_mod(long a, long b) {
  const long rest = apply_fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline long apply_floor_div(long a, long b) {
  const long rest = apply_fmod(a, b);
  return apply_div(a, b) - (rest != 0 && (rest < 0) != (b < 0));
}

/* By squaring. */
static inline long apply_pow(long a, long b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
  ulong y = 1, square = (ulong)a;
  for (; b; b >>= 1, square *= square)
    if (b & 1) y *= square;
  return (long)y;
}

#endif
