/*
 * How images that a call makes lie in memory: with channels last where its first input lies so and
 * the kernel is faster that way (TN_KERNEL_CHANNELS_LAST). The call made them and nobody has seen
 * them, so that another order of the same memory is a matter of strides.
 */
#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"

/* [n, c, h, w] whose memory is [n, h, w, c], and in no way row-major. */
static bool is_channels_last(const tn_tensor *x) {
  int64_t strides[IMAGE_RANK];
  if (x->dl.ndim != IMAGE_RANK || x->contiguous) return false;
  strides_fill_channels_last(x->shape, strides);
  for (int32_t i = 0; i < IMAGE_RANK; ++i)
    if (x->shape[i] != 1 && x->strides[i] != strides[i]) return false;
  return true;
}

static bool is_image_made(const plan *p, uint32_t i) {
  return p->made >> i & 1 && p->out[i]->dl.ndim == IMAGE_RANK && p->out[i]->elements;
}

bool plan_turn_outputs(plan *p) {
  if (p->op->lists || !p->num_in || !p->in[0] || !is_channels_last(p->in[0])) return false;
  for (uint32_t i = 0; i < p->num_out; ++i) {
    if (!is_image_made(p, i)) continue;
    tn_tensor *y = p->out[i];
    strides_fill_channels_last(y->shape, y->strides);
    y->contiguous = strides_are_contiguous(IMAGE_RANK, y->shape, y->strides);
  }
  return true;
}

void plan_turn_outputs_back(plan *p) {
  for (uint32_t i = 0; i < p->num_out && !p->op->lists; ++i) {
    if (!is_image_made(p, i)) continue;
    tn_tensor *y = p->out[i];
    strides_fill(IMAGE_RANK, y->shape, y->strides);
    y->contiguous = true;
  }
}
