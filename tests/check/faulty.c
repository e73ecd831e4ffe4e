/*
 * A plugin of kernels for the CPU's device, each with one planted fault: what tenon check
 * must find, operator by operator. All are row-major float32 maps unless they say
 * otherwise; `add` alone is sound.
 */
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/plugin.h"

typedef struct map {
  float *x, *y; /* x as if it could be written */
  int64_t n;
} map;

static map map_of(const tn_kernel_args *args) {
  map m = {args->in[0]->data, args->out[0]->data, 1};
  for (int32_t i = 0; i < args->out[0]->ndim; i++) m.n *= args->out[0]->shape[i];
  return m;
}

static tn_status sound(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i] + b[i];
  return TN_OK;
}

/* Whole vectors are right, the rest is merely copied. */
static tn_status wrong_tail(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++)
    m.y[i] = i < m.n / 8 * 8 && !isnan(m.x[i]) ? fmaxf(m.x[i], 0) : m.x[i];
  return TN_OK;
}

/* Says that it takes any strides. */
static tn_status ignored_stride(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i] * b[i];
  return TN_OK;
}

static void softmax_row(const float *x, float *y, int64_t n, int64_t step) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, (double)x[i * step]);
  for (int64_t i = 0; i < n; i++) sum += exp((double)x[i * step] - most);
  for (int64_t i = 0; i < n; i++) y[i * step] = (float)(exp((double)x[i * step] - most) / sum);
}

/* Right for vectors; one axis further for the rest. */
static tn_status off_by_one_axis(const tn_kernel_args *args) {
  const tn_softmax_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0];
  map m = map_of(args);
  int64_t axis = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis, step = 1;
  if (x->ndim > 1) axis = (axis + 1) % x->ndim;
  for (int32_t i = (int32_t)axis + 1; i < x->ndim; i++) step *= x->shape[i];
  int64_t n = x->shape[axis];
  for (int64_t i = 0; n && i < m.n / n; i++) {
    int64_t at = i / step * step * n + i % step;
    softmax_row(m.x + at, m.y + at, n, step);
  }
  return TN_OK;
}

static tn_status stale_output(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  for (int64_t i = 0; i < m.n && m.n < 100; i++) m.y[i] = m.x[i] - b[i];
  return TN_OK;
}

/* A NaN in a is lost. */
static tn_status wrong_nan(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i] > b[i] ? m.x[i] : b[i];
  return TN_OK;
}

static tn_status fails_after_writing(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i] / b[i];
  if (m.n == 129) return args->host->fail(TN_ERR_BACKEND, "faulty: a made up error");
  return TN_OK;
}

/* What it cannot do it should have said in its `supports`. */
static tn_status wrong_status(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  if (m.n > 1000) return args->host->fail(TN_ERR_UNSUPPORTED, "faulty: too large");
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i] < b[i] || isnan(m.x[i]) ? m.x[i] : b[i];
  return TN_OK;
}

static tn_status writes_outside(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = sqrtf(m.x[i]);
  if (m.n == 64) m.y[m.n] = 0;
  return TN_OK;
}

static tn_status reads_outside(const tn_kernel_args *args) {
  map m = map_of(args);
  volatile float next = 0;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)(1 / (1 + exp(-(double)m.x[i])));
  if (m.n == 1000) next = m.x[m.n];
  (void)next;
  return TN_OK;
}

static tn_status changes_input(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)log((double)m.x[i]);
  if (m.n == 17 && m.y != m.x) m.x[3] = 42;
  return TN_OK;
}

static double gelu(double x, bool by_tanh) {
  if (!by_tanh) return x / 2 * erfc(-x / sqrt(2));
  return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* Right within its bound, and never the same twice. */
static tn_status not_deterministic(const tn_kernel_args *args) {
  static atomic_uint calls;
  const tn_gelu_attrs *attrs = args->attrs;
  map m = map_of(args);
  bool odd = atomic_fetch_add(&calls, 1) & 1;
  for (int64_t i = 0; i < m.n; i++) {
    float y = (float)gelu((double)m.x[i], attrs->tanh);
    m.y[i] = odd && isnormal(y) ? nextafterf(y, 0) : y;
  }
  return TN_OK;
}

/* Clears the output first, which may be the input. */
static tn_status wrong_in_place(const tn_kernel_args *args) {
  map m = map_of(args);
  if (m.n) memset(m.y, 0, (size_t)m.n * sizeof *m.y);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = -m.x[i];
  return TN_OK;
}

static tn_status crashes(const tn_kernel_args *args) {
  map m = map_of(args);
  if (m.n == 129) m.y = NULL;
  for (int64_t i = 0; i < m.n; i++) ((volatile float *)m.y)[i] = (float)tanh((double)m.x[i]);
  return TN_OK;
}

static tn_status hangs(const tn_kernel_args *args) {
  map m = map_of(args);
  const float *b = args->in[1]->data;
  while (m.n == 33) pause();
  for (int64_t i = 0; i < m.n; i++) m.y[i] = hypotf(m.x[i], b[i]);
  return TN_OK;
}

/* A stretch of sizes that no case has unless somebody looks for where another kernel gets the
 * call. */
enum { THRESHOLD = 3 * 43771, END = 600000 };

static bool stretch_alone(const tn_kernel_args *args) {
  return map_of(args).n >= THRESHOLD && map_of(args).n < END;
}

/* Merely copies; calls of other sizes are the next kernel's. */
static tn_status wrong_between(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.x[i];
  return TN_OK;
}

/* Says that it heeds numbers in the device's memory, and steps where one of them says not to. */
static tn_status never_skips(const tn_kernel_args *args) {
  const tn_sgd_step_attrs *a = args->attrs;
  const DLTensor *from = tn_attr_view(a->lr_from);
  map m = map_of(args);
  float *velocity = args->out[1]->data;
  double lr = !from ? a->lr : from->dtype.bits == 64 ? *(double *)from->data : *(float *)from->data;
  for (int64_t i = 0; i < m.n; i++) {
    double g = m.x[i] + a->weight_decay * m.y[i];
    double v = a->momentum == 0 ? g : a->momentum * velocity[i] + g;
    velocity[i] = (float)v;
    m.y[i] = (float)(m.y[i] - lr * (a->nesterov ? g + a->momentum * v : v));
  }
  return TN_OK;
}

/* The same of one that goes by the attribute. */
static tn_status frozen_rate(const tn_kernel_args *args) {
  const tn_adam_step_attrs *a = args->attrs;
  const DLTensor *skip = tn_attr_view(a->skip_if), *from = tn_attr_view(a->step_from);
  map m = map_of(args);
  float *s = args->out[1]->data, *t = args->out[2]->data;
  double step = (double)(from ? *(int64_t *)from->data : a->step);
  if (skip && *(uint8_t *)skip->data) return TN_OK;
  for (int64_t i = 0; i < m.n; i++) {
    double g = m.x[i] + a->weight_decay * m.y[i];
    double first = a->beta1 * s[i] + (1 - a->beta1) * g;
    double second = a->beta2 * t[i] + (1 - a->beta2) * g * g;
    s[i] = (float)first, t[i] = (float)second;
    m.y[i] = (float)(m.y[i] - a->lr * (first / (1 - pow(a->beta1, step))) /
                                  (sqrt(second / (1 - pow(a->beta2, step))) + a->eps));
  }
  return TN_OK;
}

#define ROW(OP, fn, more)                                                                          \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "faulty." #fn,       \
    .priority = 10000, .flags = TN_KERNEL_DETERMINISTIC | (more), .types = {TN_SET(TN_F32)},       \
    .run = fn                                                                                      \
  }

#define ROW_SOME(OP, fn, takes)                                                                    \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "faulty." #fn,       \
    .priority = 10000, .flags = TN_KERNEL_DETERMINISTIC, .types = {TN_SET(TN_F32)}, .run = fn,     \
    .supports = takes                                                                              \
  }

#define ROW_HEEDS(OP, fn, type)                                                                    \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "faulty." #fn,       \
    .priority = 10000, .flags = TN_KERNEL_DETERMINISTIC, .types = {TN_SET(TN_F32)}, .run = fn,     \
    .attrs_size = sizeof(type)                                                                     \
  }

static const tn_kernel kernels[] = {
    ROW(TN_OP_ADD, sound, 0),
    ROW(TN_OP_RELU, wrong_tail, 0),
    ROW(TN_OP_MUL, ignored_stride, TN_KERNEL_STRIDED),
    ROW(TN_OP_SOFTMAX, off_by_one_axis, 0),
    ROW(TN_OP_SUB, stale_output, 0),
    ROW(TN_OP_MAXIMUM, wrong_nan, 0),
    ROW(TN_OP_DIV, fails_after_writing, 0),
    ROW(TN_OP_MINIMUM, wrong_status, 0),
    ROW(TN_OP_SQRT, writes_outside, 0),
    ROW(TN_OP_SIGMOID, reads_outside, 0),
    ROW(TN_OP_LOG, changes_input, 0),
    ROW(TN_OP_GELU, not_deterministic, 0),
    ROW(TN_OP_NEG, wrong_in_place, 0),
    ROW(TN_OP_TANH, crashes, 0),
    ROW_SOME(TN_OP_EXP, wrong_between, stretch_alone),
    ROW_HEEDS(TN_OP_SGD_STEP, never_skips, tn_sgd_step_attrs),
    ROW_HEEDS(TN_OP_ADAM_STEP, frozen_rate, tn_adam_step_attrs),
    ROW(TN_OP_HYPOT, hangs, 0), /* last: see below */
};

/* A kernel that hangs is waited for, so it comes along only where FAULTY_HANGS is set. */
static tn_plugin plugin = {.struct_size = sizeof plugin,
                           .abi_min = TN_ABI_VERSION_MIN,
                           .abi_max = TN_ABI_VERSION,
                           .name = "faulty",
                           .version = "1.0",
                           .description = "planted faults",
                           .kernels = kernels};

TN_PLUGIN_DEFINE("faulty") {
  (void)host;
  plugin.num_kernels = sizeof kernels / sizeof *kernels - !getenv("FAULTY_HANGS");
  return &plugin;
}
