/*
 * Telling, from results of 16 bits alone, sums that were rounded once from sums whose parts were
 * rounded before. Needs no GPU.
 */
#ifndef KERNELS_CUDA_ROUNDED_H
#define KERNELS_CUDA_ROUNDED_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon/base.h"

/* Whether `b` holds the sums of `a`, of TN_F16 or TN_BF16, as exactly: both in float, in whatever
 * order, and rounded once. `a` is. */
bool cuda_rounded_alike(const uint16_t *a, const uint16_t *b, int count, tn_dtype dtype);

#endif /* KERNELS_CUDA_ROUNDED_H */
