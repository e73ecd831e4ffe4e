/*
 * Activations of floats and their gradients. Multiplying in double also makes products
 * with attributes round once.
 */
#include "unary.h"

#define BODY "activation.inc"
#include "stamp_float.inc"
