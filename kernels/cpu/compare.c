/*
 * Elementwise comparisons, whose result is a bool of one byte.
 */
#include "cpu.h"
#include "half.h"
#include "stencil.h"

#define BODY "compare.inc"
#include "stamp_bool.inc"
#include "stamp_float.inc"
#include "stamp_int.inc"
