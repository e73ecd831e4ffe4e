/*
 * Steps of optimisers, one work-item per element, and what is done to gradients as a whole. OP
 * names the optimiser; a0 .. a7 are its numbers, `a` of its function here. T0 is the
 * type of parameters and gradients, T1 that of the state. See optimise.c.
 */

/* What a step is computed in. */
#define is_double_f16 0
#define is_double_bf16 0
#define is_double_f32 0
#define is_double_f64 1
#if PASTE(is_double_, T0) || PASTE(is_double_, T1)
typedef double real;
#else
typedef float real;
#endif

/* An element at work: the parameter and two numbers of state. */
typedef struct {
  real param, s, t;
} element_t;

/* a: rate, momentum, weight decay, nesterov. Without momentum the buffer counts for nothing, not
 * even if it holds NaN. */
inline element_t step_sgd(element_t e, real g, const real *a) {
  g += a[2] * e.param;
  e.s = a[1] == 0 ? g : a[1] * e.s + g;
  e.param -= a[0] * (a[3] != 0 ? g + a[1] * e.s : e.s);
  return e;
}

/* a: beta1, 1 - beta1, beta2, 1 - beta2, then epsilon, 1 - beta2^step, rate / (1 - beta1^step). */
inline element_t moments(element_t e, real g, const real *a) {
  e.s = a[0] * e.s + a[1] * g;
  e.t = a[2] * e.t + a[3] * g * g;
  return e;
}

inline real adam_change(element_t e, const real *a) {
  return a[6] * e.s / (sqrt(e.t / a[5]) + a[4]);
}

/* Behind these the penalty. */
inline element_t step_adam(element_t e, real g, const real *a) {
  e = moments(e, g + a[7] * e.param, a);
  e.param -= adam_change(e, a);
  return e;
}

/* Behind these what a parameter keeps of itself. */
inline element_t step_adamw(element_t e, real g, const real *a) {
  e = moments(e, g, a);
  e.param = e.param * a[7] - adam_change(e, a);
  return e;
}

/* a: rate, decay, 1 - decay, momentum, epsilon, penalty. */
inline element_t step_rmsprop(element_t e, real g, const real *a) {
  g += a[5] * e.param;
  e.s = a[1] * e.s + a[2] * g * g;
  const real step = g / (sqrt(e.s) + a[4]);
  e.t = a[3] == 0 ? step : a[3] * e.t + step;
  e.param -= a[0] * e.t;
  return e;
}

/* a: rate, epsilon, penalty. */
inline element_t step_adagrad(element_t e, real g, const real *a) {
  g += a[2] * e.param;
  e.s += g * g;
  e.param -= a[0] * g / (sqrt(e.s) + a[1]);
  return e;
}

/* Optimisers with one tensor of state have no t. */
__kernel void optimise(CONST_TENSOR(T0, grad), TENSOR(T0, param), TENSOR(T1, s), TENSOR(T1, t),
                       const long count, const int has_t, const real a0, const real a1,
                       const real a2, const real a3, const real a4, const real a5, const real a6,
                       const real a7) {
  const long i = get_global_id(0);
  const real a[] = {a0, a1, a2, a3, a4, a5, a6, a7};
  element_t e;
  if (i >= count) return;
  e.param = LOAD(T0, AT(T0, param), i);
  e.s = LOAD(T1, AT(T1, s), i);
  e.t = has_t ? LOAD(T1, AT(T1, t), i) : 0;
  e = PASTE(step_, OP)(e, LOAD(T0, AT(T0, grad), i), a);
  SAVE(T0, AT(T0, param), i, (WORK(T0))e.param);
  SAVE(T1, AT(T1, s), i, (WORK(T1))e.s);
  if (has_t) SAVE(T1, AT(T1, t), i, (WORK(T1))e.t);
}
