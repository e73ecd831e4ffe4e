/*
 * max_pool2d, avg_pool2d and their gradients, plane by plane. A window reads only what
 * lies inside the image, so padding never wins.
 */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "half.h"

typedef struct pool_call {
  const void *x;        /* or dy */
  const int32_t *index; /* of max_pool2d_grad */
  void *y;              /* or dx */
  int32_t *index_out;   /* may be NULL */
  int64_t h, w, oh, ow; /* of the forward input and output */
  int64_t kernel[2], stride[2], padding[2];
  bool count_padding;
  const tn_host *host;
} pool_call;

/* The part of window `out` that lies inside 0 <= i < size. */
typedef struct pool_span {
  int64_t begin, end;
} pool_span;

static inline pool_span pool_window(const pool_call *call, int dim, int64_t out) {
  const int64_t begin = out * call->stride[dim] - call->padding[dim];
  const int64_t end = begin + call->kernel[dim], size = dim == 0 ? call->h : call->w;
  return (pool_span){cpu_max(begin, 0), cpu_min(end, size)};
}

/* The elements of window `out` with the padding. */
static inline int64_t pool_padded(const pool_call *call, int dim, int64_t out) {
  const int64_t rest = (dim == 0 ? call->h : call->w) + 2 * call->padding[dim];
  return cpu_min(call->kernel[dim], rest - out * call->stride[dim]);
}

static void pool_geometry(pool_call *call, const DLTensor *image, const DLTensor *pooled,
                          const int64_t *kernel, const int64_t *stride, const int64_t *padding) {
  call->h = image->shape[2];
  call->w = image->shape[3];
  call->oh = pooled->shape[2];
  call->ow = pooled->shape[3];
  for (int d = 0; d < 2; d++) {
    call->kernel[d] = kernel[d];
    call->stride[d] = stride[d] ? stride[d] : kernel[d];
    call->padding[d] = padding[d];
  }
}

static tn_status pool_run(const tn_kernel_args *args, pool_call *call, tn_range_fn fn) {
  const DLTensor *y = args->out[0];
  const int64_t planes = y->shape[0] * y->shape[1];
  const int64_t work = call->h * call->w + call->oh * call->ow * call->kernel[0] * call->kernel[1];
  call->host = args->host;
  call->y = y->data;
  if (planes == 0) return TN_OK;
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / cpu_max(1, work));
  if (planes <= grain) return fn(call, 0, planes);
  return args->host->parallel_for(args->host, planes, grain, fn, call);
}

#define BODY "pool.inc"
#include "stamp_float.inc"
