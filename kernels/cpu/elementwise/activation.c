/*
 * Activations of floats and their gradients. Multiplying in double also makes products
 * with attributes round once.
 */
#include "kernels/cpu/elementwise/bell_blocks.h"
#include "kernels/cpu/elementwise/unary.h"

#define BODY "kernels/cpu/elementwise/activation.inc"
#include "kernels/cpu/base/stamp_float.inc"
