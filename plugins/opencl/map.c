/*
 * Elementwise operators: one program per operator and element types, whose functions walk dense
 * tensors and any others.
 */
#include "internal.h"
#include "rows.h"
#include "sources.h"

/* Runs map_<inputs> of the program over the call's first output and its inputs. `number`, if
 * given, is passed behind the tensors. */
static tn_status map_run(const tn_kernel_args *args, const char *op, tn_dtype in, tn_dtype out) {
  const DLTensor *operands[] = {args->out[0], args->in[0]};
  ocl_walk walk;
  ocl_walk_of(&walk, 2, operands);
  if (walk.count == 0) return TN_OK;
  const ocl_key key = {.source = &ocl_source_map,
                       .function = walk.flat ? "flat_1" : "strided_1",
                       .op = op,
                       .types = {(uint8_t)out, (uint8_t)in}};
  ocl_launch launch;
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, operands[0]);
  ocl_arg_tensor(&launch, operands[1]);
  ocl_arg(&launch, &walk, sizeof walk);
  return ocl_run(&launch, (uint64_t)walk.count);
}

/* Bytes are moved as they are, so types of one size share a program. */
tn_status ocl_run_copy(const tn_kernel_args *args) {
  static const tn_dtype by_bytes[] = {[1] = TN_U8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  tn_dtype type = by_bytes[args->in[0]->dtype.bits / 8];
  return map_run(args, "copy", type, type);
}
