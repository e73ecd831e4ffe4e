/*
 * Elementwise arithmetic of two inputs, and neg and relu, for every number type.
 */
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/cpu.h"

#define BODY "kernels/cpu/elementwise/arithmetic_float.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/arithmetic_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
