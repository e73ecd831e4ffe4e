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

void activate(int64_t activation, int64_t n, double *x) {
  for (int64_t i = 0; i < n; ++i) {
    if (activation == TN_ACTIVATION_RELU)
      x[i] = x[i] <= 0 ? 0 : x[i];
    else if (activation == TN_ACTIVATION_GELU)
      x[i] = double_gelu(x[i]);
    else if (activation == TN_ACTIVATION_GELU_TANH)
      x[i] = double_gelu_tanh(x[i]);
  }
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

BODY_ONE(gelu_f64, double, double_gelu(x))
BODY_ONE(gelu_tanh_f64, double, double_gelu_tanh(x))

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

BODY_TWO(gelu_grad_f64, double, a *double_gelu_slope(b))
BODY_TWO(gelu_grad_tanh_f64, double, a *double_gelu_tanh_slope(b))

tn_status reference_gelu_grad(const tn_kernel_args *args) {
  const tn_gelu_grad_attrs *attrs = args->attrs;
  return map_f64(args, attrs->tanh ? gelu_grad_tanh_f64 : gelu_grad_f64);
}
