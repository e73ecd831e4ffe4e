/*
 * Elementwise functions of floats and their gradients.
 */
#include "cpu.h"
#include "stencil.h"
#include "vmath.h"

#define BODY "maths.inc"
#include "stamp_float.inc"
