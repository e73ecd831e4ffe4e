/*
 * Normalising by the squares of neighbouring channels. A share is a run of elements that lie one
 * behind the other in every channel of an image.
 */
#include <math.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { RESPONSE_RUN = 256 };

typedef struct response_call {
  const tn_local_response_norm_attrs *attrs;
  const void *x;
  void *y;
  int64_t channels, inner, runs; /* runs of an image */
} response_call;

#define BODY "kernels/cpu/norm/local_response.inc"
#include "kernels/cpu/base/stamp_float.inc"
