/*
 * Resizing images, one plane at a time on dense doubles. The gradient runs the same
 * weights backwards.
 */
#include "kernels/common/resize.h"

#include "iterate.h"
#include "kernels.h"

enum { TAPS = 4 };

typedef struct resize_call {
  const tn_host *host;
  view image, result; /* of the forward operator */
  resize_axis axis[2];
  bool backward;
} resize_call;

/* The elements that output i reads along an axis, and their weights. */
typedef struct reading {
  int64_t at[TAPS];
  double weight[TAPS];
} reading;

static reading reading_at(const resize_axis *a, int64_t i) {
  int64_t number = a->scale * i + a->shift;
  int64_t whole = number / a->unit, rest = number % a->unit;
  if (rest < 0) {
    rest += a->unit;
    whole--;
  }
  reading r;
  RESIZE_WEIGHTS(double, a->taps, (double)rest / (double)a->unit, r.weight);
  for (int k = 0; k < a->taps; ++k) {
    int64_t at = whole - a->lead + k;
    r.at[k] = at < 0 ? 0 : at >= a->size ? a->size - 1 : at;
  }
  return r;
}

static void forward_plane(const resize_call *c, const double *x, double *y) {
  const resize_axis *rows = &c->axis[0], *columns = &c->axis[1];
  for (int64_t i = 0; i < rows->out; ++i) {
    reading v = reading_at(rows, i);
    for (int64_t j = 0; j < columns->out; ++j, ++y) {
      reading h = reading_at(columns, j);
      *y = 0;
      for (int p = 0; p < rows->taps; ++p)
        for (int q = 0; q < columns->taps; ++q)
          *y += v.weight[p] * h.weight[q] * x[v.at[p] * columns->size + h.at[q]];
    }
  }
}

static void backward_plane(const resize_call *c, const double *dy, double *dx) {
  const resize_axis *rows = &c->axis[0], *columns = &c->axis[1];
  for (int64_t i = 0; i < rows->size * columns->size; ++i) dx[i] = 0;
  for (int64_t i = 0; i < rows->out; ++i) {
    reading v = reading_at(rows, i);
    for (int64_t j = 0; j < columns->out; ++j, ++dy) {
      reading h = reading_at(columns, j);
      for (int p = 0; p < rows->taps; ++p)
        for (int q = 0; q < columns->taps; ++q)
          dx[v.at[p] * columns->size + h.at[q]] += v.weight[p] * h.weight[q] * *dy;
    }
  }
}

static view plane_of(view v, int64_t plane) {
  int64_t channels = v.shape[1];
  return view_slice(view_slice(v, 0, plane / channels, 1), 1, plane % channels, 1);
}

static tn_status resize_range(void *ctx, int64_t begin, int64_t end) {
  const resize_call *c = ctx;
  int64_t size = c->axis[0].size * c->axis[1].size, out = c->axis[0].out * c->axis[1].out;
  double *x = scratch_alloc(c->host, size + out), *y = x + size;
  if (!x) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t plane = begin; plane < end; ++plane) {
    if (c->backward) {
      gather(plane_of(c->result, plane), y);
      backward_plane(c, y, x);
      scatter(plane_of(c->image, plane), x);
    } else {
      gather(plane_of(c->image, plane), x);
      forward_plane(c, x, y);
      scatter(plane_of(c->result, plane), y);
    }
  }
  c->host->free(c->host, x);
  return TN_OK;
}

static tn_status resize_run(const tn_kernel_args *args, const DLTensor *image,
                            const DLTensor *result, int64_t mode, bool align_corners) {
  resize_call c = {.host = args->host, .image = view_of(image), .result = view_of(result)};
  c.backward = result == args->in[0];
  for (int a = 0; a < 2; ++a)
    c.axis[a] = resize_axis_of(mode, align_corners, image->shape[2 + a], result->shape[2 + a]);
  int64_t planes = image->shape[0] * image->shape[1];
  return planes ? c.host->parallel_for(c.host, planes, 1, resize_range, &c) : TN_OK;
}

tn_status reference_resize(const tn_kernel_args *args) {
  const tn_resize_attrs *a = args->attrs;
  return resize_run(args, args->in[0], args->out[0], a->mode, a->align_corners);
}

tn_status reference_resize_grad(const tn_kernel_args *args) {
  const tn_resize_grad_attrs *a = args->attrs;
  return resize_run(args, args->out[0], args->in[0], a->mode, a->align_corners);
}
