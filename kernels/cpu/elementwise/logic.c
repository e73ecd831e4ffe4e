/*
 * Logic on elements, whose result is a bool of one byte, and on the bits of integers and
 * bools.
 */
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/cpu.h"

#define BODY "kernels/cpu/elementwise/logic.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/bits.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_int.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/shift.inc"
#include "kernels/cpu/base/stamp_int.inc"
