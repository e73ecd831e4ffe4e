/*
 * One step of SGD and of Adam, in one pass over parameter, gradient and state. Constants
 * are folded in double before the loop.
 */
#include <math.h>

#include "kernels/common/scalars.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/cpu.h"

typedef struct sgd_constants {
  double lr, momentum, decay;
  bool nesterov;
} sgd_constants;

typedef struct adam_constants {
  double lr, beta1, beta2, eps, decay;
  double correct1, correct2; /* 1 / (1 - beta^step) */
} adam_constants;

#define BODY "kernels/cpu/optimiser/optimiser.inc"
#include "kernels/cpu/base/stamp_float.inc"
