/*
 * Sums in float differ by their order where they lie by the middle between two numbers of 16 bits:
 * in few places, and by one. Those of rounded parts differ about everywhere. See rounded.h.
 */
#include "kernels/cuda/base/rounded.h"

#include <stdlib.h>

enum { exponents = 3, most_apart = 16 };

/* Bits of 16-bit floats in the order of their numbers. */
static int32_t ordered(uint16_t bits) {
  return bits & 0x8000 ? -(int32_t)(bits & 0x7fff) : (int32_t)bits;
}

bool cuda_rounded_alike(const uint16_t *a, const uint16_t *b, int count, tn_dtype dtype) {
  int32_t largest = 0, counted = 0, apart = 0;
  for (int i = 0; i < count; i++)
    if ((a[i] & 0x7fff) > largest) largest = a[i] & 0x7fff;
  /* What is small beside the others has lost digits: below an eighth it is left out. */
  const int32_t least = largest - exponents * (dtype == TN_F16 ? 0x400 : 0x80);
  for (int i = 0; i < count; i++) {
    if ((a[i] & 0x7fff) < least) continue;
    const int32_t steps = abs(ordered(a[i]) - ordered(b[i]));
    if (steps > 1) return false;
    counted++;
    apart += steps;
  }
  return counted > 0 && apart <= counted / most_apart;
}
