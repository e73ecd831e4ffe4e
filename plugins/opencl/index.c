/* Picking by index: cl/index.cl. */
#include "rows.h"
#include "sources.h"

/* Elements of one size are moved alike. */
static tn_dtype by_bytes(const DLTensor *t) {
  static const tn_dtype types[] = {[1] = TN_U8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  return types[t->dtype.bits / 8];
}

/* `number` is the type of numbers that the kernel is given. */
static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function,
                       tn_dtype number, const DLTensor *index) {
  const tn_dtype moved = by_bytes(args->out[0]);
  const ocl_key key = {.source = &ocl_source_index,
                       .function = function,
                       .types = {(uint8_t)moved, (uint8_t)ocl_dtype(index), (uint8_t)number}};
  return ocl_begin(launch, args, &key);
}

static int axis_index(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* Entries of an axis, by an index of any shape; negative numbers count from the end or, of an
 * embedding, are outside. */
static tn_status gather(const tn_kernel_args *args, int axis, bool from_end) {
  ocl_launch launch;
  const DLTensor *x = args->in[0], *index = args->in[1], *y = args->out[0];
  if (ocl_count(y) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "gather", by_bytes(x), index);
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, index);
  ocl_arg_tensor(&launch, y);
  ocl_arg_long(&launch, (cl_long)ocl_count(y));
  ocl_arg_long(&launch, (cl_long)ocl_count(index));
  ocl_arg_long(&launch, x->shape[axis]);
  ocl_arg_long(&launch, ocl_size(x, axis + 1, x->ndim));
  ocl_arg_int(&launch, from_end);
  return ocl_run(&launch, ocl_count(y));
}

tn_status ocl_run_gather(const tn_kernel_args *args) {
  const tn_gather_attrs *attrs = args->attrs;
  return gather(args, axis_index(attrs->axis, args->in[0]->ndim), true);
}

tn_status ocl_run_index_select(const tn_kernel_args *args) {
  const tn_index_select_attrs *attrs = args->attrs;
  return gather(args, axis_index(attrs->axis, args->in[0]->ndim), true);
}

tn_status ocl_run_embedding(const tn_kernel_args *args) { return gather(args, 0, false); }

tn_status ocl_run_take_along_axis(const tn_kernel_args *args) {
  const tn_take_along_axis_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0], *index = args->in[1];
  const int axis = axis_index(attrs->axis, x->ndim);
  ocl_launch launch;
  ocl_dims of_index, of_x;
  if (ocl_count(index) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "take_along", by_bytes(x), index);
  if (status) return status;
  ocl_dims_of(&of_index, index);
  ocl_dims_of(&of_x, x);
  for (int d = 0; d < x->ndim; d++) of_index.stride[d] = of_x.stride[d];
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, index);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_long(&launch, (cl_long)ocl_count(index));
  ocl_arg_int(&launch, axis);
  ocl_arg_long(&launch, x->shape[axis]);
  ocl_arg(&launch, &of_index, sizeof of_index);
  return ocl_run(&launch, ocl_count(index));
}

tn_status ocl_run_one_hot(const tn_kernel_args *args) {
  const tn_one_hot_attrs *attrs = args->attrs;
  const DLTensor *index = args->in[0], *y = args->out[0];
  const tn_dtype type = ocl_dtype(y);
  ocl_launch launch;
  if (ocl_count(y) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "one_hot", type, index);
  if (status) return status;
  ocl_arg_tensor(&launch, index);
  ocl_arg_tensor(&launch, y);
  ocl_arg_long(&launch, (cl_long)ocl_count(y));
  ocl_arg_long(&launch, attrs->classes);
  ocl_arg_long(&launch, ocl_size(y, axis_index(attrs->axis, y->ndim) + 1, y->ndim));
  ocl_arg_number(&launch, type, attrs->on);
  ocl_arg_number(&launch, type, attrs->off);
  return ocl_run(&launch, ocl_count(y));
}
