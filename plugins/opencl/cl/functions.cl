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

#ifdef HAS_FP64
/*
 * In their tails these multiply an error of the exponential's argument by that argument, and
 * become subnormal before the factor that they carry is in: arguments come in two parts (x the
 * number, y what rounding leaves of it), and far out an exponential in two halves.
 */
#define FAR (-600.0)
#define NORMAL_FAR (-36.0) /* from here down the series of Mills' ratio has all digits */

static inline double2 product_of(double a, double b) {
  const double high = a * b;
  return (double2)(high, fma(a, b, -high));
}

static inline double exp_of(double2 x) {
  const double e = exp(x.x);
  return e + e * x.y;
}

/* factor times e^x. */
static inline double times_exp(double factor, double x) {
  const double half_e = exp(0.5 * x);
  return factor * half_e * half_e;
}

/* factor times the density of the normal distribution. */
static inline double times_density(double factor, double x) {
  const double2 s = product_of(x, x);
  const double half_e = exp(-0.25 * s.x);
  return factor * INV_SQRT_2PI * (1 - 0.5 * s.y) * half_e * half_e;
}

/* Its distribution function: erfc(-x / sqrt 2) / 2, moved by its slope to where the argument is. */
static inline double normal_of(double x) {
  double2 a = product_of(-x, SQRT_HALF);
  a.y += x * 4.833646656726457e-17;
  return 0.5 * (erfc(a.x) - 1.1283791670955126 * exp(-a.x * a.x) * a.y);
}

/* -x normal / density: 1 - 1 / x^2 + 3 / x^4 - ... */
static inline double mills_of(double x) {
  const double z = 1 / (x * x);
  double p = 1 - 13 * z;
  for (int k = 11; k > 0; k -= 2) p = 1 - k * z * p;
  return p;
}

static inline double f_gelu(double x) {
  const double far = x < -40 ? -40 : x;
  return x < NORMAL_FAR ? times_density(-mills_of(far), far) : x * normal_of(x > 40 ? 40 : x);
}

static inline double f_gelu_slope(double x) {
  const double c = x < -40 ? -40 : x > 40 ? 40 : x;
  if (x < NORMAL_FAR) return times_density(c - mills_of(c) / c, c);
  return fma(c, times_density(1, c), normal_of(c));
}

/* 2 sqrt(2 / pi) (x + 0.044715 x^3), whose sigmoid is (1 + tanh u) / 2, for |x| <= 40. */
static inline double2 gelu_argument(double x) {
  const double2 s = product_of(x, x), g = product_of(GELU_CUBIC, s.x);
  const double2 w = product_of(x, 1.5957691216057308);
  const double sum = 1 + g.x, grown = sum - 1;
  const double low = (1 - (sum - grown)) + (g.x - grown) + g.y + GELU_CUBIC * s.y +
                     2.1960211427085595e-18 * s.x;
  double2 u = product_of(w.x, sum);
  u.y += w.x * low + (w.y - x * 9.96930880911092e-17) * sum;
  return u;
}

static inline double f_gelu_tanh(double x) {
  const double c = x < -40 ? -40 : x > 40 ? 40 : x;
  const double2 u = gelu_argument(c);
  if (u.x < FAR) return times_exp(c * (1 + u.y), u.x);
  if (u.x > 0) return x / (1 + exp_of(-u));
  const double t = exp_of(u);
  return x * (t / (1 + t));
}

static inline double f_gelu_tanh_slope(double x) {
  const double c = x < -40 ? -40 : x > 40 ? 40 : x;
  const double way = 1.5957691216057308 * fma(3 * GELU_CUBIC * c, c, 1.0);
  const double2 u = gelu_argument(c);
  if (u.x < FAR) return times_exp((1 + c * way) * (1 + u.y), u.x);
  const double t = exp_of(u.x < 0 ? u : -u), r = 1 / (1 + t);
  return fma(c * t * r * r, way, u.x < 0 ? t * r : r);
}

static inline double f_silu(double x) {
  const double c = x < -800 ? -800 : x;
  return c < FAR ? times_exp(c, c) : c * f_sigmoid(c);
}

/* sigmoid(-x) is 1 - sigmoid(x) without its rounding. */
static inline double f_silu_slope(double x) {
  const double c = x < -800 ? -800 : x > 800 ? 800 : x;
  return c < FAR ? times_exp(1 + c, c) : fma(c * f_sigmoid(c), f_sigmoid(-c), f_sigmoid(c));
}

/* tanh(softplus x) = n / (n + 2), n = e^x (e^x + 2), which is 1 in double from 40 on. */
static inline double f_mish(double x) {
  const double c = x < -800 ? -800 : x, e = exp(c > 40 ? 40 : c), n = e * (e + 2);
  return c < FAR ? times_exp(c, c) : c * (n / (n + 2));
}

static inline double f_mish_slope(double x) {
  const double c = x < -800 ? -800 : x > 40 ? 40 : x, e = exp(c), n = e * (e + 2);
  const double r = 1 / (n + 2);
  if (c < FAR) return times_exp(1 + c, c);
  return fma(4 * c * (n + 1) * r * r, e / (1 + e), n * r);
}
#else
static inline WIDE f_gelu(WIDE x) {
  return x == -INFINITY ? 0 : (WIDE)0.5 * x * erfc(-x * (WIDE)SQRT_HALF);
}

/* (1 + tanh u) / 2 = sigmoid(2 u). */
static inline WIDE f_gelu_tanh(WIDE x) {
  const WIDE u = (WIDE)SQRT_2_OVER_PI * (x + (WIDE)GELU_CUBIC * x * x * x);
  return x == -INFINITY ? 0 : x * f_sigmoid(2 * u);
}
#endif

static inline WIDE f_softplus(WIDE z) { return (z > 0 ? z : 0) + log1p(exp(-fabs(z))); }

static inline WIDE f_elu(WIDE x, WIDE alpha) { return x > 0 ? x : alpha * expm1(x); }

static inline WIDE f_elu_slope(WIDE x, WIDE alpha) { return x > 0 ? 1 : alpha * exp(x); }

static inline WIDE f_hardswish(WIDE x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }

static inline WIDE f_hardswish_slope(WIDE x) {
  return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
}

static inline WIDE f_hardsigmoid(WIDE x) { return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6; }
