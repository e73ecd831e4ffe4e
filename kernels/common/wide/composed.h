/*
 * Activations and the slopes of their gradients, each in two precisions: wide_<name> for
 * numbers that were floats, double_<name> for doubles.
 */
#ifndef TENON_KERNELS_WIDE_COMPOSED_H
#define TENON_KERNELS_WIDE_COMPOSED_H

#include "kernels/common/wide/double.h"
#include "kernels/common/wide/erf.h"
#include "kernels/common/wide/exp.h"
#include "kernels/common/wide/log.h"

/* Klambauer et al. 2017, arXiv 1706.02515 */
#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

/* A division takes four times as long as all else of these bodies. What is rounded to float can do
 * without. */
WIDE_FN double wide_sixth(double x) { return x * (1.0 / 6.0); }
WIDE_FN double double_sixth(double x) { return x / 6.0; }

#define M(name) wide_##name
#include "kernels/common/wide/composed.inc"
#undef M
#define M(name) double_##name
#include "kernels/common/wide/composed.inc"
#undef M
#include "kernels/common/wide/bell.h"
#include "kernels/common/wide/tail.h"

#endif
