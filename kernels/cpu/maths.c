/*
 * Elementary functions of floats.
 */
#include "unary.h"

#define TRIG_BLOCK 512

#define BODY "maths.inc"
#include "stamp_float.inc"
