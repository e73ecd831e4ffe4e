/*
 * Division with remainder, powers, angles and lengths of two tensors. Floats narrower than
 * double are computed in double, by blocks: vwide.h has functions that vectorise.
 */
#include "power.h"

#include "vwide.h"

#define BODY "power_float.inc"
#include "stamp_float.inc"
#undef BODY
#define BODY "power_int.inc"
#include "stamp_int.inc"
