/*
 * Elementary functions and activations in double, where the device has it, so that the rounding
 * to the element type is all there is. Formulas are the ones without cancellation, and right at
 * the infinities. Nothing here is for devices without double: their functions' bounds are wider
 * than the operators'.
 */
#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588
#define INV_SQRT_2PI 0.39894228040143267794
#define GELU_CUBIC 0.044715
#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

static inline WIDE f_sigmoid(WIDE x) {
  const WIDE e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static inline WIDE f_gelu(WIDE x) {
  return x == -INFINITY ? 0 : (WIDE)0.5 * x * erfc(-x * (WIDE)SQRT_HALF);
}

static inline WIDE f_gelu_slope(WIDE x) {
  const WIDE density = (WIDE)INV_SQRT_2PI * exp((WIDE)-0.5 * x * x);
  return (WIDE)0.5 * erfc(-x * (WIDE)SQRT_HALF) + (density == 0 ? 0 : x * density);
}

/* (1 + tanh u) / 2 = sigmoid(2 u). */
static inline WIDE f_gelu_tanh(WIDE x) {
  const WIDE u = (WIDE)SQRT_2_OVER_PI * (x + (WIDE)GELU_CUBIC * x * x * x);
  return x == -INFINITY ? 0 : x * f_sigmoid(2 * u);
}

static inline WIDE f_gelu_tanh_slope(WIDE x) {
  const WIDE u = (WIDE)SQRT_2_OVER_PI * (x + (WIDE)GELU_CUBIC * x * x * x);
  const WIDE du = (WIDE)SQRT_2_OVER_PI * (1 + 3 * (WIDE)GELU_CUBIC * x * x);
  const WIDE bell = f_sigmoid(2 * u) * f_sigmoid(-2 * u);
  return f_sigmoid(2 * u) + (bell == 0 ? 0 : 2 * x * du * bell);
}

static inline WIDE f_softplus(WIDE z) { return (z > 0 ? z : 0) + log1p(exp(-fabs(z))); }

static inline WIDE f_elu(WIDE x, WIDE alpha) { return x > 0 ? x : alpha * expm1(x); }

static inline WIDE f_elu_slope(WIDE x, WIDE alpha) { return x > 0 ? 1 : alpha * exp(x); }

static inline WIDE f_silu(WIDE x) { return x == -INFINITY ? 0 : x * f_sigmoid(x); }

/* sigmoid(-x) is 1 - sigmoid(x) without its rounding. */
static inline WIDE f_silu_slope(WIDE x) {
  const WIDE bell = f_sigmoid(x) * f_sigmoid(-x);
  return f_sigmoid(x) + (bell == 0 ? 0 : x * bell);
}

/* tanh(softplus x) = n / (n + 2), n = e^x (e^x + 2), which is 1 in double from 40 on. */
static inline WIDE f_mish(WIDE x) {
  const WIDE e = exp(x > 40 ? 40 : x), n = e * (e + 2);
  return x == -INFINITY ? 0 : x * (n / (n + 2));
}

/* d tanh = 1 - tanh^2 = 1 / cosh^2, d softplus = sigmoid. */
static inline WIDE f_mish_slope(WIDE x) {
  const WIDE s = f_softplus(x), c = cosh(s), bell = f_sigmoid(x) / (c * c);
  return tanh(s) + (bell == 0 || c == INFINITY ? 0 : x * bell);
}

static inline WIDE f_hardswish(WIDE x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }

static inline WIDE f_hardswish_slope(WIDE x) {
  return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
}

static inline WIDE f_hardsigmoid(WIDE x) { return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6; }
