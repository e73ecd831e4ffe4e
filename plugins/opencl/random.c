/*
 * Random numbers over dense tensors: which kernel, and its numbers, prepared on the host so that
 * the device compares and multiplies what every other device does.
 */
#include <math.h>

#include "rows.h"
#include "sources.h"
#include "uniform.h"

static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function) {
  const ocl_key key = {.source = &ocl_source_random,
                       .function = function,
                       .types = {(uint8_t)ocl_dtype(args->out[0])}};
  return ocl_begin(launch, args, &key);
}

/* Where the numbers begin: all random operators have these among their attributes. */
typedef struct origin {
  uint64_t seed, offset;
  const DLTensor *seed_from, *offset_from;
} origin;
#define ORIGIN_OF(attrs, type)                                                                     \
  ((origin){(attrs)->seed, (attrs)->offset,                                                        \
            tn_attr_view(TN_FIELD_OR(attrs, type, seed_from, NULL)),                               \
            tn_attr_view(TN_FIELD_OR(attrs, type, offset_from, NULL))})

static void arg_origin(ocl_launch *launch, uint64_t count, origin from) {
  ocl_arg_long(launch, (cl_long)count);
  ocl_arg_long(launch, (cl_long)from.seed);
  ocl_arg_long(launch, (cl_long)from.offset);
  ocl_arg_tensor(launch, from.seed_from);
  ocl_arg_tensor(launch, from.offset_from);
  ocl_arg_int(launch, (from.seed_from ? 1 : 0) | (from.offset_from ? 2 : 0));
}

/* A float's worth of scale for all but float64, as the operator is defined. */
static void arg_scale(ocl_launch *launch, const tn_kernel_args *args, double p) {
  const double scale = 1 / (1 - p);
  if (ocl_dtype(args->out[0]) == TN_F64)
    ocl_arg(launch, &scale, sizeof scale);
  else
    ocl_arg_float(launch, (cl_float)scale);
}

tn_status ocl_run_dropout(const tn_kernel_args *args) {
  const tn_dropout_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->in[0]);
  const cl_uint threshold = (cl_uint)ceil(attrs->p * 0x1p24);
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "dropout");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, args->out[1]);
  ocl_arg_tensor(&launch, args->in[0]);
  arg_origin(&launch, count, ORIGIN_OF(attrs, tn_dropout_attrs));
  ocl_arg(&launch, &threshold, sizeof threshold);
  arg_scale(&launch, args, attrs->p);
  return ocl_run(&launch, count / 4 + (count % 4 != 0));
}

tn_status ocl_run_dropout_grad(const tn_kernel_args *args) {
  const tn_dropout_grad_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->in[0]);
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "dropout_grad");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, args->in[1]);
  ocl_arg_long(&launch, (cl_long)count);
  arg_scale(&launch, args, attrs->p);
  return ocl_run(&launch, count);
}

tn_status ocl_run_bernoulli(const tn_kernel_args *args) {
  const tn_bernoulli_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->out[0]);
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "bernoulli");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  arg_origin(&launch, count, ORIGIN_OF(attrs, tn_bernoulli_attrs));
  ocl_arg_long(&launch, (cl_long)ceil(attrs->p * 0x1p32));
  return ocl_run(&launch, count);
}

tn_status ocl_run_randint(const tn_kernel_args *args) {
  const tn_randint_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->out[0]);
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "randint");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  arg_origin(&launch, count, ORIGIN_OF(attrs, tn_randint_attrs));
  ocl_arg_long(&launch, attrs->low);
  ocl_arg_long(&launch, (cl_long)((uint64_t)attrs->high - (uint64_t)attrs->low));
  return ocl_run(&launch, count);
}

static uniform_type type_of(const DLTensor *t) {
  switch (ocl_dtype(t)) {
  case TN_F64:
    return uniform_type_f64();
  case TN_F16:
    return uniform_type_f16();
  case TN_BF16:
    return uniform_type_bf16();
  default:
    return uniform_type_f32();
  }
}

tn_status ocl_run_uniform(const tn_kernel_args *args) {
  const tn_uniform_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->out[0]);
  const uniform_range range = uniform_range_of(attrs->low, attrs->high, type_of(args->out[0]));
  const double number[] = {range.low, range.width, range.back, range.least, range.most};
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "uniform");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  arg_origin(&launch, count, ORIGIN_OF(attrs, tn_uniform_attrs));
  for (int i = 0; i < 5; ++i)
    if (ocl_dtype(args->out[0]) == TN_F64)
      ocl_arg(&launch, &number[i], sizeof number[i]);
    else
      ocl_arg_float(&launch, (cl_float)number[i]);
  return ocl_run(&launch, count);
}

tn_status ocl_run_normal(const tn_kernel_args *args) {
  const tn_normal_attrs *attrs = args->attrs;
  const uint64_t count = ocl_count(args->out[0]);
  ocl_launch launch;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "normal");
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  arg_origin(&launch, count, ORIGIN_OF(attrs, tn_normal_attrs));
  ocl_arg_wide(&launch, args, attrs->mean);
  ocl_arg_wide(&launch, args, attrs->std);
  return ocl_run(&launch, count);
}
