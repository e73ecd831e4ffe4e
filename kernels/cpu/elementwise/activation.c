/*
 * Activations of floats and their gradients. Multiplying in double also makes products
 * with attributes round once.
 */
#include "kernels/cpu/elementwise/bell_blocks.h"
#include "kernels/cpu/elementwise/unary.h"

#ifdef BELL_IN_BLOCKS
#define GELU_BLOCK bell_gelu_block
#define GELU_GRAD_BLOCK bell_gelu_grad_block
#elif defined(MATHS_IN_BLOCKS)
#define GELU_BLOCK maths_gelu_block
#define GELU_GRAD_BLOCK maths_gelu_grad_block
#endif

#define BODY "kernels/cpu/elementwise/activation.inc"
#include "kernels/cpu/base/stamp_float.inc"
