/*
 * Logic on elements, whose result is a bool of one byte, and on the bits of integers and
 * bools.
 */
#include "cpu.h"
#include "half.h"
#include "stencil.h"

#define BODY "logic.inc"
#include "stamp_bool.inc"
#include "stamp_float.inc"
#include "stamp_int.inc"
#undef BODY
#define BODY "bits.inc"
#include "stamp_bool.inc"
#include "stamp_int.inc"
#undef BODY
#define BODY "shift.inc"
#include "stamp_int.inc"
