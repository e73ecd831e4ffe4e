/*
 * A plugin whose table keeps the contract and whose parts do not. Built several times: COUNT is
 * how many devices it says it has; PROPERTIES, each of them says something absurd of itself;
 * OPERATORS, some of its operators and kernels cannot be had; LATER, it brings one that others wait
 * for; PICKY, its last device alone can be described, and opening another ends the process. NAME is
 * its own, TYPE its devices'.
 */
#include "../plugins/fixture.h"

#ifndef COUNT
#define COUNT 1
#endif
#ifndef FLAGS
#define FLAGS (TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS)
#endif

static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  (void)host, (void)context;
  *devices = COUNT;
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  tn_status status = fixture_describe(host, context, index, out);
#ifdef PROPERTIES
  if (index == 0) out->dl_device_type = 0;
  if (index == 1) out->dl_device_id = -3;
  if (index == 2) out->memory_bytes = UINT64_MAX;
  if (index == 3) memset(out->name, 'x', sizeof out->name);
  if (index == 4) memset(out->features, 'x', sizeof out->features);
  if (index == 5) memset(out->unique_id, 'x', sizeof out->unique_id);
#endif
#ifdef PICKY
  if (index == 0) return host->fail(TN_ERR_BACKEND, "the board is away");
  if (index == 1) out->dl_device_type = 0;
#endif
  return status;
}

#ifdef PICKY
static tn_status open_last(const tn_host *host, void *context, uint32_t index, void **device) {
  if (index + 1 < COUNT) abort();
  return fixture_open(host, context, index, device);
}
#define OPEN open_last
#else
#define OPEN fixture_open
#endif

static const tn_backend backend = {.struct_size = sizeof backend,
                                   .flags = FLAGS,
                                   .device_type = TYPE,
                                   .count = count,
                                   .describe = describe,
                                   .open = OPEN,
                                   .close = fixture_close,
                                   .alloc = fixture_alloc,
                                   .free = fixture_free,
                                   .copy = fixture_copy};
static const tn_backend *const backends[] = {&backend};

static tn_status forty_two(const tn_kernel_args *args) {
  for (int64_t i = 0; i < args->out[0]->shape[0]; i++) ((float *)args->out[0]->data)[i] = 42;
  return TN_OK;
}

#if defined(OPERATORS) || defined(LATER)
static tn_status infer(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                       const void *attrs) {
  (void)attrs;
  if (in[0]->ndim != 1) return host->fail(TN_ERR_INVALID_ARGUMENT, "x must have one axis");
  out[0]->ndim = 1;
  out[0]->shape[0] = in[0]->shape[0];
  return TN_OK;
}
static const tn_arg op_args[] = {{.name = "x", .kind = TN_ARG_IN, .doc = "in"},
                                 {.name = "y", .kind = TN_ARG_OUT, .doc = "out"}};
#define OPERATOR(op)                                                                               \
  {                                                                                                \
    .struct_size = sizeof(tn_operator), .since = 1, .name = op, .types = {TN_SET(TN_F32)},         \
    .shape = TN_SHAPE_CUSTOM, .num_args = 2, .args = op_args, .arg_size = sizeof(tn_arg),          \
    .attr_size = sizeof(tn_attr), .infer = infer, .doc = "Gives 42.", .maths = "y = 42"            \
  }
#endif
#ifdef OPERATORS
static const tn_operator operators[] = {OPERATOR("neg"), OPERATOR("acme.answer"),
                                        OPERATOR("plain")};
#elif defined LATER
static const tn_operator operators[] = {OPERATOR("acme.later")};
#endif

/* For the reference's devices too, before its own. */
#define KERNEL(op, type)                                                                           \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op_name = op, .device_type = type, .name = TYPE "." op,     \
    .priority = 1000, .run = forty_two                                                             \
  }
static const tn_kernel kernels[] = {
    KERNEL("add", TYPE),
#ifdef OPERATORS
    KERNEL("neg", "*host"),        KERNEL("acme.answer", "*host"),
    KERNEL("acme.later", "*host"), KERNEL("abs", "referense"),
#endif
};

static const tn_plugin plugin = {FIXTURE_PLUGIN(NAME, backends, kernels),
#if defined(OPERATORS) || defined(LATER)
                                 .operators = operators,
                                 .num_operators = sizeof operators / sizeof *operators
#endif
};

TN_PLUGIN_DEFINE(NAME) {
  (void)host;
  return &plugin;
}
