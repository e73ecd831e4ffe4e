/*
 * Elementary functions of floats.
 */
#include "kernels/cpu/elementwise/exp_blocks.h"
#include "kernels/cpu/elementwise/maths_blocks.h"
#include "kernels/cpu/elementwise/unary.h"

#define TRIG_BLOCK 512

#define BODY "kernels/cpu/elementwise/maths.inc"
#include "kernels/cpu/base/stamp_float.inc"
