/*
 * Activations of floats and their gradients. What is multiplied in double, with attributes too,
 * rounds once; slope_blocks.h and loops called plain keep to float, within their operators' bounds.
 */
#include "kernels/cpu/elementwise/bell_blocks.h"
#include "kernels/cpu/elementwise/logistic_blocks.h"
#include "kernels/cpu/elementwise/slope_blocks.h"
#include "kernels/cpu/elementwise/unary.h"

#ifdef BELL_IN_BLOCKS
#define GELU_OF bell_gelu_of
#define GELU_BLOCK bell_gelu_block
#define GELU_GRAD_BLOCK bell_gelu_grad_block
#elif defined(MATHS_IN_BLOCKS)
#define GELU_OF maths_gelu
#define GELU_BLOCK maths_gelu_block
#define GELU_GRAD_BLOCK maths_gelu_grad_block
#endif

#ifdef LOGISTIC_IN_BLOCKS
#define LOGISTIC(name) logistic_##name
#elif defined(MATHS_IN_BLOCKS)
#define LOGISTIC(name) maths_##name
#endif

/* What shrink of floats compares with: just the floats that are beyond the double lambd are beyond
 * this one. And its bias in two parts, so that nothing is lost where elements are close to it. */
typedef struct shrink_floats {
  float lambd, bias, less; /* less: what the float is more than the bias */
} shrink_floats;

static shrink_floats shrink_floats_of(const tn_shrink_attrs *k) {
  shrink_floats f = {.lambd = (float)k->lambd, .bias = (float)k->bias};
  if ((double)f.lambd > k->lambd) f.lambd = nextafterf(f.lambd, -INFINITY);
  f.less = isinf(f.bias) ? 0 : (float)((double)f.bias - k->bias);
  return f;
}

#ifdef MATHS_IN_BLOCKS
/* Whether a float keeps all but the last digits of it. */
static inline bool slope_is_float(double slope) {
  return slope == 0 || (fabs(slope) >= 0x1p-100 && fabs(slope) <= 0x1p100);
}

/* elu and its like with their factors. */
#define ELU_OF(x) maths_elu(x, &k)
#define ELU_GRAD_OF(dy, x) maths_elu_grad(dy, x, &k)
#define ELU_BLOCK(n, x, y) maths_elu_block(n, x, y, &k)
#define ELU_GRAD_BLOCK(n, dy, x, dx) maths_elu_grad_block(n, dy, x, dx, &k)
#define ELU_ATTRS(op, in)                                                                          \
  const double alpha = ((const tn_##op##_attrs *)ctx)->alpha;                                      \
  const slope_elu k = slope_elu_of(1, alpha, in)
#define SELU_ATTRS                                                                                 \
  (void)ctx;                                                                                       \
  const slope_elu k = slope_elu_of(SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1)
#endif

#define BODY "kernels/cpu/elementwise/activation.inc"
#include "kernels/cpu/base/stamp_float.inc"
