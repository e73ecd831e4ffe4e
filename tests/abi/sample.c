/*
 * The sample plugin, which must work whichever plugin.h it is built with and whichever host
 * loads it: a device, kernels for it (one with attributes), two operators of its own (one with
 * a rule of its own for shapes), and a layer. It is built with the frozen header, with
 * today's, and with one from the future (grow.awk), where everything it passes is longer and
 * says things that no host knows yet.
 *
 * Three kernels are of operators whose attributes grew after 0.9.
 *
 * It obeys docs/abi.md: what a host of version 0.9 lacks is looked for with TN_HAS_FIELD, and
 * rows that somebody else made are found by the distance that their operator states.
 */
#include <string.h>

#include "tenon/plugin.h"

#ifdef TN_GROWN
/* In the future: fields that are no address, promises that nobody knows. */
#define JUNK ((void *)16)
#define LATER .later = {JUNK, JUNK, JUNK},
#define PROMISE 0x8000u
#else
#define LATER
#define PROMISE 0u
#endif

typedef struct sample {
  const tn_host *host;
  int64_t calls, tensors_made, tensors_released, unknown;
} sample;

static tn_status state_open(const tn_host *host, void **state) {
  sample *s = host->alloc(host, sizeof *s, 16);
  if (!s) return host->fail(TN_ERR_OUT_OF_MEMORY, "sample: no memory");
  *s = (sample){.host = host};
  *state = s;
  return TN_OK;
}

static void state_close(void *state) {
  const tn_host *host = ((sample *)state)->host;
  host->free(host, state);
}

/* --------------------------------------------------------------- the device --- */

static tn_status device_count(const tn_host *host, void *context, uint32_t *count) {
  (void)host;
  *count = context != NULL;
  return TN_OK;
}

static tn_status device_describe(const tn_host *host, void *context, uint32_t index,
                                 tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLCPU;
  out->memory_bytes = 1 << 30;
  strcpy(out->name, "the sample's device");
#ifdef TN_GROWN
  /* A host of before made the struct shorter. */
  if (TN_HAS_FIELD(out, tn_device_props, later)) out->later[0] = JUNK;
#endif
  return TN_OK;
}

static tn_status device_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context, (void)index;
  return state_open(host, device);
}

static tn_status device_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  const tn_host *host = ((sample *)device)->host;
  (void)kind;
  *ptr = host->alloc(host, bytes, 64);
  return *ptr ? TN_OK : host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "sample: no memory");
}

static void device_free(void *device, uint32_t kind, void *ptr) {
  const tn_host *host = ((sample *)device)->host;
  (void)kind;
  host->free(host, ptr);
}

static tn_status device_copy(void *device, void *queue, uint32_t direction, void *dst,
                             uint64_t dst_offset, const void *src, uint64_t src_offset,
                             size_t bytes) {
  (void)device, (void)queue, (void)direction;
  memmove((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static const tn_backend backend = {.struct_size = sizeof(tn_backend),
                                   .flags =
                                       TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS | PROMISE,
                                   .device_type = "sample",
                                   .count = device_count,
                                   .describe = device_describe,
                                   .open = device_open,
                                   .close = state_close,
                                   .alloc = device_alloc,
                                   .free = device_free,
                                   .copy = device_copy,
                                   LATER};
static const tn_backend *const backends[] = {&backend};

/* -------------------------------------------------------------- the kernels --- */

static int64_t elements(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

/* A host of before passes less than this header has: what lies behind traps. */
static tn_status check_args(const tn_kernel_args *args) {
#ifdef TN_GROWN
  if (TN_HAS_FIELD(args, tn_kernel_args, later)) *(void *volatile *)(uintptr_t)&args->later[2];
#endif
  return args->kernel ? TN_OK : args->host->fail(TN_ERR_INTERNAL, "sample: no kernel");
}

static tn_status add(const tn_kernel_args *args) {
  const float *a = args->in[0]->data, *b = args->in[1]->data;
  float *y = args->out[0]->data;
  int64_t n = elements(args->out[0]);
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
  return check_args(args);
}

static tn_status leaky_relu(const tn_kernel_args *args) {
  const tn_leaky_relu_attrs *attrs = args->attrs;
  const float *x = args->in[0]->data;
  float *y = args->out[0]->data;
  int64_t n = elements(args->out[0]);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? (float)(attrs->slope * (double)x[i]) : x[i];
  return check_args(args);
}

typedef struct blend_attrs {
  uint32_t struct_size;
  int32_t negate;
  double weight;
} blend_attrs;

static tn_status blend(const tn_kernel_args *args) {
  const blend_attrs *attrs = args->attrs;
  int64_t n = elements(args->out[0]);
  bool wide = args->out[0]->dtype.bits == 64;
  for (int64_t i = 0; i < n; i++) {
    const void *x = args->in[0]->data, *y = args->in[1]->data;
    double a = wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
    double b = wide ? ((const double *)y)[i] : (double)((const float *)y)[i];
    double z = attrs->weight * a + (1 - attrs->weight) * b;
    if (attrs->negate) z = -z;
    if (wide)
      ((double *)args->out[0]->data)[i] = z;
    else
      ((float *)args->out[0]->data)[i] = (float)z;
  }
  return check_args(args);
}

/* Sums of neighbours, by way of the workspace, in shares. */
static tn_status pairs_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)elements(args->out[0]) * sizeof(double);
  return TN_OK;
}

static bool pairs_supports(const tn_kernel_args *args) { return args->in[0]->ndim > 0; }

static tn_status pairs_share(void *ctx, int64_t begin, int64_t end) {
  const tn_kernel_args *args = ctx;
  double *sums = args->workspace;
  for (int64_t i = begin; i < end; i++) {
    const void *x = args->in[0]->data;
    sums[i] = args->in[0]->dtype.bits == 64
                  ? ((const double *)x)[2 * i] + ((const double *)x)[2 * i + 1]
                  : (double)((const float *)x)[2 * i] + (double)((const float *)x)[2 * i + 1];
  }
  return TN_OK;
}

static tn_status pairs(const tn_kernel_args *args) {
  int64_t n = elements(args->out[0]);
  if (args->workspace_bytes < (size_t)n * sizeof(double))
    return args->host->fail(TN_ERR_INTERNAL, "sample: too little workspace");
  tn_status status =
      args->host->parallel_for(args->host, n, 64, pairs_share, (void *)(uintptr_t)args);
  const double *sums = args->workspace;
  for (int64_t i = 0; i < n && !status; i++)
    if (args->out[0]->dtype.bits == 64)
      ((double *)args->out[0]->data)[i] = sums[i];
    else
      ((float *)args->out[0]->data)[i] = (float)sums[i];
  return status ? status : check_args(args);
}

/* Of operators to which attribute dtype was appended. The sum is compiled as if it knew nothing
 * of it, whatever the header; the product says that it heeds it, where the header lets it. */
static tn_status sum(const tn_kernel_args *args) {
  const float *x = args->in[0]->data;
  float y = 0;
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) y += x[i];
  *(float *)args->out[0]->data = y;
  return check_args(args);
}

static bool sum_supports(const tn_kernel_args *args) { return args->out[0]->ndim == 0; }

static tn_status prod(const tn_kernel_args *args) {
  const float *x = args->in[0]->data;
  double y = 1;
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) y *= (double)x[i];
#ifdef TN_FIELD_OR
  const tn_prod_attrs *attrs = args->attrs;
  if (TN_FIELD_OR(attrs, tn_prod_attrs, dtype, TN_DTYPE_NONE) == TN_F64) {
    *(double *)args->out[0]->data = y;
    return check_args(args);
  }
#endif
  *(float *)args->out[0]->data = (float)y;
  return check_args(args);
}
#ifdef TN_FIELD_OR
#define HEEDS_ALL .attrs_size = sizeof(tn_prod_attrs),
#else
#define HEEDS_ALL
#endif

/* Of one channel and windows of one element; of an activation it knows nothing. */
static tn_status conv1d(const tn_kernel_args *args) {
  const float *x = args->in[0]->data, *w = args->in[1]->data;
  float *y = args->out[0]->data;
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) y[i] = x[i] * w[0];
  return check_args(args);
}

static const tn_kernel kernels[] = {
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_ADD,
     .device_type = "sample",
     .name = "sample.add.f32",
     .priority = 500,
     .flags = TN_KERNEL_DETERMINISTIC | PROMISE,
     .types = {TN_SET(TN_F32)},
     .run = add,
     .note = "the sample's own",
     LATER},
#ifdef TN_GROWN
    {.struct_size = sizeof(tn_kernel),
     .op = 511, /* which no host knows yet */
     .device_type = "sample",
     .name = "sample.later",
     .run = add,
     LATER},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_ADD,
     .device_type = "sample",
     .name = "sample.add.later",
     .priority = 900,
     .types = {TN_SET(TN_DTYPE_SLOTS - 1)}, /* nor this element type */
     .run = add,
     LATER},
#endif
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_LEAKY_RELU,
     .device_type = "sample",
     .name = "sample.leaky_relu.f32",
     .priority = 500,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = leaky_relu,
     LATER},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_SUM,
     .device_type = "sample",
     .name = "sample.sum.f32",
     .priority = 500,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = sum,
     .supports = sum_supports,
     LATER},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_PROD,
     .device_type = "sample",
     .name = "sample.prod.f32",
     .priority = 500,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = prod,
     HEEDS_ALL LATER},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_CONV1D,
     .device_type = "sample",
     .name = "sample.conv1d.f32",
     .priority = 500,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = conv1d,
     LATER},
    {.struct_size = sizeof(tn_kernel),
     .op_name = "sample_blend",
     .device_type = TN_DEVICE_ANY_HOST,
     .name = "sample.blend",
     .flags = TN_KERNEL_DETERMINISTIC,
     .run = blend,
     LATER},
    {.struct_size = sizeof(tn_kernel),
     .op_name = "sample_pairs",
     .device_type = TN_DEVICE_ANY_HOST,
     .name = "sample.pairs",
     .flags = TN_KERNEL_DETERMINISTIC,
     .run = pairs,
     .workspace = pairs_workspace,
     .supports = pairs_supports,
     LATER},
};

/* ------------------------------------------------------------ the operators --- */

static const tn_arg blend_args[] = {
    {.name = "x", .kind = TN_ARG_IN, .doc = "one", .low = -4, .high = 4, LATER},
    {.name = "y", .kind = TN_ARG_IN, .doc = "the other", .low = -4, .high = 4, LATER},
    {.name = "z", .kind = TN_ARG_OUT, .doc = "what lies between", LATER},
};
static const tn_attr blend_attributes[] = {
    {.name = "negate",
     .type = TN_ATTR_FLAG,
     .offset = offsetof(blend_attrs, negate),
     .doc = "1 to turn the sign",
     LATER},
    {.name = "weight",
     .type = TN_ATTR_F64,
     .offset = offsetof(blend_attrs, weight),
     .default_value = 0.5,
     .doc = "of x",
     .low = 0,
     .high = 1,
     .low_bound = TN_BOUND_CLOSED,
     .high_bound = TN_BOUND_CLOSED,
     LATER},
};
static const tn_arg pairs_args[] = {
    {.name = "x", .kind = TN_ARG_IN, .doc = "the numbers", LATER},
    {.name = "y", .kind = TN_ARG_OUT, .doc = "sums of two", LATER},
};

static tn_status pairs_infer(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                             const void *attrs) {
  (void)attrs;
  int32_t last = in[0]->ndim - 1;
  if (last < 0 || in[0]->shape[last] % 2)
    return host->fail(TN_ERR_INVALID_ARGUMENT, "x must have an even number of columns");
  out[0]->ndim = in[0]->ndim;
  for (int32_t i = 0; i <= last; i++) out[0]->shape[i] = in[0]->shape[i];
  out[0]->shape[last] /= 2;
  return TN_OK;
}

static const tn_operator operators[] = {
    {.struct_size = sizeof(tn_operator),
     .since = 1,
     .flags = TN_OPERATOR_ELEMENTWISE | PROMISE,
     .name = "sample_blend",
     .types = {TN_SET(TN_F32) | TN_SET(TN_F64)},
     .shape = TN_SHAPE_BROADCAST,
     .num_args = 3,
     .args = blend_args,
     .num_attrs = 2,
     .attrs_size = sizeof(blend_attrs),
     .attrs = blend_attributes,
     .tolerance = 4,
     .doc = "Something between x and y.",
     .maths = "z = w x + (1 - w) y",
     .arg_size = sizeof(tn_arg),
     .attr_size = sizeof(tn_attr),
     LATER},
    {.struct_size = sizeof(tn_operator),
     .since = 1,
     .name = "sample_pairs",
     .types = {TN_SET(TN_F32) | TN_SET(TN_F64)},
     .shape = TN_SHAPE_CUSTOM,
     .num_args = 2,
     .args = pairs_args,
     .tolerance = 1,
     .doc = "Adds neighbours.",
     .maths = "y_i = x_2i + x_(2i+1)",
     .infer = pairs_infer,
     .arg_size = sizeof(tn_arg),
     .attr_size = sizeof(tn_attr),
     LATER},
};

/* ---------------------------------------------------------------- the layer --- */

/* As tn_operator_arg of later headers. */
static const char *arg_name(const tn_operator *op, uint32_t index) {
  size_t distance = op->arg_size ? op->arg_size : sizeof(tn_arg);
  const char *rows = (const char *)op->args;
  return ((const tn_arg *)(const void *)(rows + index * distance))->name;
}

static tn_status layer_call(void *layer, const tn_layer_call *call,
                            tn_status (*next)(const tn_layer_call *call, void *next_ctx),
                            void *next_ctx) {
  sample *s = layer;
  s->calls++;
  s->host->log(s->host, TN_LOG_INFO, "sample: %s of %s by %s of %s at %s", call->op->name,
               arg_name(call->op, call->op->num_args - 1), call->args->kernel->name, call->plugin,
               call->site ? call->site : "?");
  return next(call, next_ctx);
}

static void layer_notify(void *layer, const tn_layer_event *event) {
  sample *s = layer;
  switch (event->kind) {
  case TN_LAYER_TENSOR_MADE:
    s->tensors_made++;
    break;
  case TN_LAYER_TENSOR_RELEASED:
    s->tensors_released++;
    break;
  default:
    s->unknown += event->kind > TN_LAYER_RUNTIME_CLOSING;
  }
}

static void layer_close(void *layer) {
  const sample *s = layer;
  s->host->log(s->host, TN_LOG_INFO, "sample: %d calls, %d tensors, %d released, %d unknown",
               (int)s->calls, (int)s->tensors_made, (int)s->tensors_released, (int)s->unknown);
  state_close(layer);
}

static const tn_layer layers[] = {{.struct_size = sizeof(tn_layer),
                                   .flags = PROMISE,
                                   .name = "sample",
                                   .open = state_open,
                                   .close = layer_close,
                                   .call = layer_call,
                                   .notify = layer_notify,
                                   .description = "says what it sees",
                                   LATER}};

/* --------------------------------------------------------------- the plugin --- */

static const tn_plugin plugin = {.struct_size = sizeof(tn_plugin),
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .flags = PROMISE,
                                 .name = "sample",
                                 .version = "1.0",
                                 .description = "built with headers of any age",
                                 .backends = backends,
                                 .num_backends = 1,
                                 .num_operators = sizeof operators / sizeof *operators,
                                 .operators = operators,
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels,
                                 .num_layers = 1,
                                 .layers = layers,
                                 .open = state_open,
                                 .close = state_close,
                                 LATER};

TN_PLUGIN_DEFINE("sample") {
#ifdef TN_GROWN
  if (TN_HAS_FIELD(host, tn_host, later) && host->later[0])
    return host->fail(TN_ERR_INTERNAL, "the host filled what it does not know"), NULL;
#endif
  return host->abi_max >= TN_ABI_VERSION_MIN ? &plugin : NULL;
}
