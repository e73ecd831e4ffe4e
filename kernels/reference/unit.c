/*
 * Activations of newer networks and their gradients; activation.c has the older ones.
 * Formulas are the ones without cancellation, and right at the infinities.
 */
#include <math.h>

#include "bodies.h"
#include "kernels.h"
#include "kernels/common/wide/tail.h"

#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static double softplus(double z) { return (z > 0 ? z : 0) + log1p(exp(-fabs(z))); }

static double elu(double x, double alpha) { return x > 0 ? x : alpha * expm1(x); }

static double elu_slope(double x, double alpha) { return x > 0 ? 1 : alpha * exp(x); }

static double hardswish(double x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }

static double hardswish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }

static double hardsigmoid(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6; }

/* In the gradients a is dy and b is x. */
BODY_ONE(silu_f64, double, double_silu(x))
BODY_TWO(silu_grad_f64, double, a *double_silu_slope(b))
KERNEL_FLOAT(silu)
KERNEL_FLOAT(silu_grad)

BODY_ONE(mish_f64, double, double_mish(x))
BODY_TWO(mish_grad_f64, double, a *double_mish_slope(b))
KERNEL_FLOAT(mish)
KERNEL_FLOAT(mish_grad)

BODY_ONE(selu_f64, double, SELU_SCALE *elu(x, SELU_ALPHA))
BODY_TWO(selu_grad_f64, double, a *(SELU_SCALE *elu_slope(b, SELU_ALPHA)))
KERNEL_FLOAT(selu)
KERNEL_FLOAT(selu_grad)

BODY_ONE(hardswish_f64, double, hardswish(x))
BODY_TWO(hardswish_grad_f64, double, b <= -3 ? 0 : b >= 3 ? a : a * hardswish_slope(b))
KERNEL_FLOAT(hardswish)
KERNEL_FLOAT(hardswish_grad)

BODY_ONE(hardsigmoid_f64, double, hardsigmoid(x))
BODY_TWO(hardsigmoid_grad_f64, double, fabs(b) < 3 ? a / 6 : 0)
KERNEL_FLOAT(hardsigmoid)
KERNEL_FLOAT(hardsigmoid_grad)

#define ATTRS(op) const tn_##op##_attrs *k = r->attrs

static void softplus_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(softplus);
  for (int64_t i = 0; i < r->n; ++i) {
    double x = in[0][i], z = k->beta * x;
    out[0][i] = z > k->threshold ? x : softplus(z) / k->beta;
  }
}
KERNEL_FLOAT(softplus)

static void softplus_grad_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(softplus_grad);
  for (int64_t i = 0; i < r->n; ++i) {
    double dy = in[0][i], z = k->beta * in[1][i];
    out[0][i] = z > k->threshold ? dy : dy * sigmoid(z);
  }
}
KERNEL_FLOAT(softplus_grad)

static void leaky_relu_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(leaky_relu);
  for (int64_t i = 0; i < r->n; ++i) {
    double x = in[0][i];
    out[0][i] = x > 0 ? x : k->slope * x;
  }
}
KERNEL_FLOAT(leaky_relu)

static void leaky_relu_grad_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(leaky_relu_grad);
  for (int64_t i = 0; i < r->n; ++i) out[0][i] = in[0][i] * (in[1][i] > 0 ? 1 : k->slope);
}
KERNEL_FLOAT(leaky_relu_grad)

static void elu_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(elu);
  for (int64_t i = 0; i < r->n; ++i) out[0][i] = elu(in[0][i], k->alpha);
}
KERNEL_FLOAT(elu)

static void elu_grad_f64(const run *r, double *const *in, double *const *out) {
  ATTRS(elu_grad);
  for (int64_t i = 0; i < r->n; ++i) out[0][i] = in[0][i] * elu_slope(in[1][i], k->alpha);
}
KERNEL_FLOAT(elu_grad)
