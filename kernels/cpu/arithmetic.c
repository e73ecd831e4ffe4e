/*
 * Elementwise arithmetic of two inputs, and neg and relu, for every number type.
 */
#include "cpu.h"
#include "half.h"
#include "stencil.h"

#define BODY "arithmetic_float.inc"
#include "stamp_float.inc"
#undef BODY
#define BODY "arithmetic_int.inc"
#include "stamp_int.inc"
