/*
 * clip_grad_norm and unscale_grads: lists of gradients in one parallel loop over all of their
 * elements. Squares are summed in double by blocks, which follow from the sizes alone, and
 * the blocks in their order.
 */
#include <float.h>
#include <math.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/optimiser/places.h"

enum { BLOCK = 16384, LANES = 16 };

typedef struct grads_call {
  DLTensor *const *grads;
  int length;
  int64_t n;
  double *sums; /* of squares, of each block */
  double *sum;  /* of the block at work */
  double factor;
  uint8_t *found;
} grads_call;

static grads_call grads_of(const tn_kernel_args *args) {
  grads_call call = {.grads = args->out, .length = args->num_out - 1};
  call.n = places_count((const DLTensor *const *)call.grads, call.length);
  return call;
}

static void grads_each(const grads_call *call, int64_t begin, int64_t end, place_fn fn) {
  places_each((const DLTensor *const *)call->grads, call->length, begin, end, fn, (void *)call);
}

#define BODY "kernels/cpu/optimiser/grads.inc"
#include "kernels/cpu/base/stamp_float.inc"
