/*
 * A plugin of kernels for the CPU's device that are right but where sizes are 1 or 2, or where
 * numbers leave no room: what tenon check's degenerate shapes and extreme numbers must find. Each
 * is the reference's kernel, spoiled in one condition, or the textbook's formula in a type that is
 * too narrow for it. `mul` alone is sound.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "kernels/common/half.h"
#include "kernels/reference/kernels.h"

static int64_t elements(const DLTensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

/* The size of axis i, counted from the last where it is below 0. */
static int64_t size_of(const DLTensor *t, int32_t i) { return t->shape[i < 0 ? i + t->ndim : i]; }

static bool is(const DLTensor *t, uint8_t code, uint8_t bits) {
  return t->dtype.code == code && t->dtype.bits == bits;
}

/* Adds 1 to every element of the first output, in float32 or float64. */
static void spoil(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  for (int64_t i = 0; i < elements(y); i++)
    if (y->dtype.bits == 64)
      ((double *)y->data)[i] += 1;
    else
      ((float *)y->data)[i] += 1;
}

#define SPOILED(op, condition)                                                                     \
  static bool strikes_##op(const tn_kernel_args *args) { return condition; }                       \
  static tn_status op(const tn_kernel_args *args) {                                                \
    const tn_status status = reference_##op(args);                                                 \
    if (status == TN_OK && strikes_##op(args)) spoil(args);                                        \
    return status;                                                                                 \
  }

/* --- shapes --- */

/* 32 bits: outer products of a batch by a single matrix. 64: a row by a transposed matrix. */
static bool product_is_wrong(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  const DLTensor *a = args->in[0], *b = args->in[1];
  const int64_t m = size_of(a, attrs->trans_a ? -1 : -2), k = size_of(a, attrs->trans_a ? -2 : -1);
  if (a->dtype.bits == 32) return k == 1 && elements(a) > m && elements(b) > 1;
  return m == 1 && attrs->trans_a && attrs->trans_b && b->ndim > 2;
}

static bool pool_is_wrong(const tn_kernel_args *args) {
  const tn_avg_pool2d_attrs *attrs = args->attrs;
  return attrs->kernel[0] == 1 && attrs->kernel[1] == 1 && attrs->stride[0] == 2;
}

static bool reduces_one(const tn_kernel_args *args) {
  const tn_max_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0];
  const int32_t axis = attrs->axes.axis[0];
  return attrs->axes.count == 1 && x->ndim == 3 && size_of(x, axis) == 1 && elements(x) == 4;
}

static bool resizes_to_one(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  return x->shape[2] == 2 && x->shape[3] == 1 && y->shape[2] == 1 && y->shape[3] == 2;
}

static bool scans_one(const tn_kernel_args *args) {
  const tn_cumsum_attrs *attrs = args->attrs;
  return attrs->exclusive && elements(args->in[0]) == 2 &&
         size_of(args->in[0], (int32_t)attrs->axis) == 1;
}

static bool conv1d_has_one_channel(const tn_kernel_args *args) {
  const tn_conv1d_attrs *attrs = args->attrs;
  return attrs->groups == 1 && args->in[0]->shape[1] == 1 && size_of(args->in[1], -1) == 2;
}

static bool gradient_of_one_channel(const tn_kernel_args *args) {
  const tn_conv2d_grad_weight_attrs *attrs = args->attrs;
  return attrs->kernel[0] == 1 && attrs->kernel[1] == 1 && args->in[1]->shape[1] == 1 &&
         args->in[0]->shape[1] > 1;
}

static bool transposed_depthwise(const tn_kernel_args *args) {
  const tn_conv_transpose2d_attrs *attrs = args->attrs;
  return attrs->groups == 2 && elements(args->in[1]) == 2;
}

static bool shared_key(const tn_kernel_args *args) {
  const DLTensor *q = args->in[0], *k = args->in[1];
  return k->shape[2] == 1 && q->shape[1] > k->shape[1];
}

SPOILED(matmul, product_is_wrong(args))
SPOILED(conv1d, conv1d_has_one_channel(args))
SPOILED(conv2d, elements(args->in[1]) == 2 && args->in[1]->shape[0] == 2)
SPOILED(conv2d_grad_weight, gradient_of_one_channel(args))
SPOILED(conv_transpose2d, transposed_depthwise(args))
SPOILED(avg_pool2d, pool_is_wrong(args))
SPOILED(max, reduces_one(args))
SPOILED(concat, args->num_in > 1 && elements(args->in[0]) == 0)
SPOILED(resize, resizes_to_one(args))
SPOILED(cumsum, scans_one(args))
SPOILED(scaled_dot_product_attention, shared_key(args))

/* --- numbers --- */

/* Whether all of x becomes one number: others are the reference's. */
static bool is_whole(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  return elements(args->out[0]) == 1 && elements(x) > 1 &&
         is(args->out[0], x->dtype.code, x->dtype.bits);
}

/* The mean of squares less the square of the mean. */
static tn_status var(const tn_kernel_args *args) {
  const tn_var_attrs *attrs = args->attrs;
  const float *x = args->in[0]->data;
  const int64_t n = elements(args->in[0]);
  float sum = 0, squares = 0;
  if (!is_whole(args) || attrs->correction >= (double)n) return reference_var(args);
  for (int64_t i = 0; i < n; i++) sum += x[i], squares += x[i] * x[i];
  const float count = (float)n, mean = sum / count;
  *(float *)args->out[0]->data =
      (squares / count - mean * mean) * count / (count - (float)attrs->correction);
  return TN_OK;
}

/* Sums of doubles, but of squares that were float32. */
static tn_status std_of(const tn_kernel_args *args) {
  const tn_std_attrs *attrs = args->attrs;
  const float *x = args->in[0]->data;
  const int64_t n = elements(args->in[0]);
  double sum = 0, squares = 0;
  if (!is_whole(args) || attrs->correction >= (double)n) return reference_std(args);
  for (int64_t i = 0; i < n; i++) sum += (double)x[i];
  for (int64_t i = 0; i < n; i++) {
    const float d = (float)((double)x[i] - sum / (double)n);
    squares += (double)(d * d);
  }
  *(float *)args->out[0]->data = (float)sqrt(squares / ((double)n - attrs->correction));
  return TN_OK;
}

static float sum_of_halves(const DLTensor *x) {
  uint16_t sum = 0;
  const uint16_t *from = x->data;
  for (int64_t i = 0; i < elements(x); i++)
    sum = f16_from_f32(f16_to_f32(sum) + f16_to_f32(from[i]));
  return f16_to_f32(sum);
}

/* float16 in float16, and int32 in float32. */
static tn_status sum(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  float of_integers = 0;
  if (!is_whole(args)) return reference_sum(args);
  if (is(x, kDLFloat, 16)) return *(uint16_t *)y->data = f16_from_f32(sum_of_halves(x)), TN_OK;
  for (int64_t i = 0; i < elements(x); i++) of_integers += (float)((const int32_t *)x->data)[i];
  /* Beyond what int32 holds the sum would wrap, which this leaves to the reference. */
  if (!(fabsf(of_integers) < 0x1p30f)) return reference_sum(args);
  *(int32_t *)y->data = (int32_t)of_integers;
  return TN_OK;
}

static tn_status mean(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  if (!is_whole(args)) return reference_mean(args);
  *(uint16_t *)args->out[0]->data = f16_from_f32(sum_of_halves(x) / (float)elements(x));
  return TN_OK;
}

static tn_status norm(const tn_kernel_args *args) {
  const tn_norm_attrs *attrs = args->attrs;
  const float *x = args->in[0]->data;
  double squares = 0;
  if (!is_whole(args) || attrs->ord != 2) return reference_norm(args);
  for (int64_t i = 0; i < elements(args->in[0]); i++) squares += (double)(x[i] * x[i]);
  *(float *)args->out[0]->data = (float)sqrt(squares);
  return TN_OK;
}

/* The exponentials of numbers as they are, whose sum overflows. */
static tn_status logsumexp(const tn_kernel_args *args) {
  const float *x = args->in[0]->data;
  float of_powers = 0;
  if (!is_whole(args)) return reference_logsumexp(args);
  for (int64_t i = 0; i < elements(args->in[0]); i++) of_powers += expf(x[i]);
  *(float *)args->out[0]->data = logf(of_powers);
  return TN_OK;
}

/* x as [outer, n, inner]. */
static void rows_of(const DLTensor *x, int64_t axis, int64_t *n, int64_t *inner) {
  if (axis < 0) axis += x->ndim;
  *n = x->shape[axis];
  *inner = 1;
  for (int32_t i = (int32_t)axis + 1; i < x->ndim; i++) *inner *= x->shape[i];
}

/* Without the maximum taken off. */
static void powers(const tn_kernel_args *args, int64_t axis, bool logarithm) {
  const float *x = args->in[0]->data;
  float *y = args->out[0]->data;
  int64_t n, inner;
  rows_of(args->in[0], axis, &n, &inner);
  for (int64_t row = 0; n && row < elements(args->in[0]) / n; row++) {
    const int64_t at = row / inner * inner * n + row % inner;
    double of_powers = 0;
    for (int64_t i = 0; i < n; i++) of_powers += (double)expf(x[at + i * inner]);
    for (int64_t i = 0; i < n; i++) {
      const double p = (double)expf(x[at + i * inner]) / of_powers;
      y[at + i * inner] = (float)(logarithm ? log(p) : p);
    }
  }
}

static tn_status softmax(const tn_kernel_args *args) {
  powers(args, ((const tn_softmax_attrs *)args->attrs)->axis, false);
  return TN_OK;
}

static tn_status log_softmax(const tn_kernel_args *args) {
  powers(args, ((const tn_log_softmax_attrs *)args->attrs)->axis, true);
  return TN_OK;
}

/* int8 by int8 in 16 bits, uint8 by uint8 in float32. */
static tn_status matmul_integer(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1];
  if (a->ndim != 2 || b->ndim != 2 || args->in[2] || args->in[3] || a->dtype.code != b->dtype.code)
    return reference_matmul_integer(args);
  const int64_t k = a->shape[1], n = b->shape[1];
  for (int64_t at = 0; at < a->shape[0] * n; at++) {
    const int64_t row = at / n * k, column = at % n;
    int16_t in_16_bits = 0;
    float in_floats = 0;
    for (int64_t i = 0; i < k; i++) {
      const int64_t left = row + i, right = i * n + column;
      if (a->dtype.code == kDLInt)
        in_16_bits = (int16_t)(in_16_bits + ((int8_t *)a->data)[left] * ((int8_t *)b->data)[right]);
      else
        in_floats += (float)(((uint8_t *)a->data)[left] * ((uint8_t *)b->data)[right]);
    }
    ((int32_t *)args->out[0]->data)[at] = a->dtype.code == kDLInt ? in_16_bits : (int32_t)in_floats;
  }
  return TN_OK;
}

/* Squares in float32: what is beyond it makes the row 0. */
static tn_status rms_norm(const tn_kernel_args *args) {
  const tn_rms_norm_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0];
  const int64_t axis = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis;
  const tn_status status = reference_rms_norm(args);
  if (status != TN_OK || axis != x->ndim - 1) return status;
  const int64_t n = x->shape[axis];
  for (int64_t row = 0; n && row < elements(x) / n; row++) {
    const float *from = (const float *)x->data + row * n;
    float squares = 0;
    for (int64_t i = 0; i < n; i++) squares += from[i] * from[i];
    for (int64_t i = 0; i < n && squares > FLT_MAX; i++)
      ((float *)args->out[0]->data)[row * n + i] = 0;
  }
  return TN_OK;
}

/* The mean in float32, which the deviations are taken from: far from 0 all are off by as much. */
static tn_status layer_norm(const tn_kernel_args *args) {
  const tn_layer_norm_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0];
  const int64_t axis = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis, n = x->shape[axis];
  const tn_status status = reference_layer_norm(args);
  if (status != TN_OK || axis != x->ndim - 1 || args->in[1] || args->in[2]) return status;
  for (int64_t row = 0; n && row < elements(x) / n; row++) {
    const float *from = (const float *)x->data + row * n;
    float *to = (float *)args->out[0]->data + row * n;
    double in_doubles = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) in_doubles += (double)from[i];
    const float in_floats = (float)(in_doubles / (double)n);
    for (int64_t i = 0; i < n; i++) squares += pow((double)(from[i] - in_floats), 2);
    const float rstd = (float)(1 / sqrt(squares / (double)n + attrs->eps));
    for (int64_t i = 0; i < n; i++) to[i] = (from[i] - in_floats) * rstd;
  }
  return TN_OK;
}

/* --- rows --- */

#define ROW(OP, fn, ...)                                                                           \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##OP, .device_type = "cpu",                      \
    .name = "degenerate." #fn, .priority = 10000, .flags = TN_KERNEL_DETERMINISTIC,                \
    .types = {__VA_ARGS__}, .run = fn                                                              \
  }
#define F32 TN_SET(TN_F32)

static const tn_kernel kernels[] = {
    ROW(MUL, reference_mul, F32),
    ROW(MATMUL, matmul, F32 | TN_SET(TN_F64)),
    ROW(CONV1D, conv1d, F32),
    ROW(CONV2D, conv2d, F32),
    ROW(CONV2D_GRAD_WEIGHT, conv2d_grad_weight, F32),
    ROW(CONV_TRANSPOSE2D, conv_transpose2d, F32),
    ROW(AVG_POOL2D, avg_pool2d, F32),
    ROW(MAX, max, F32),
    ROW(CONCAT, concat, F32),
    ROW(RESIZE, resize, F32),
    ROW(CUMSUM, cumsum, F32),
    ROW(SCALED_DOT_PRODUCT_ATTENTION, scaled_dot_product_attention, F32),
    ROW(VAR, var, F32),
    ROW(STD, std_of, F32),
    ROW(SUM, sum, TN_SET(TN_F16) | TN_SET(TN_I32)),
    ROW(MEAN, mean, TN_SET(TN_F16)),
    ROW(NORM, norm, F32),
    ROW(LOGSUMEXP, logsumexp, F32),
    ROW(SOFTMAX, softmax, F32),
    ROW(LOG_SOFTMAX, log_softmax, F32),
    ROW(MATMUL_INTEGER, matmul_integer, TN_SET_BYTE, TN_SET_BYTE),
    ROW(RMS_NORM, rms_norm, F32, F32),
    ROW(LAYER_NORM, layer_norm, F32, F32),
};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "degenerate",
                                 .version = "1.0",
                                 .description = "faults where sizes are 1 and numbers are large",
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels};

TN_PLUGIN_DEFINE("degenerate") {
  (void)host;
  return &plugin;
}
