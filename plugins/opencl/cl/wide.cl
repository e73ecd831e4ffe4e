/*
 * Elementwise operators computed in double, over the functions of functions.cl.
 */
#define LOADED(T, v) ((WIDE)(v))
#define STORE(p, i, v) SAVE_WIDE(T0, p, i, v)
#define NUMBER WIDE

#define apply_exp exp
#define apply_exp2 exp2
#define apply_expm1 expm1
#define apply_log log
#define apply_log2 log2
#define apply_log10 log10
#define apply_log1p log1p
#define apply_cbrt cbrt
#define apply_sin sin
#define apply_cos cos
#define apply_tan tan
#define apply_asin asin
#define apply_acos acos
#define apply_atan atan
#define apply_sinh sinh
#define apply_cosh cosh
#define apply_tanh tanh
#define apply_asinh asinh
#define apply_acosh acosh
#define apply_atanh atanh
#define apply_erf erf
#define apply_erfc erfc
#define apply_pow pow
#define apply_atan2 atan2
#define apply_hypot hypot

#define apply_sigmoid f_sigmoid
#define apply_gelu f_gelu
#define apply_gelu_tanh f_gelu_tanh
#define apply_silu f_silu
#define apply_mish f_mish
#define apply_hardswish f_hardswish
#define apply_hardsigmoid f_hardsigmoid
#define apply_selu(x) ((WIDE)SELU_SCALE * f_elu(x, (WIDE)SELU_ALPHA))
#define apply_elu f_elu

static inline WIDE apply_leaky_relu(WIDE x, WIDE slope) { return x > 0 ? x : slope * x; }
static inline WIDE apply_celu(WIDE x, WIDE alpha) { return x > 0 ? x : f_elu(x / alpha, alpha); }
static inline WIDE apply_thresholded_relu(WIDE x, WIDE alpha) { return x <= alpha ? 0 : x; }
static inline WIDE apply_shrink(WIDE x, WIDE lambd, WIDE bias) {
  return x < -lambd ? x + bias : x > lambd ? x - bias : x == x ? 0 : x;
}
static inline WIDE apply_softplus(WIDE x, WIDE beta, WIDE threshold) {
  const WIDE z = beta * x;
  return z > threshold ? x : f_softplus(z) / beta;
}

/* In the gradients b is y or x. */
#define apply_sigmoid_grad(dy, b) ((dy) * ((b) * (1 - (b))))
#define apply_tanh_grad(dy, b) ((dy) * ((1 - (b)) * (1 + (b))))
#define apply_gelu_grad(dy, b) ((dy) * f_gelu_slope(b))
#define apply_gelu_tanh_grad(dy, b) ((dy) * f_gelu_tanh_slope(b))
#define apply_silu_grad(dy, b) ((dy) * f_silu_slope(b))
#define apply_mish_grad(dy, b) ((dy) * f_mish_slope(b))
#define apply_selu_grad(dy, b) ((dy) * ((WIDE)SELU_SCALE * f_elu_slope(b, (WIDE)SELU_ALPHA)))
#define apply_elu_grad(dy, b, alpha) ((dy) * f_elu_slope(b, alpha))
#define apply_leaky_relu_grad(dy, b, slope) ((dy) * ((b) > 0 ? (WIDE)1 : (slope)))

static inline WIDE apply_hardswish_grad(WIDE dy, WIDE x) {
  return x <= -3 ? 0 : x >= 3 ? dy : dy * f_hardswish_slope(x);
}
static inline WIDE apply_hardsigmoid_grad(WIDE dy, WIDE x) { return fabs(x) < 3 ? dy / 6 : 0; }
static inline WIDE apply_softplus_grad(WIDE dy, WIDE x, WIDE beta, WIDE threshold) {
  const WIDE z = beta * x;
  return z > threshold ? dy : dy * f_sigmoid(z);
}
static inline WIDE apply_clamp_grad(WIDE dy, WIDE x, WIDE least, WIDE most) {
  return x < least || x > most ? 0 : dy;
}

static inline WIDE apply_lerp(WIDE a, WIDE b, WIDE t) {
  if (t == 0 || t == 1) return t == 0 ? a : b;
  return t < (WIDE)0.5 ? a + t * (b - a) : b - (1 - t) * (b - a);
}

/* The quotient of a - mod(a, b), which b divides: whole but for rounding. */
static inline WIDE apply_floor_div(WIDE a, WIDE b) {
  if (b == 0) return a / b;
  const WIDE rest = fmod(a, b);
  WIDE quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  return quotient == 0 ? copysign((WIDE)0, a / b) : rint(quotient);
}

#ifdef HAS_FP64
/* a b + c of 16-bit floats, whose product is a double, rounded to odd: the store's rounding is
 * then the only one (Boldo and Melquiond 2008). */
static inline double fma_to_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  const double from_c = sum - product, error = (product - (sum - from_c)) + (c - from_c);
  if (error == 0 || error != error || (as_long(sum) & 1)) return sum;
  return nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
}
#define fma_f16 fma_to_odd
#define fma_bf16 fma_to_odd
#define fma_f32(a, b, c) fma((float)(a), (float)(b), (float)(c))
#define fma_f64(a, b, c) fma(a, b, c)
#define apply_fma PASTE(fma_, T0)
#endif
