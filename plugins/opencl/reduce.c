/*
 * Reductions: the axes that stay and those that go, as two walks, and how many work-items share
 * an output.
 */
#include <string.h>

#include "rows.h"
#include "sources.h"

/* A tensor of some axes of others, for ocl_walk_of. */
typedef struct axes_view {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK], stride[TN_MAX_RANK];
} axes_view;

static void add_axis(axes_view *view, int64_t size, int64_t stride) {
  view->shape[view->tensor.ndim] = size;
  view->stride[view->tensor.ndim++] = stride;
}

/* Bit d of `mask` is set where axis d is reduced. */
static void split_axes(const tn_kernel_args *args, uint32_t mask, bool keepdims, ocl_walk *kept,
                       ocl_walk *reduced) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  axes_view kept_x = {.tensor = {.ndim = 0}}, kept_y = kept_x, gone = kept_x;
  for (int d = 0; d < x->ndim; d++) {
    if (mask >> d & 1) {
      add_axis(&gone, x->shape[d], x->strides[d]);
      continue;
    }
    int of_y = keepdims ? d : kept_y.tensor.ndim;
    add_axis(&kept_x, x->shape[d], x->strides[d]);
    add_axis(&kept_y, x->shape[d], y->strides[of_y]);
  }
  axes_view *views[] = {&kept_x, &kept_y, &gone};
  for (int i = 0; i < 3; i++) {
    views[i]->tensor.shape = views[i]->shape;
    views[i]->tensor.strides = views[i]->stride;
  }
  const DLTensor *both[] = {&kept_y.tensor, &kept_x.tensor}, *one[] = {&gone.tensor};
  ocl_walk_of(kept, 2, both);
  ocl_walk_of(reduced, 1, one);
}

static uint32_t axes_mask(const tn_axes *axes, int ndim) {
  uint32_t mask = 0;
  if (axes->count == 0) return (1u << ndim) - 1;
  for (int i = 0; i < axes->count; i++)
    mask |= 1u << (axes->axis[i] < 0 ? axes->axis[i] + ndim : axes->axis[i]);
  return mask;
}

/* A group where there are few outputs of many elements. */
static int items_for(const ocl_device *device, const ocl_walk *kept, const ocl_walk *reduced) {
  if (reduced->count <= 16 || kept->count >= 16384) return 1;
  return (int)ocl_group(device, device->cpu ? 64 : 256);
}

static tn_status reduce(const tn_kernel_args *args, const char *op, uint32_t mask, bool keepdims,
                        double number) {
  ocl_walk kept, reduced;
  split_axes(args, mask, keepdims, &kept, &reduced);
  if (kept.count == 0) return TN_OK;
  int items = items_for(ocl_device_of(args), &kept, &reduced);
  const ocl_key key = {.source = &ocl_source_reduce,
                       .function = "reduce",
                       .op = op,
                       .types = {(uint8_t)ocl_dtype(args->out[0]), (uint8_t)ocl_dtype(args->in[0])},
                       .constants = {items, reduced.count > INT32_MAX}};
  ocl_launch launch;
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg(&launch, &kept, sizeof kept);
  ocl_arg(&launch, &reduced, sizeof reduced);
  ocl_arg_wide(&launch, args, number);
  if (items == 1) return ocl_run(&launch, (uint64_t)kept.count);
  const size_t groups = (size_t)kept.count, local = (size_t)items;
  return ocl_run_grid(&launch, 1, &groups, &local);
}

#define REDUCE(name, number, when)                                                                 \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return reduce(args, #name, axes_mask(&attrs->axes, args->in[0]->ndim), attrs->keepdims,        \
                  number);                                                                         \
  }
#define HEEDING_REDUCE REDUCE
#define ARG_REDUCE(name)                                                                           \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    const tn_axes axes = {1, {(int32_t)attrs->axis}};                                              \
    return reduce(args, #name, axes_mask(&axes, args->in[0]->ndim), attrs->keepdims, 0);           \
  }

#include "reduce_list.def"
