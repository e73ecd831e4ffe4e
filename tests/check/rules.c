/*
 * Operators of a plugin with shape rules of their own, for tenon check: a scalar from anything,
 * a product of matrices, an optional row, a tensor updated in place; and two rules that are
 * wrong, one that takes nothing and one that gives a size below 0. In float32 and float64, sums
 * in double.
 */
#include "tenon/plugin.h"

#define TYPES                                                                                      \
  { TN_SET(TN_F32) | TN_SET(TN_F64) }

static int64_t elements(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

static double get(const DLTensor *t, int64_t i) {
  return t->dtype.bits == 64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void set(DLTensor *t, int64_t i, double value) {
  if (t->dtype.bits == 64)
    ((double *)t->data)[i] = value;
  else
    ((float *)t->data)[i] = (float)value;
}

static tn_status same_as(const DLTensor *x, DLTensor *y) {
  y->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++) y->shape[i] = x->shape[i];
  return TN_OK;
}

/* --- total: whatever x is, a scalar --- */

static tn_status infer_total(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                             const void *attrs) {
  (void)host, (void)in, (void)attrs;
  out[0]->ndim = 0;
  return TN_OK;
}

static tn_status total(const tn_kernel_args *args) {
  double sum = 0;
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) sum += get(args->in[0], i);
  set(args->out[0], 0, sum);
  return TN_OK;
}

/* --- product: of matrices --- */

static tn_status infer_product(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                               const void *attrs) {
  (void)attrs;
  if (in[0]->ndim != 2 || in[1]->ndim != 2 || in[0]->shape[1] != in[1]->shape[0])
    return host->fail(TN_ERR_INVALID_ARGUMENT, "a and b must be matrices that can be multiplied");
  out[0]->ndim = 2;
  out[0]->shape[0] = in[0]->shape[0];
  out[0]->shape[1] = in[1]->shape[1];
  return TN_OK;
}

static tn_status product(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1];
  int64_t rows = a->shape[0], inner = a->shape[1], columns = b->shape[1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      double sum = 0;
      for (int64_t k = 0; k < inner; k++) sum += get(a, i * inner + k) * get(b, k * columns + j);
      set(args->out[0], i * columns + j, sum);
    }
  return TN_OK;
}

/* --- bias: with a row or without --- */

typedef struct bias_attrs {
  uint32_t struct_size;
  int32_t negate;
  double scale;
} bias_attrs;

static tn_status infer_bias(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                            const void *attrs) {
  const DLTensor *x = in[0], *row = in[1];
  (void)attrs;
  if (row && (x->ndim == 0 || row->ndim != 1 || row->shape[0] != x->shape[x->ndim - 1]))
    return host->fail(TN_ERR_INVALID_ARGUMENT, "row must be as long as x's last axis");
  return same_as(x, out[0]);
}

static tn_status bias(const tn_kernel_args *args) {
  const bias_attrs *attrs = args->attrs;
  const DLTensor *row = args->in[1];
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) {
    double y = get(args->in[0], i);
    if (row) y += attrs->scale * get(row, i % row->shape[0]);
    set(args->out[0], i, attrs->negate ? -y : y);
  }
  return TN_OK;
}

/* --- advance: the state follows x in `in` --- */

static tn_status infer_advance(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                               const void *attrs) {
  (void)attrs;
  if (!in[1] || in[2])
    return host->fail(TN_ERR_INTERNAL, "the rule is not given x, state and the end");
  bool same = in[0]->ndim == in[1]->ndim;
  for (int32_t i = 0; same && i < in[0]->ndim; i++) same = in[0]->shape[i] == in[1]->shape[i];
  if (!same) return host->fail(TN_ERR_INVALID_ARGUMENT, "state must have x's shape");
  return same_as(in[0], out[0]);
}

static tn_status advance(const tn_kernel_args *args) {
  for (int64_t i = 0, n = elements(args->in[0]); i < n; i++) {
    double before = get(args->out[0], i);
    set(args->out[0], i, before + get(args->in[0], i));
    set(args->out[1], i, before);
  }
  return TN_OK;
}

/* --- rules that are wrong --- */

static tn_status infer_never(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                             const void *attrs) {
  (void)in, (void)out, (void)attrs;
  return host->fail(TN_ERR_INVALID_ARGUMENT, "nothing is right for it");
}

static tn_status infer_negative(const tn_host *host, const DLTensor *const *in,
                                DLTensor *const *out, const void *attrs) {
  (void)host, (void)attrs;
  same_as(in[0], out[0]);
  if (out[0]->ndim) out[0]->shape[0] -= 5;
  return TN_OK;
}

static tn_status nothing(const tn_kernel_args *args) {
  for (int64_t i = 0, n = elements(args->out[0]); i < n; i++) set(args->out[0], i, 0);
  return TN_OK;
}

/* --- the tables --- */

#define IN(name_)                                                                                  \
  { .name = name_, .kind = TN_ARG_IN, .doc = "numbers", .low = -4, .high = 4 }
#define OUT(name_)                                                                                 \
  { .name = name_, .kind = TN_ARG_OUT, .doc = "numbers" }
static const tn_arg one_args[] = {IN("x"), OUT("y")};
static const tn_arg product_args[] = {IN("a"), IN("b"), OUT("y")};
static const tn_arg bias_args[] = {
    IN("x"), {.name = "row", .kind = TN_ARG_OPTIONAL_IN, .doc = "added to every row"}, OUT("y")};
static const tn_arg advance_args[] = {
    IN("x"), {.name = "state", .kind = TN_ARG_INOUT, .doc = "the sum so far"}, OUT("before")};
static const tn_attr bias_attributes[] = {
    {.name = "negate",
     .type = TN_ATTR_FLAG,
     .offset = offsetof(bias_attrs, negate),
     .doc = "1 to turn the sign"},
    {.name = "scale",
     .type = TN_ATTR_F64,
     .offset = offsetof(bias_attrs, scale),
     .default_value = 1,
     .doc = "of the row",
     .low = 0,
     .high = 8,
     .low_bound = TN_BOUND_CLOSED,
     .high_bound = TN_BOUND_CLOSED},
};

#define OPERATOR(op_name, rows, count, rule, bound, ...)                                           \
  {                                                                                                \
    .struct_size = sizeof(tn_operator), .since = 1, .name = op_name, .types = TYPES,               \
    .shape = TN_SHAPE_CUSTOM, .num_args = count, .args = rows, .arg_size = sizeof(tn_arg),         \
    .tolerance = bound, .doc = "Of the tests.", .maths = "see rules.c", .infer = rule, __VA_ARGS__ \
  }
static const tn_operator operators[] = {
    OPERATOR("rules_total", one_args, 2, infer_total, 1e-6, .flags = TN_OPERATOR_ACCUMULATES),
    OPERATOR("rules_product", product_args, 3, infer_product, 1e-6,
             .flags = TN_OPERATOR_ACCUMULATES),
    OPERATOR("rules_bias", bias_args, 3, infer_bias, 1, .num_attrs = 2, .attrs = bias_attributes,
             .attrs_size = sizeof(bias_attrs), .attr_size = sizeof(tn_attr)),
    OPERATOR("rules_advance", advance_args, 3, infer_advance, 1, .flags = 0),
    OPERATOR("rules_never", one_args, 2, infer_never, 1, .flags = 0),
    OPERATOR("rules_negative", one_args, 2, infer_negative, 1, .flags = 0),
};

#define KERNEL(op, fn)                                                                             \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op_name = op, .device_type = TN_DEVICE_ANY_HOST,            \
    .name = op ".host", .flags = TN_KERNEL_DETERMINISTIC, .run = fn                                \
  }
static const tn_kernel kernels[] = {
    KERNEL("rules_total", total),   KERNEL("rules_product", product),
    KERNEL("rules_bias", bias),     KERNEL("rules_advance", advance),
    KERNEL("rules_never", nothing), KERNEL("rules_negative", nothing)};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "rules",
                                 .version = "1.0",
                                 .description = "operators with shape rules of their own",
                                 .operators = operators,
                                 .num_operators = sizeof operators / sizeof *operators,
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels};

TN_PLUGIN_DEFINE("rules") {
  (void)host;
  return &plugin;
}
