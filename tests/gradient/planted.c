/*
 * An operator of a plugin's, y = a^2 b where b is a row that is used for all of a's, with a right
 * gradient rule and with wrong ones: test_differences must find each that is wrong.
 */
#include "tenon/plugin.h"

static int64_t elements(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; ++i) n *= t->shape[i];
  return n;
}

static tn_status infer(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                       const void *attrs) {
  const DLTensor *a = in[0], *b = in[1];
  (void)attrs;
  if (a->ndim == 0 || b->ndim != 1 || b->shape[0] != a->shape[a->ndim - 1])
    return host->fail(TN_ERR_INVALID_ARGUMENT, "b must be as long as a's last axis");
  out[0]->ndim = a->ndim;
  for (int32_t i = 0; i < a->ndim; ++i) out[0]->shape[i] = a->shape[i];
  return TN_OK;
}

static tn_status run(const tn_kernel_args *args) {
  const double *a = args->in[0]->data, *b = args->in[1]->data;
  const int64_t n = elements(args->out[0]), row = args->in[1]->shape[0];
  double *y = args->out[0]->data;
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * a[i] * b[i % row];
  return TN_OK;
}

/* --- rules: factor a b dy, and b's --- */

static tn_status mul(tn_gradient *g, const DLTensor *a, const DLTensor *b, const DLTensor **out) {
  return g->call(g, "mul", NULL, 2, (const DLTensor *const[]){a, b}, 1, out);
}

static tn_status by_a(tn_gradient *g, double factor) {
  const DLTensor *dy = g->out_gradient[0], *number = NULL, *scaled = NULL, *ab = NULL, *da = NULL;
  tn_status status = g->number(g, dy, factor, &number);
  if (!status) status = mul(g, dy, number, &scaled);
  if (!status) status = mul(g, g->in[0], g->in[1], &ab);
  if (!status) status = mul(g, scaled, ab, &da);
  return status ? status : g->give(g, 0, da);
}

/* A shape of a's: what it is summed over, the host knows. A mean leaves nothing to sum. */
static tn_status by_b(tn_gradient *g, const char *reduce) {
  const struct {
    uint32_t struct_size;
    tn_axes axes;
    int32_t keepdims;
  } first = {.struct_size = sizeof first, .axes = {.count = 1}};
  const DLTensor *square = NULL, *db = NULL, *reduced = NULL;
  tn_status status = mul(g, g->in[0], g->in[0], &square);
  if (!status) status = mul(g, square, g->out_gradient[0], &db);
  if (!status && reduce && db->ndim == 2) {
    status = g->call(g, reduce, &first, 1, &db, 1, &reduced);
    db = reduced;
  }
  return status ? status : g->give(g, 1, db);
}

static tn_status rule(tn_gradient *g, double factor, const char *reduce) {
  tn_status status = g->wanted[0] ? by_a(g, factor) : TN_OK;
  return status || !g->wanted[1] ? status : by_b(g, reduce);
}

static tn_status right(tn_gradient *g) { return rule(g, 2, NULL); }
static tn_status wrong_sign(tn_gradient *g) { return rule(g, -2, NULL); }
static tn_status no_factor(tn_gradient *g) { return rule(g, 1, NULL); }
static tn_status no_sum(tn_gradient *g) { return rule(g, 2, "mean"); }
static tn_status one_input(tn_gradient *g) { return g->wanted[0] ? by_a(g, 2) : TN_OK; }

/* A tensor of the rule's own, which is none of the host's. */
static tn_status foreign(tn_gradient *g) {
  static double numbers[64];
  DLTensor own = *g->in[0];
  own.data = numbers;
  return g->give(g, 0, &own);
}

/* --- the tables --- */

static const tn_arg args[] = {
    {.name = "a", .kind = TN_ARG_IN, .doc = "numbers"},
    {.name = "b", .kind = TN_ARG_IN, .doc = "a row, as long as a's last axis"},
    {.name = "y", .kind = TN_ARG_OUT, .doc = "a^2 b, shape of a"},
};

#define OPERATOR(title, rule)                                                                      \
  {                                                                                                \
    .struct_size = sizeof(tn_operator), .since = 1, .name = "planted." title,                      \
    .types = {TN_SET(TN_F64)}, .shape = TN_SHAPE_CUSTOM, .num_args = 3, .args = args,              \
    .arg_size = sizeof(tn_arg), .tolerance = 2, .doc = "Of the tests.", .maths = "y = a^2 b",      \
    .infer = infer, .gradient = rule                                                               \
  }
static const tn_operator operators[] = {
    OPERATOR("right", right), OPERATOR("sign", wrong_sign), OPERATOR("factor", no_factor),
    OPERATOR("mean", no_sum), OPERATOR("one", one_input),   OPERATOR("foreign", foreign),
};

#define KERNEL(title)                                                                              \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op_name = "planted." title,                                 \
    .device_type = TN_DEVICE_ANY_HOST, .name = "planted." title, .flags = TN_KERNEL_DETERMINISTIC, \
    .run = run                                                                                     \
  }
static const tn_kernel kernels[] = {
    KERNEL("right"), KERNEL("sign"), KERNEL("factor"),
    KERNEL("mean"),  KERNEL("one"),  KERNEL("foreign"),
};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "planted",
                                 .version = "1.0",
                                 .description = "gradient rules, right and wrong",
                                 .operators = operators,
                                 .num_operators = sizeof operators / sizeof *operators,
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels};

TN_PLUGIN_DEFINE("planted") {
  (void)host;
  return &plugin;
}
