/* Pooling over one to three axes, adaptive or not, and its gradients: cl/pool.cl. */
#include <assert.h>

#include "rows.h"
#include "sources.h"
#include "window.h"

/* pool_t of cl/pool.cl. */
typedef struct pool_shape {
  cl_long planes, size[3], out[3], kernel[3], stride[3], padding[3];
  cl_int adaptive, count_padding;
} pool_shape;

static_assert(sizeof(pool_shape) == 17 * 8, "no padding");

enum pool_kind { WINDOWS = 0, AVERAGE = 1, ADAPTIVE = 2 };

static pool_shape shape_of(const tn_kernel_args *args, const DLTensor *image,
                           const DLTensor *pooled, unsigned kind) {
  const int axes = window_axes(image);
  const int64_t *numbers = window_numbers(args->attrs);
  pool_shape p = {.planes = image->shape[0] * image->shape[1], .adaptive = (kind & ADAPTIVE) != 0};
  window_size(p.size, image);
  window_size(p.out, pooled);
  if (p.adaptive) return p;
  window_spread(p.kernel, numbers, axes, 1);
  window_spread(p.stride, numbers + axes, axes, 1);
  window_spread(p.padding, numbers + 2 * axes, axes, 0);
  for (int d = 0; d < 3; d++)
    if (p.stride[d] == 0) p.stride[d] = p.kernel[d];
  if (kind & AVERAGE) p.count_padding = *(const int32_t *)(const void *)(numbers + 3 * axes);
  return p;
}

/* Elements of a work-item. A processor finds its place once for many of them. */
static int run_length(const ocl_device *device) { return device->cpu ? 32 : 1; }

static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function,
                       const DLTensor *typed) {
  const ocl_key key = {.source = &ocl_source_pool,
                       .function = function,
                       .types = {(uint8_t)ocl_dtype(typed)},
                       .constants = {run_length(ocl_device_of(args))}};
  return ocl_begin(launch, args, &key);
}

/* Work-items for rows of `size`, the result's. pre: it is not empty. */
static tn_status pool_run(ocl_launch *launch, const pool_shape *p, const cl_long size[3]) {
  const int64_t length = run_length(launch->queue->device);
  const int64_t wide = (size[2] + length - 1) / length;
  ocl_arg(launch, p, sizeof *p);
  return ocl_run(launch, (uint64_t)(p->planes * size[0] * size[1] * wide));
}

static tn_status max_pool(const tn_kernel_args *args, unsigned kind) {
  ocl_launch launch;
  const DLTensor *x = args->in[0], *y = args->out[0], *index = args->out[1];
  const pool_shape p = shape_of(args, x, y, kind);
  if (ocl_count(y) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "max_pool", x);
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, y);
  ocl_arg_tensor(&launch, index);
  ocl_arg_int(&launch, index != NULL);
  return pool_run(&launch, &p, p.out);
}

static tn_status max_pool_grad(const tn_kernel_args *args, unsigned kind) {
  ocl_launch launch;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  const pool_shape p = shape_of(args, dx, dy, kind);
  if (ocl_count(dx) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "max_pool_grad", dx);
  if (status) return status;
  ocl_arg_tensor(&launch, dy);
  ocl_arg_tensor(&launch, args->in[1]);
  ocl_arg_tensor(&launch, dx);
  return pool_run(&launch, &p, p.size);
}

static tn_status avg_pool(const tn_kernel_args *args, unsigned kind) {
  ocl_launch launch;
  const DLTensor *x = args->in[0], *y = args->out[0];
  const pool_shape p = shape_of(args, x, y, kind | AVERAGE);
  if (ocl_count(y) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "avg_pool", x);
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, y);
  return pool_run(&launch, &p, p.out);
}

static tn_status avg_pool_grad(const tn_kernel_args *args, unsigned kind) {
  ocl_launch launch;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  const pool_shape p = shape_of(args, dx, dy, kind | AVERAGE);
  if (ocl_count(dx) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "avg_pool_grad", dx);
  if (status) return status;
  ocl_arg_tensor(&launch, dy);
  ocl_arg_tensor(&launch, dx);
  return pool_run(&launch, &p, p.size);
}

#define POOL(name)                                                                                 \
  tn_status ocl_run_##name(const tn_kernel_args *args) { return name(args, WINDOWS); }             \
  tn_status ocl_run_adaptive_##name(const tn_kernel_args *args) { return name(args, ADAPTIVE); }
POOL(max_pool)
POOL(max_pool_grad)
POOL(avg_pool)
POOL(avg_pool_grad)
