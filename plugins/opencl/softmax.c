/*
 * Softmax, its logarithm and their gradients: dense tensors seen as [outer, n, inner], a slice
 * per work-item or per work-group.
 */
#include "rows.h"
#include "sources.h"

static tn_status slices(const tn_kernel_args *args, const char *op, int64_t axis) {
  const DLTensor *a = args->in[0], *b = args->num_in > 1 ? args->in[1] : a;
  int32_t along = (int32_t)(axis < 0 ? axis + a->ndim : axis);
  int64_t n = a->shape[along], inner = ocl_size(a, along + 1, a->ndim);
  int64_t count = ocl_size(a, 0, along) * inner;
  if (n == 0 || count == 0) return TN_OK;
  const ocl_device *device = ocl_device_of(args);
  int items = n <= 64 || count >= 16384 ? 1 : (int)ocl_group(device, device->cpu ? 64 : 256);
  const ocl_key key = {.source = &ocl_source_softmax,
                       .function = "slices",
                       .op = op,
                       .types = {(uint8_t)ocl_dtype(a)},
                       .constants = {items}};
  ocl_launch launch;
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, a);
  ocl_arg_tensor(&launch, b);
  ocl_arg_long(&launch, n);
  ocl_arg_long(&launch, inner);
  ocl_arg_long(&launch, count);
  if (items == 1) return ocl_run(&launch, (uint64_t)count);
  const size_t groups = (size_t)count, local = (size_t)items;
  return ocl_run_grid(&launch, 1, &groups, &local);
}

#define SOFTMAX(name)                                                                              \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    return slices(args, #name, ((const tn_##name##_attrs *)args->attrs)->axis);                    \
  }
SOFTMAX(softmax)
SOFTMAX(log_softmax)
SOFTMAX(softmax_grad)
SOFTMAX(log_softmax_grad)
