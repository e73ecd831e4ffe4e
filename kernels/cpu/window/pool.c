/*
 * Pooling over one to three spatial axes and its gradients, plane by plane, and of images with
 * channels last, row of windows by row of windows. A window reads
 * only what lies inside the image, so padding never wins. Where windows lie along an axis
 * is worked out once per call.
 */
#include <math.h>
#include <string.h>

#include "kernels/common/window.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

/* The part of a window that lies inside the image, begin <= i < end along one axis, and
 * how many elements an average counts there. */
typedef struct pool_span {
  int64_t begin, end, count;
} pool_span;

typedef struct pool_call {
  const void *x;        /* or dy */
  const int32_t *index; /* of the gradient of a maximum */
  void *y;              /* or dx */
  int32_t *index_out;   /* may be NULL */
  int64_t size[3], out[3];
  int64_t plane, windows; /* their products */
  int64_t channels;       /* of images with channels last */
  bool is_2x2;            /* windows of 2 x 2 side by side, without border or rest */
  const pool_span *span[3];
  const tn_host *host;
} pool_call;

static pool_span pool_window(const window_pool *w, int axis, int64_t o, int64_t size) {
  const int64_t begin = o * w->stride[axis] - w->padding[axis];
  const int64_t end = cpu_min(begin + w->kernel[axis], size + w->padding[axis]);
  pool_span s = {cpu_max(begin, 0), cpu_min(end, size), end - begin};
  if (!w->count_padding) s.count = s.end - s.begin;
  return s;
}

static pool_span pool_share(int64_t o, int64_t size, int64_t out) {
  const int64_t begin = o * size / out, end = cpu_ceil_div((o + 1) * size, out);
  return (pool_span){begin, end, end - begin};
}

/* window: NULL in adaptive pooling. */
static void pool_spans(pool_call *call, const window_pool *window, pool_span *spans) {
  for (int d = 0; d < 3; d++) {
    call->span[d] = spans;
    for (int64_t o = 0; o < call->out[d]; o++)
      *spans++ = window ? pool_window(window, d, o, call->size[d])
                        : pool_share(o, call->size[d], call->out[d]);
  }
}

static bool pool_is_2x2(const pool_call *call, const window_pool *w) {
  for (int d = 0; d < 3; d++) {
    const int64_t side = d == 0 ? 1 : 2;
    if (w->kernel[d] != side || w->stride[d] != side || w->padding[d] != 0 ||
        call->out[d] * side > call->size[d])
      return false;
  }
  return true;
}

/* What an operator is: its tensors by their forward names, and its loop over planes. */
typedef struct pool_kind {
  const DLTensor *image, *pooled;
  bool adaptive, average, last;
  tn_range_fn fn; /* over planes; with channels last over rows of windows */
} pool_kind;

static tn_status pool_run(const tn_kernel_args *args, pool_call *call, const pool_kind *kind) {
  const window_shape image = window_shape_of(kind->image), pooled = window_shape_of(kind->pooled);
  const tn_host *host = args->host;
  const int64_t planes = image.size[0] * image.size[1];
  window_pool window;
  call->host = host;
  call->y = args->out[0]->data;
  call->plane = call->windows = 1;
  for (int d = 0; d < 3; d++) {
    call->plane *= call->size[d] = image.size[2 + d];
    call->windows *= call->out[d] = pooled.size[2 + d];
  }
  if (planes * call->plane == 0) return TN_OK;
  if (!kind->adaptive) {
    window = window_pool_of(args->attrs, window_axes(kind->image), kind->average);
    call->is_2x2 = pool_is_2x2(call, &window);
  }
  const int64_t count = call->out[0] + call->out[1] + call->out[2];
  pool_span *spans = host->alloc(host, (size_t)count * sizeof *spans, 64);
  if (spans == NULL) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for pooling windows");
  pool_spans(call, kind->adaptive ? NULL : &window, spans);
  int64_t reads = call->windows, work = call->plane, units = planes;
  for (int d = 0; d < 3; d++) reads *= cpu_max(1, spans->end - spans->begin);
  work += reads;
  if (kind->last) {
    call->channels = image.size[1];
    units = image.size[0] * call->out[1];
    work = work * call->channels / cpu_max(1, call->out[1]);
  }
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / cpu_max(1, work));
  tn_status status = units <= grain ? kind->fn(call, 0, units)
                                    : host->parallel_for(host, units, grain, kind->fn, call);
  host->free(host, spans);
  return status;
}

/* The three spans of a window. */
typedef struct pool_box {
  pool_span z, r, c;
} pool_box;

static inline pool_box pool_box_at(const pool_call *call, int64_t z, int64_t i, int64_t j) {
  return (pool_box){call->span[0][z], call->span[1][i], call->span[2][j]};
}

static inline int64_t pool_count(const pool_box *box) {
  return box->z.count * box->r.count * box->c.count;
}

#define BODY "kernels/cpu/window/pool.inc"
#include "kernels/cpu/base/stamp_float.inc"
