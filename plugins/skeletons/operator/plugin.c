/*
 * An operator of its own, y = scale x + shift: the schema that the dispatcher holds calls against,
 * and a kernel for every device whose memory is the host's, which is also what others are judged
 * by. Other devices fall back to it.
 */
#include "operator.h"

#include <tenon/plugin.h>

/* -------------------------------------------------------------------- schema --- */

static const tn_arg args[] = {
    {.name = "x", .kind = TN_ARG_IN, .doc = "numbers", .low = -4, .high = 4},
    {.name = "y", .kind = TN_ARG_OUT, .doc = "shape of x"},
};

#define ATTR(field, otherwise, text)                                                               \
  {                                                                                                \
    .name = #field, .type = TN_ATTR_F64, .offset = offsetof(template_scale_shift_attrs, field),    \
    .default_value = otherwise, .doc = text                                                        \
  }
static const tn_attr attrs[] = {
    ATTR(scale, 1, "what x is multiplied by"),
    ATTR(shift, 0, "what is added"),
};

/* The gradient by x is scale dy. Rules call operators by name: what they give can be computed on
 * any device, and differentiated again. */
static tn_status gradient(tn_gradient *g) {
  const template_scale_shift_attrs *a = g->attrs;
  const DLTensor *factors[2] = {g->out_gradient[0], NULL}, *dx = NULL;
  tn_status status = g->number(g, factors[0], a->scale, &factors[1]);
  if (!status) status = g->call(g, "mul", NULL, 2, factors, 1, &dx);
  return status ? status : g->give(g, 0, dx);
}

/* Where no built-in rule says the output's shape, it is TN_SHAPE_CUSTOM with an infer function.
 * `tolerance` is what every kernel of the operator must keep to, here in units in the last place
 * of a float32. */
static const tn_operator operators[] = {{
    .struct_size = sizeof(tn_operator),
    .since = 1,
    .flags = TN_OPERATOR_ELEMENTWISE,
    .name = TEMPLATE_SCALE_SHIFT,
    .types = {TN_SET(TN_F32) | TN_SET(TN_F64)},
    .shape = TN_SHAPE_SAME,
    .num_args = 2,
    .args = args,
    .arg_size = sizeof(tn_arg),
    .num_attrs = 2,
    .attrs = attrs,
    .attr_size = sizeof(tn_attr),
    .attrs_size = sizeof(template_scale_shift_attrs),
    .tolerance = 1,
    .doc = "Scales and shifts.",
    .maths = "y = scale x + shift",
    .precision = TN_PRECISION_WIDEST,
    .gradient = gradient,
}};

/* -------------------------------------------------------------------- kernel --- */

/* Without TN_KERNEL_STRIDED tensors come row-major. In double, since it is the judge. */
static tn_status range(void *ctx, int64_t begin, int64_t end) {
  const tn_kernel_args *call = ctx;
  const template_scale_shift_attrs *a = call->attrs;
  const void *x = call->in[0]->data;
  void *y = call->out[0]->data;
  if (tn_dtype_of(call->out[0]->dtype) == TN_F32)
    for (int64_t i = begin; i < end; ++i)
      ((float *)y)[i] = (float)(a->scale * (double)((const float *)x)[i] + a->shift);
  else
    for (int64_t i = begin; i < end; ++i)
      ((double *)y)[i] = a->scale * ((const double *)x)[i] + a->shift;
  return TN_OK;
}

static tn_status scale_shift(const tn_kernel_args *call) {
  const DLTensor *y = call->out[0];
  int64_t n = 1;
  for (int32_t i = 0; i < y->ndim; ++i) n *= y->shape[i];
  return call->host->parallel_for(call->host, n, 16384, range, (void *)(uintptr_t)call);
}

static const tn_kernel kernels[] = {{
    .struct_size = sizeof(tn_kernel),
    .op_name = TEMPLATE_SCALE_SHIFT,
    .device_type = TN_DEVICE_ANY_HOST,
    .name = TEMPLATE_SCALE_SHIFT ".host",
    .flags = TN_KERNEL_DETERMINISTIC,
    .run = scale_shift,
}};

/* -------------------------------------------------------------------- plugin --- */

TN_PLUGIN_DEFINE("template") {
  static const tn_plugin plugin = {
      .struct_size = sizeof(tn_plugin),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .name = "template",
      .version = "0.1.0",
      .description = "the operator " TEMPLATE_SCALE_SHIFT,
      .operators = operators,
      .num_operators = sizeof operators / sizeof *operators,
      .kernels = kernels,
      .num_kernels = sizeof kernels / sizeof *kernels,
  };
  (void)host;
  return &plugin;
}
