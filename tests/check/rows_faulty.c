/*
 * Kernels for the CPU's device that lose every call, or nearly: each but `sound` has one planted
 * fault, which tenon check must find although a better kernel stands before it. They are one per
 * operator, row-major maps of float32 unless they say otherwise.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tenon/plugin.h"

typedef struct map {
  const float *a, *b;
  float *y;
  int64_t n;
} map;

static map map_of(const tn_kernel_args *args) {
  map m = {args->in[0]->data, args->num_in > 1 ? args->in[1]->data : NULL, args->out[0]->data, 1};
  for (int32_t i = 0; i < args->out[0]->ndim; i++) m.n *= args->out[0]->shape[i];
  return m;
}

static tn_status sound(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)(1 / (1 + exp(-(double)m.a[i])));
  return TN_OK;
}

static tn_status writes_42(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = 42;
  return TN_OK;
}

/* --- calls of many elements --- */

enum { MANY = 70000 };

/* In front of all others. */
static tn_status wrong_if_many(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++)
    m.y[i] = i >= MANY ? 1 : m.a[i] > 0 || isnan(m.a[i]) ? m.a[i] : 0;
  return TN_OK;
}

static tn_status wrong_if_many_and_last(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.a[i] > m.b[i] || isnan(m.a[i]) ? m.a[i] : m.b[i];
  if (m.n > MANY) m.y[m.n - 1] = 42;
  return TN_OK;
}

/* --- some calls --- */

static bool never(const tn_kernel_args *args) {
  (void)args;
  return false;
}

static bool odd_slope(const tn_kernel_args *args) {
  const tn_leaky_relu_attrs *attrs = args->attrs;
  return attrs->slope == 0.123;
}

static bool not_double(const tn_kernel_args *args) { return args->in[0]->dtype.bits == 32; }

/* Right, but what it says it does for float64 no call ever sees. */
static tn_status right_in_float(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)exp((double)m.a[i]);
  return TN_OK;
}

enum { LINE = 5003, BEYOND = 5100 };

static bool from_line_on(const tn_kernel_args *args) { return map_of(args).n >= LINE; }

static tn_status wrong_at_its_line(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.n < BEYOND ? 42 : sqrtf(m.a[i]);
  return TN_OK;
}

static bool takes_all(const tn_kernel_args *args) {
  (void)args;
  return true;
}

static tn_status refuses_what_it_took(const tn_kernel_args *args) {
  return args->host->fail(TN_ERR_UNSUPPORTED, "after all, no");
}

/* --- ranks, types, strides, places in memory --- */

static tn_status wrong_at_rank_4(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = args->out[0]->ndim == 4 ? 42 : fabsf(m.a[i]);
  return TN_OK;
}

static tn_status wrong_in_int(const tn_kernel_args *args) {
  const map m = map_of(args);
  const bool whole = args->in[0]->dtype.code == kDLInt;
  for (int64_t i = 0; i < m.n; i++) {
    if (whole)
      ((int32_t *)(void *)m.y)[i] = ((const int32_t *)(const void *)m.a)[i];
    else
      m.y[i] = -m.a[i];
  }
  return TN_OK;
}

/* Says that it takes any strides. */
static tn_status ignores_strides(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.a[i] * m.b[i];
  return TN_OK;
}

static tn_status wrong_in_place(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) {
    m.y[i] = m.b[i];
    m.y[i] = m.a[i] - m.b[i];
  }
  return TN_OK;
}

static tn_status wrong_off_alignment(const tn_kernel_args *args) {
  const map m = map_of(args);
  const bool off = (uintptr_t)m.y % 16;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = off ? 42 : floorf(m.a[i]);
  return TN_OK;
}

/* Behind two that are sound. */
static tn_status right_log(const tn_kernel_args *args) {
  const map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)log((double)m.a[i]);
  return TN_OK;
}

/* Dies of one shape, and is wrong for another that comes later. */
static tn_status dies_and_is_wrong(const tn_kernel_args *args) {
  const map m = map_of(args);
  volatile float *y = m.n == 4 ? NULL : m.y;
  for (int64_t i = 0; i < m.n; i++) y[i] = m.n == 129 ? 42 : (float)tanh((double)m.a[i]);
  return TN_OK;
}

/* --- rounding twice; in front of all others --- */

static tn_status int_by_double(const tn_kernel_args *args) {
  const map m = map_of(args);
  const int64_t *x = args->in[0]->data;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = (float)(double)x[i];
  return TN_OK;
}

static uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (isnan(x)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static tn_status double_by_float(const tn_kernel_args *args) {
  const map m = map_of(args);
  const double *x = args->in[0]->data;
  for (int64_t i = 0; i < m.n; i++) ((uint16_t *)(void *)m.y)[i] = bf16_of((float)x[i]);
  return TN_OK;
}

/* --- the table --- */

enum { FIRST = 10000, BEHIND = 50 };

#define ROW(OP, fn, at, set, ...)                                                                  \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "rows." #fn,         \
    .priority = at, .types = {set}, .run = fn, __VA_ARGS__                                         \
  }
#define F32 TN_SET(TN_F32)
#define FLAGS(more) .flags = TN_KERNEL_DETERMINISTIC | (more)
#define SOUND FLAGS(0)

static const tn_kernel kernels[] = {
    ROW(TN_OP_SIGMOID, sound, BEHIND, F32, SOUND),
    ROW(TN_OP_GELU, writes_42, BEHIND, F32, SOUND),
    ROW(TN_OP_RELU, wrong_if_many, FIRST, F32, SOUND),
    ROW(TN_OP_MAXIMUM, wrong_if_many_and_last, BEHIND, F32, SOUND),
    ROW(TN_OP_SILU, writes_42, BEHIND, F32, SOUND, .supports = never),
    ROW(TN_OP_LEAKY_RELU, writes_42, FIRST, F32, SOUND, .supports = odd_slope),
    ROW(TN_OP_EXP, right_in_float, FIRST, F32 | TN_SET(TN_F64), SOUND, .supports = not_double),
    ROW(TN_OP_SQRT, wrong_at_its_line, BEHIND, F32, SOUND, .supports = from_line_on),
    ROW(TN_OP_ADD, refuses_what_it_took, BEHIND, F32, SOUND, .supports = takes_all),
    ROW(TN_OP_ABS, wrong_at_rank_4, BEHIND, F32, SOUND),
    ROW(TN_OP_NEG, wrong_in_int, BEHIND, F32 | TN_SET(TN_I32), SOUND),
    ROW(TN_OP_MUL, ignores_strides, BEHIND, F32, FLAGS(TN_KERNEL_STRIDED)),
    ROW(TN_OP_SUB, wrong_in_place, BEHIND, F32, SOUND),
    ROW(TN_OP_FLOOR, wrong_off_alignment, BEHIND, F32, SOUND),
    ROW(TN_OP_LOG, right_log, BEHIND + 2, F32, SOUND),
    ROW(TN_OP_LOG, right_log, BEHIND + 1, F32, SOUND),
    ROW(TN_OP_LOG, writes_42, BEHIND, F32, SOUND),
    ROW(TN_OP_TANH, dies_and_is_wrong, BEHIND, F32, SOUND),
    {.struct_size = sizeof(tn_kernel), /* of the template's device */
     .op = TN_OP_ADD,
     .device_type = "sim",
     .name = "rows.refuses_what_it_took",
     .priority = FIRST,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {F32},
     .run = refuses_what_it_took},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_CAST,
     .device_type = "cpu",
     .name = "rows.int_by_double",
     .priority = FIRST,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_I64), TN_SET(TN_F32)},
     .run = int_by_double},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_CAST,
     .device_type = "cpu",
     .name = "rows.double_by_float",
     .priority = FIRST,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F64), TN_SET(TN_BF16)},
     .run = double_by_float},
};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "rows",
                                 .version = "1.0",
                                 .description = "planted faults in kernels that lose",
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels};

TN_PLUGIN_DEFINE("rows") {
  (void)host;
  return &plugin;
}
