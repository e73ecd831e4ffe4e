/*
 * Elementwise operators: one program per operator and element types, in two forms, for dense
 * tensors and for any others. The sources are plain.cl (computed in the element's own computing
 * type), wide.cl (in double) and cast.cl.
 */
#include <math.h>

#include "rows.h"
#include "sources.h"

/* What map_run is to run: apply_<op> of a source over `inputs` tensors and `numbers` numbers. */
typedef struct map_call {
  const ocl_source *source;
  const char *op;
  int inputs, numbers;
  double number[2];
} map_call;

static ocl_key map_key(const tn_kernel_args *args, const map_call *call, const ocl_walk *walk) {
  ocl_key key = {.source = call->source,
                 .function = "walk",
                 .op = call->op,
                 .types = {(uint8_t)ocl_dtype(args->out[0])},
                 .constants = {call->inputs, walk->flat, call->numbers, walk->count > INT32_MAX}};
  for (int i = 0; i < call->inputs; i++) key.types[1 + i] = (uint8_t)ocl_dtype(args->in[i]);
  return key;
}

/* Numbers of plain.cl are elements, of the first input's type or the output's; those of wide.cl
 * are double. */
static void set_numbers(ocl_launch *launch, const tn_kernel_args *args, const map_call *call) {
  tn_dtype type = ocl_dtype(call->inputs ? args->in[0] : args->out[0]);
  if (call->source == &ocl_source_wide) type = TN_F64;
  for (int i = 0; i < call->numbers; i++) ocl_arg_number(launch, type, call->number[i]);
}

/* `key` is what differs where types stand for others. */
static tn_status map_launch(const tn_kernel_args *args, const map_call *call, const ocl_walk *walk,
                            const ocl_key *key) {
  ocl_launch launch;
  tn_status status = ocl_begin(&launch, args, key);
  if (status) return status;
  ocl_arg_tensor(&launch, args->out[0]);
  for (int i = 0; i < call->inputs; i++) ocl_arg_tensor(&launch, args->in[i]);
  set_numbers(&launch, args, call);
  if (walk->flat)
    ocl_arg_long(&launch, walk->count);
  else
    ocl_arg(&launch, walk, sizeof *walk);
  return ocl_run(&launch, (uint64_t)walk->count);
}

static void map_walk(const tn_kernel_args *args, const map_call *call, ocl_walk *walk) {
  const DLTensor *operands[ocl_max_operands] = {args->out[0]};
  for (int i = 0; i < call->inputs; i++) operands[1 + i] = args->in[i];
  ocl_walk_of(walk, 1 + call->inputs, operands);
}

static tn_status map_run(const tn_kernel_args *args, const map_call *call) {
  ocl_walk walk;
  map_walk(args, call, &walk);
  if (walk.count == 0) return TN_OK;
  const ocl_key key = map_key(args, call, &walk);
  return map_launch(args, call, &walk, &key);
}

/* Moves elements as they are, so types of one size share a program. */
static tn_status map_move(const tn_kernel_args *args, const map_call *call, int first_moved) {
  static const uint8_t by_bytes[] = {[1] = TN_U8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  const uint8_t type = by_bytes[args->out[0]->dtype.bits / 8];
  ocl_walk walk;
  map_walk(args, call, &walk);
  if (walk.count == 0) return TN_OK;
  ocl_key key = map_key(args, call, &walk);
  key.types[0] = type;
  for (int i = first_moved; i <= call->inputs; i++) key.types[i] = type;
  return map_launch(args, call, &walk, &key);
}

/* --------------------------------------------------------------- operators --- */

static bool is_float(const tn_kernel_args *args) {
  return TN_SET(ocl_dtype(args->out[0])) & TN_SET_FLOAT;
}

/* For tn_kernel.supports: the operator is computed in double where its elements are floats. */
bool ocl_floats_have_double(const tn_kernel_args *args) {
  return ocl_has_double(args) || !is_float(args);
}

#define MAP(name, from, num_inputs)                                                                \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    return map_run(args, &(map_call){&ocl_source_##from, #name, num_inputs, 0, {0}});              \
  }
#define MAP_NUMBER(name, num_inputs, field)                                                        \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return map_run(args, &(map_call){&ocl_source_wide, #name, num_inputs, 1, {attrs->field}});     \
  }
#define MAP_NUMBERS(name, num_inputs, first, second)                                               \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return map_run(                                                                                \
        args, &(map_call){&ocl_source_wide, #name, num_inputs, 2, {attrs->first, attrs->second}}); \
  }

#define PLAIN_1(name) MAP(name, plain, 1)
#define PLAIN_2(name) MAP(name, plain, 2)
#define WIDE_1(name) MAP(name, wide, 1)
#define WIDE_2(name) MAP(name, wide, 2)
#define WIDE_3(name) MAP(name, wide, 3)

/* Of integers plain, of floats in double. */
#define EITHER(name, num_inputs)                                                                   \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    return map_run(                                                                                \
        args,                                                                                      \
        &(map_call){                                                                               \
            is_float(args) ? &ocl_source_wide : &ocl_source_plain, #name, num_inputs, 0, {0}});    \
  }

/* Integers are whole already. */
#define WHOLE(name)                                                                                \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    if (!is_float(args)) return ocl_run_copy(args);                                                \
    return map_run(args, &(map_call){&ocl_source_plain, #name, 1, 0, {0}});                        \
  }

#include "map_list.def"

tn_status ocl_run_copy(const tn_kernel_args *args) {
  return map_move(args, &(map_call){&ocl_source_plain, "copy", 1, 0, {0}}, 1);
}

tn_status ocl_run_where(const tn_kernel_args *args) {
  return map_move(args, &(map_call){&ocl_source_plain, "where", 3, 0, {0}}, 2);
}

tn_status ocl_run_cast(const tn_kernel_args *args) {
  return map_run(args, &(map_call){&ocl_source_cast, "cast", 1, 0, {0}});
}

tn_status ocl_run_fill(const tn_kernel_args *args) {
  const tn_fill_attrs *attrs = args->attrs;
  return map_run(args, &(map_call){&ocl_source_plain, "fill", 0, 1, {attrs->value}});
}

/* NaN is no bound; among integers the extremes say so. */
tn_status ocl_run_clamp(const tn_kernel_args *args) {
  const tn_clamp_attrs *attrs = args->attrs;
  map_call call = {&ocl_source_plain, "clamp", 1, 2, {attrs->min, attrs->max}};
  if (isnan(attrs->min)) call.number[0] = -(double)INFINITY;
  if (isnan(attrs->max)) call.number[1] = (double)INFINITY;
  return map_run(args, &call);
}

tn_status ocl_run_gelu(const tn_kernel_args *args) {
  const char *op = ((const tn_gelu_attrs *)args->attrs)->tanh ? "gelu_tanh" : "gelu";
  return map_run(args, &(map_call){&ocl_source_wide, op, 1, 0, {0}});
}

tn_status ocl_run_gelu_grad(const tn_kernel_args *args) {
  const char *op = ((const tn_gelu_grad_attrs *)args->attrs)->tanh ? "gelu_tanh_grad" : "gelu_grad";
  return map_run(args, &(map_call){&ocl_source_wide, op, 2, 0, {0}});
}
