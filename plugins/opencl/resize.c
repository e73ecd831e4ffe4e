/* Resizing images and its gradient: cl/resize.cl. */
#include <assert.h>

#include "rows.h"
#include "sources.h"

/* axis_t of cl/resize.cl: output i lies at (scale i + shift) / unit. */
typedef struct resize_axis {
  cl_long scale, shift, unit, size, out;
} resize_axis;

/* resize_t of cl/resize.cl. */
typedef struct resize_shape {
  cl_long count;
  cl_int taps, lead;
  resize_axis axis[2];
} resize_shape;

static_assert(sizeof(resize_shape) == 12 * 8, "no padding");

static resize_axis axis_of(int64_t mode, bool align_corners, int64_t size, int64_t out) {
  const bool nearest = mode == TN_RESIZE_NEAREST || mode == TN_RESIZE_NEAREST_EXACT;
  resize_axis a = {.size = size, .out = out};
  if (align_corners) { /* i (size - 1) / (out - 1); to the nearest: and a half */
    a.scale = out > 1 ? 2 * (size - 1) : 0;
    a.unit = out > 1 ? 2 * (out - 1) : 2;
    a.shift = nearest ? a.unit / 2 : 0;
  } else { /* (i + 1/2) size / out - 1/2; to the nearest: and a half */
    a.scale = 2 * size;
    a.unit = 2 * out;
    a.shift = mode == TN_RESIZE_NEAREST ? 0 : nearest ? size : size - out;
  }
  return a;
}

static resize_shape shape_of(const DLTensor *image, const DLTensor *result, int64_t mode,
                             bool align_corners) {
  resize_shape r = {.taps = mode == TN_RESIZE_BICUBIC ? 4 : mode == TN_RESIZE_BILINEAR ? 2 : 1};
  r.lead = (r.taps - 1) / 2;
  for (int a = 0; a < 2; a++)
    r.axis[a] = axis_of(mode, align_corners, image->shape[2 + a], result->shape[2 + a]);
  return r;
}

static tn_status resize_run(const tn_kernel_args *args, const char *function, resize_shape *r) {
  ocl_launch launch;
  const ocl_key key = {.source = &ocl_source_resize,
                       .function = function,
                       .types = {(uint8_t)ocl_dtype(args->in[0])}};
  r->count = (cl_long)ocl_count(args->out[0]);
  if (r->count == 0) return TN_OK;
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg(&launch, r, sizeof *r);
  return ocl_run(&launch, (uint64_t)r->count);
}

tn_status ocl_run_resize(const tn_kernel_args *args) {
  const tn_resize_attrs *a = args->attrs;
  resize_shape r = shape_of(args->in[0], args->out[0], a->mode, a->align_corners);
  return resize_run(args, "resize", &r);
}

tn_status ocl_run_resize_grad(const tn_kernel_args *args) {
  const tn_resize_grad_attrs *a = args->attrs;
  resize_shape r = shape_of(args->out[0], args->in[0], a->mode, a->align_corners);
  return resize_run(args, "resize_grad", &r);
}
