/*
 * clip_grad_norm and unscale_grads: lists of gradients in one parallel loop over all of their
 * elements. Squares are summed in double by blocks, which follow from the sizes alone, and
 * the blocks in their order. update_loss_scale, three scalars, stands with them.
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

#define UPDATE_SCALE(name, T)                                                                      \
  static void name(const tn_update_loss_scale_attrs *a, bool found, float *scale, T *good) {       \
    const int64_t steps = found ? 0 : (int64_t)((uint64_t)*good + 1);                              \
    const bool enough = steps == a->interval;                                                      \
    if (found) *scale = (float)(*scale * a->backoff);                                              \
    const float grown = (float)(*scale * a->growth);                                               \
    if (enough && isfinite(grown)) *scale = grown;                                                 \
    *good = enough ? 0 : (T)steps;                                                                 \
  }
UPDATE_SCALE(update_narrow, int32_t)
UPDATE_SCALE(update_wide, int64_t)

tn_status ISA(update_loss_scale_any)(const tn_kernel_args *args) {
  const bool found = *(const uint8_t *)args->in[0]->data;
  float *scale = args->out[0]->data;
  if (args->out[1]->dtype.bits == 64)
    update_wide(args->attrs, found, scale, args->out[1]->data);
  else
    update_narrow(args->attrs, found, scale, args->out[1]->data);
  return TN_OK;
}

#define BODY "kernels/cpu/optimiser/grads.inc"
#include "kernels/cpu/base/stamp_float.inc"
