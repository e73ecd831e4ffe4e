/*
 * Functions of one element and their gradients. Formulas are the ones without
 * cancellation, and right at the infinities.
 */
#include <math.h>

#include "activation.h"
#include "bodies.h"
#include "kernels.h"

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588
#define INV_SQRT_2PI 0.39894228040143267794
#define GELU_CUBIC 0.044715

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* x Phi(x), Phi(x) = erfc(-x / sqrt 2) / 2. */
static double gelu_exact(double x) { return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * SQRT_HALF); }

static double gelu_exact_slope(double x) {
  double density = INV_SQRT_2PI * exp(-0.5 * x * x);
  return 0.5 * erfc(-x * SQRT_HALF) + (density == 0 ? 0 : x * density);
}

/* (1 + tanh u) / 2 = sigmoid(2 u). */
static double gelu_tanh(double x) {
  double u = SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x);
  return x == -INFINITY ? 0 : x * sigmoid(2 * u);
}

void activate(int64_t activation, int64_t n, double *x) {
  for (int64_t i = 0; i < n; ++i) {
    if (activation == TN_ACTIVATION_RELU)
      x[i] = x[i] <= 0 ? 0 : x[i];
    else if (activation == TN_ACTIVATION_GELU)
      x[i] = gelu_exact(x[i]);
    else if (activation == TN_ACTIVATION_GELU_TANH)
      x[i] = gelu_tanh(x[i]);
  }
}

static double gelu_tanh_slope(double x) {
  double u = SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x);
  double du = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * x * x);
  double bell = sigmoid(2 * u) * sigmoid(-2 * u);
  return sigmoid(2 * u) + (bell == 0 ? 0 : 2 * x * du * bell);
}

BODY_ONE(neg_f64, double, -x)
BODY_ONE(neg_i64, int64_t, (int64_t)(0 - (uint64_t)x))
KERNEL_NUMBER(neg)

BODY_ONE(exp_f64, double, exp(x))
KERNEL_FLOAT(exp)

BODY_ONE(log_f64, double, log(x))
KERNEL_FLOAT(log)

BODY_ONE(sqrt_f64, double, sqrt(x))
KERNEL_FLOAT(sqrt)

BODY_ONE(relu_f64, double, x <= 0 ? 0 : x)
BODY_ONE(relu_i64, int64_t, x <= 0 ? 0 : x)
KERNEL_NUMBER(relu)

BODY_ONE(sigmoid_f64, double, sigmoid(x))
KERNEL_FLOAT(sigmoid)

BODY_ONE(tanh_f64, double, tanh(x))
KERNEL_FLOAT(tanh)

BODY_ONE(gelu_f64, double, gelu_exact(x))
BODY_ONE(gelu_tanh_f64, double, gelu_tanh(x))

tn_status reference_gelu(const tn_kernel_args *args) {
  const tn_gelu_attrs *attrs = args->attrs;
  return map_f64(args, attrs->tanh ? gelu_tanh_f64 : gelu_f64);
}

/* In the gradients a is dy and b is y or x, as ops.def orders them. */
BODY_TWO(relu_grad_f64, double, b > 0 ? a : 0)
KERNEL_FLOAT(relu_grad)

BODY_TWO(sigmoid_grad_f64, double, a *(b *(1 - b)))
KERNEL_FLOAT(sigmoid_grad)

BODY_TWO(tanh_grad_f64, double, a *((1 - b) * (1 + b)))
KERNEL_FLOAT(tanh_grad)

BODY_TWO(gelu_grad_f64, double, a *gelu_exact_slope(b))
BODY_TWO(gelu_grad_tanh_f64, double, a *gelu_tanh_slope(b))

tn_status reference_gelu_grad(const tn_kernel_args *args) {
  const tn_gelu_grad_attrs *attrs = args->attrs;
  return map_f64(args, attrs->tanh ? gelu_grad_tanh_f64 : gelu_grad_f64);
}
