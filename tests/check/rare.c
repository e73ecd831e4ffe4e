/*
 * A plugin of kernels for the CPU's device, each with a fault at sizes that no case of the kit has
 * and that no `supports` tells of: what `tenon check --minutes` must find. All are row-major
 * float32 maps; `abs` is sound.
 */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "tenon/plugin.h"

typedef struct map {
  const float *a, *b;
  float *y;
  int64_t n;
} map;

static map map_of(const tn_kernel_args *args) {
  map m = {args->in[0]->data, NULL, args->out[0]->data, 1};
  if (args->num_in > 1) m.b = args->in[1]->data;
  for (int32_t i = 0; i < args->out[0]->ndim; i++) m.n *= args->out[0]->shape[i];
  return m;
}

static tn_status sound(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = fabsf(m.a[i]);
  return TN_OK;
}

/* The last element of some lengths. */
static tn_status wrong_length(const tn_kernel_args *args) {
  map m = map_of(args);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.a[i] + m.b[i];
  if (m.n % 97 == 13) m.y[m.n - 1] = 42;
  return TN_OK;
}

/* Rank 4 with an axis of 6. */
static tn_status wrong_axis(const tn_kernel_args *args) {
  map m = map_of(args);
  const DLTensor *y = args->out[0];
  bool bad = false;
  for (int32_t i = 0; i < y->ndim; i++) bad |= y->ndim == 4 && y->shape[i] == 6;
  for (int64_t i = 0; i < m.n; i++) m.y[i] = bad ? m.a[i] : m.a[i] * m.b[i];
  return TN_OK;
}

static tn_status crashes(const tn_kernel_args *args) {
  map m = map_of(args);
  if (m.n % 59 == 29) raise(SIGSEGV);
  for (int64_t i = 0; i < m.n; i++) m.y[i] = m.a[i] - m.b[i];
  return TN_OK;
}

static tn_status hangs(const tn_kernel_args *args) {
  map m = map_of(args);
  while (m.n % 89 == 37) pause();
  for (int64_t i = 0; i < m.n; i++) m.y[i] = -m.a[i];
  return TN_OK;
}

#define ROW(OP, fn)                                                                                \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = OP, .device_type = "cpu", .name = "rare." #fn,         \
    .priority = 10000, .flags = TN_KERNEL_DETERMINISTIC, .types = {TN_SET(TN_F32)}, .run = fn      \
  }

static const tn_kernel kernels[] = {
    ROW(TN_OP_ABS, sound),   ROW(TN_OP_ADD, wrong_length), ROW(TN_OP_MUL, wrong_axis),
    ROW(TN_OP_SUB, crashes), ROW(TN_OP_NEG, hangs),
};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "rare",
                                 .version = "1.0",
                                 .description = "faults at rare sizes",
                                 .kernels = kernels,
                                 .num_kernels = sizeof kernels / sizeof *kernels};

TN_PLUGIN_DEFINE("rare") {
  (void)host;
  return &plugin;
}
