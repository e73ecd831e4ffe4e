/*
 * Elementwise comparisons, whose result is a bool of one byte.
 */
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/cpu.h"

#define BODY "kernels/cpu/elementwise/compare.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
