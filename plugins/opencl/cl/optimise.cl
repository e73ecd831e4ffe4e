/*
 * Steps of optimisers, one work-item per element, and what is done to gradients as a whole. OP
 * names the optimiser; a0 .. a5 are its attributes in the order of its function here. T0 is the
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

/* a0 .. a3: rate, momentum, weight decay, nesterov. Without momentum the buffer counts for
 * nothing, not even if it holds NaN. */
inline element_t step_sgd(element_t e, real g, real rate, real momentum, real decay, real nesterov,
                          real a4, real a5) {
  g += decay * e.param;
  e.s = momentum == 0 ? g : momentum * e.s + g;
  e.param -= rate * (nesterov != 0 ? g + momentum * e.s : e.s);
  return e;
}

inline element_t moments(element_t e, real g, real beta1, real beta2) {
  e.s = beta1 * e.s + (1 - beta1) * g;
  e.t = beta2 * e.t + (1 - beta2) * g * g;
  return e;
}

/* a0 .. a5: rate over 1 - beta1^step, beta1, beta2, epsilon, penalty, 1 - beta2^step. */
inline element_t step_adam(element_t e, real g, real rate, real beta1, real beta2, real epsilon,
                           real penalty, real bias) {
  e = moments(e, g + penalty * e.param, beta1, beta2);
  e.param -= rate * e.s / (sqrt(e.t / bias) + epsilon);
  return e;
}

/* Likewise, with what a parameter keeps in place of the penalty. */
inline element_t step_adamw(element_t e, real g, real rate, real beta1, real beta2, real epsilon,
                            real kept, real bias) {
  e = moments(e, g, beta1, beta2);
  e.param = e.param * kept - rate * e.s / (sqrt(e.t / bias) + epsilon);
  return e;
}

/* a0 .. a4: rate, decay, momentum, epsilon, penalty. */
inline element_t step_rmsprop(element_t e, real g, real rate, real decay, real momentum,
                              real epsilon, real penalty, real a5) {
  g += penalty * e.param;
  e.s = decay * e.s + (1 - decay) * g * g;
  const real step = g / (sqrt(e.s) + epsilon);
  e.t = momentum == 0 ? step : momentum * e.t + step;
  e.param -= rate * e.t;
  return e;
}

/* a0 .. a2: rate, epsilon, penalty. */
inline element_t step_adagrad(element_t e, real g, real rate, real epsilon, real penalty, real a3,
                              real a4, real a5) {
  g += penalty * e.param;
  e.s += g * g;
  e.param -= rate * g / (sqrt(e.s) + epsilon);
  return e;
}

/* Optimisers with one tensor of state have no t. */
__kernel void optimise(CONST_TENSOR(T0, grad), TENSOR(T0, param), TENSOR(T1, s), TENSOR(T1, t),
                       const long count, const int has_t, const real a0, const real a1,
                       const real a2, const real a3, const real a4, const real a5) {
  const long i = get_global_id(0);
  element_t e;
  if (i >= count) return;
  e.param = LOAD(T0, AT(T0, param), i);
  e.s = LOAD(T1, AT(T1, s), i);
  e.t = has_t ? LOAD(T1, AT(T1, t), i) : 0;
  e = PASTE(step_, OP)(e, LOAD(T0, AT(T0, grad), i), a0, a1, a2, a3, a4, a5);
  SAVE(T0, AT(T0, param), i, (WORK(T0))e.param);
  SAVE(T1, AT(T1, s), i, (WORK(T1))e.s);
  if (has_t) SAVE(T1, AT(T1, t), i, (WORK(T1))e.t);
}
