/*
 * Steps of tensors that are broadcast along others: what attention's masks, scalar products and
 * outer products of the CPU's and CUDA's host code have in common.
 */
#ifndef TENON_KERNELS_BROADCAST_H
#define TENON_KERNELS_BROADCAST_H

#include "tenon/plugin.h"

/* Steps of a contiguous tensor broadcast to [b, h, s, t], and its data; NULL
 * where there is none. */
static inline const void *scores_like(const DLTensor *x, int64_t step[4]) {
  if (!x) return NULL;
  for (int i = 1; i <= 4; i++) {
    bool own = i <= x->ndim && x->shape[x->ndim - i] != 1;
    step[4 - i] = own ? x->strides[x->ndim - i] : 0;
  }
  return x->data;
}

/* Steps of x without its last axis along the first `rank` axes of y, the batch. */
static inline void batch_steps(const DLTensor *x, const DLTensor *y, int rank, int64_t *step) {
  const int behind = rank - (x->ndim - 1);
  for (int d = 0; d < rank; d++)
    step[d] = d < behind || x->shape[d - behind] != y->shape[d] ? 0 : x->strides[d - behind];
}

/* An outer product: calls an elementwise product of a and b expanded to y, each along the other's
 * last axis. */
static inline tn_status outer_by(const tn_kernel_args *args, tn_kernel_fn multiply) {
  const DLTensor *y = args->out[0], *in[2];
  DLTensor expanded[2];
  int64_t step[2][TN_MAX_RANK];
  for (int i = 0; i < 2; i++) {
    const DLTensor *x = args->in[i];
    batch_steps(x, y, y->ndim - 2, step[i]);
    step[i][y->ndim - 2] = i == 0 ? x->strides[x->ndim - 1] : 0;
    step[i][y->ndim - 1] = i == 1 ? x->strides[x->ndim - 1] : 0;
    expanded[i] = *x;
    expanded[i].ndim = y->ndim;
    expanded[i].shape = y->shape;
    expanded[i].strides = step[i];
    in[i] = &expanded[i];
  }
  tn_kernel_args sub = *args;
  sub.in = in;
  sub.attrs = NULL;
  return multiply(&sub);
}

#endif
