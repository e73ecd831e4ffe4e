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
ONE_FLOAT(silu, double_silu(x))
TWO_FLOAT(silu_grad, a *double_silu_slope(b))
ONE_FLOAT(mish, double_mish(x))
TWO_FLOAT(mish_grad, a *double_mish_slope(b))
ONE_FLOAT(selu, SELU_SCALE *elu(x, SELU_ALPHA))
TWO_FLOAT(selu_grad, a *(SELU_SCALE *elu_slope(b, SELU_ALPHA)))
ONE_FLOAT(hardswish, hardswish(x))
TWO_FLOAT(hardswish_grad, b <= -3 ? 0 : b >= 3 ? a : a * hardswish_slope(b))
ONE_FLOAT(hardsigmoid, hardsigmoid(x))
TWO_FLOAT(hardsigmoid_grad, fabs(b) < 3 ? a / 6 : 0)

/* With z = beta x. */
static double softplus_at(double x, double z, const tn_softplus_attrs *k) {
  return z > k->threshold ? x : softplus(z) / k->beta;
}

ONE_FLOAT_WITH(softplus, softplus_at(x, k->beta *x, k))
TWO_FLOAT_WITH(softplus_grad, k->beta *b > k->threshold ? a : a * sigmoid(k->beta * b))
ONE_FLOAT_WITH(leaky_relu, x > 0 ? x : k->slope * x)
TWO_FLOAT_WITH(leaky_relu_grad, a *(b > 0 ? 1 : k->slope))
ONE_FLOAT_WITH(elu, elu(x, k->alpha))
TWO_FLOAT_WITH(elu_grad, a *elu_slope(b, k->alpha))
ONE_FLOAT_WITH(celu, x > 0 ? x : k->alpha * expm1(x / k->alpha))
ONE_FLOAT(softsign, isinf(x) ? copysign(1, x) : x / (1 + fabs(x)))
ONE_FLOAT_WITH(shrink, x<-k->lambd ? x + k->bias : x> k->lambd ? x - k->bias : isnan(x) ? x : 0)
ONE_FLOAT_WITH(thresholded_relu, x <= k->alpha ? 0 : x)
TWO_FLOAT(prelu, a > 0 ? a : b * a)
