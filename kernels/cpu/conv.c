/*
 * conv2d and its gradients as matrix products. A piece of the output image, some rows of
 * one group of one image, is unfolded into a matrix of patches that stays in cache
 * ([c kh kw, rows ow], "im2col"), which one BLAS call multiplies with the weight. How the
 * work is cut depends on the shapes alone, so the bits do not depend on the threads.
 */
#include <string.h>

#include "gemm.h"
#include "half.h"

/* Bytes of patches at a time: with the weight they should stay in a core's cache. */
#define CONV_PATCH_BYTES (768 * 1024)
/* Bytes of weight-gradient accumulators at the most. */
#define CONV_SUM_BYTES (32 * 1024 * 1024)
#define CONV_SUMS 16

typedef struct conv_call {
  const tn_host *host;
  const void *x, *w, *bias, *dy;             /* in type T, those that the operator has */
  void *y;                                   /* what it writes */
  const void *weight;                        /* w in type C */
  int64_t n, c, h, width, k, oh, ow, kh, kw; /* c and k of one group */
  int64_t groups, stride[2], padding[2], dilation[2];
  int64_t patch;        /* c kh kw */
  int64_t rows, pieces; /* output rows in a piece, pieces in an image */
  int64_t split;        /* ways the channels are divided (grad_input), or k (grad_weight) */
  int64_t sums;         /* accumulators of grad_weight */
  void *sum;
} conv_call;

static void conv_geometry(conv_call *call, const DLTensor *x, const DLTensor *w, const DLTensor *y,
                          const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                          int64_t groups, size_t element) {
  call->n = x->shape[0];
  call->c = w->shape[1];
  call->h = x->shape[2];
  call->width = x->shape[3];
  call->k = w->shape[0] / groups;
  call->kh = w->shape[2];
  call->kw = w->shape[3];
  call->oh = y->shape[2];
  call->ow = y->shape[3];
  call->groups = groups;
  for (int d = 0; d < 2; d++) {
    call->stride[d] = stride[d];
    call->padding[d] = padding[d];
    call->dilation[d] = dilation[d];
  }
  call->patch = call->c * call->kh * call->kw;
  const int64_t row = call->patch * call->ow * (int64_t)element;
  call->rows = cpu_max(1, CONV_PATCH_BYTES / cpu_max(1, row));
  /* Pieces of equal height. */
  call->pieces = cpu_ceil_div(call->oh, call->rows);
  call->rows = cpu_ceil_div(call->oh, cpu_max(1, call->pieces));
}

/* The outputs j, begin <= j < end, whose input j stride + at lies inside 0 <= i < size. */
typedef struct conv_span {
  int64_t begin, end;
} conv_span;

static inline conv_span conv_inside(int64_t at, int64_t stride, int64_t size, int64_t outputs) {
  const int64_t begin = at >= 0 ? 0 : cpu_ceil_div(-at, stride);
  const int64_t end = size > at ? cpu_ceil_div(size - at, stride) : 0;
  return (conv_span){cpu_min(begin, outputs), cpu_min(cpu_max(begin, end), outputs)};
}

static tn_status conv_no_memory(const tn_host *host, int64_t bytes) {
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld bytes of convolution workspace",
                    (long long)bytes);
}

#define BODY "conv.inc"
#include "stamp_float.inc"
