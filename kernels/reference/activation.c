/*
 * Functions of one element and their gradients. Formulas are the ones without
 * cancellation, and right at the infinities.
 */
#include <math.h>

#include "activation.h"
#include "bodies.h"
#include "kernels.h"
#include "kernels/common/wide/tail.h"

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static double activated(int64_t activation, double x) {
  switch (activation) {
  case TN_ACTIVATION_RELU:
    return x <= 0 ? 0 : x;
  case TN_ACTIVATION_GELU:
    return double_gelu(x);
  case TN_ACTIVATION_GELU_TANH:
    return double_gelu_tanh(x);
  case TN_ACTIVATION_RELU6:
    return x <= 0 ? 0 : x > 6 ? 6 : x;
  case TN_ACTIVATION_HARDSWISH:
    return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
  case TN_ACTIVATION_SILU:
    return double_silu(x);
  case TN_ACTIVATION_SIGMOID:
    return sigmoid(x);
  default:
    return x;
  }
}

void activate(int64_t activation, int64_t n, double *x) {
  for (int64_t i = 0; i < n && activation != TN_ACTIVATION_NONE; ++i)
    x[i] = activated(activation, x[i]);
}

ONE_NUMBER(neg, -x, (int64_t)(0 - (uint64_t)x))
ONE_FLOAT(exp, exp(x))
ONE_FLOAT(log, log(x))
ONE_FLOAT(sqrt, sqrt(x))
ONE_NUMBER(relu, x <= 0 ? 0 : x, x <= 0 ? 0 : x)
ONE_FLOAT(sigmoid, sigmoid(x))
ONE_FLOAT(tanh, tanh(x))

BODY_ONE(gelu_f64, double, double_gelu(x))
BODY_ONE(gelu_tanh_f64, double, double_gelu_tanh(x))

tn_status reference_gelu(const tn_kernel_args *args) {
  const tn_gelu_attrs *attrs = args->attrs;
  return map_f64(args, attrs->tanh ? gelu_tanh_f64 : gelu_f64);
}

/* In the gradients a is dy and b is y or x, as ops.def orders them. */
TWO_FLOAT(relu_grad, b > 0 ? a : 0)
TWO_FLOAT(sigmoid_grad, a *(b *(1 - b)))
TWO_FLOAT(tanh_grad, a *((1 - b) * (1 + b)))

BODY_TWO(gelu_grad_f64, double, a *double_gelu_slope(b))
BODY_TWO(gelu_grad_tanh_f64, double, a *double_gelu_tanh_slope(b))

tn_status reference_gelu_grad(const tn_kernel_args *args) {
  const tn_gelu_grad_attrs *attrs = args->attrs;
  return map_f64(args, attrs->tanh ? gelu_grad_tanh_f64 : gelu_grad_f64);
}
