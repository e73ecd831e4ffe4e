/*
 * Division with remainder, powers, angles and lengths of two tensors. Floats narrower than
 * double are computed in double, by blocks: vwide.h has functions that vectorise.
 */
#include "kernels/cpu/elementwise/power.h"

#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/base/vwide.h"

#define BODY "kernels/cpu/elementwise/power_float.inc"
#include "kernels/cpu/base/stamp_float.inc"
#undef BODY
#define BODY "kernels/cpu/elementwise/power_int.inc"
#include "kernels/cpu/base/stamp_int.inc"
