/*
 * Kernels for a device that another plugin serves. They read and write its tensors in place, so
 * the device's memory must be the host's. The dispatcher has checked shapes, types and aliasing;
 * nothing is checked again.
 */
#include <math.h>
#include <tenon/plugin.h>

/* What TENON_DEVICE calls the device. */
#define DEVICE_TYPE "sim"

/* Above the kernels that come with Tenon, which have 100 and from 200 on: the highest that takes a
 * call runs. */
enum { PRIORITY = 250 };

static int64_t count_of(const DLTensor *t, int32_t axes) {
  int64_t n = 1;
  for (int32_t i = 0; i < axes; ++i) n *= t->shape[i];
  return n;
}

/* ---------------------------------------------------------------------- relu --- */

/* Without TN_KERNEL_STRIDED tensors come row-major: one loop over all elements. The output may
 * be the input. */
static tn_status relu_range(void *ctx, int64_t begin, int64_t end) {
  const tn_kernel_args *args = ctx;
  const float *x = args->in[0]->data;
  float *y = args->out[0]->data;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] < 0 ? 0 : x[i]; /* NaN passes */
  return TN_OK;
}

/* Shares of at least 16384 elements on the runtime's threads. Make no threads of your own. */
static tn_status relu(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  return args->host->parallel_for(args->host, count_of(y, y->ndim), 16384, relu_range,
                                  (void *)(uintptr_t)args);
}

/* ------------------------------------------------------------------- softmax --- */

/* Along the last axis alone: other calls go on to the next kernel. Axes come counted from the
 * front here; hosts of before passed on those that count from the end. */
static bool softmax_supports(const tn_kernel_args *args) {
  const tn_softmax_attrs *attrs = args->attrs;
  return attrs->axis == -1 || attrs->axis == args->in[0]->ndim - 1;
}

static void softmax_row(const float *x, float *y, int64_t n) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = fmax(largest, (double)x[i]);
  for (int64_t i = 0; i < n; ++i) sum += exp((double)x[i] - largest);
  for (int64_t i = 0; i < n; ++i) y[i] = (float)(exp((double)x[i] - largest) / sum);
}

static tn_status softmax_range(void *ctx, int64_t begin, int64_t end) {
  const tn_kernel_args *args = ctx;
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t n = x->shape[x->ndim - 1];
  for (int64_t row = begin; row < end; ++row)
    softmax_row((const float *)x->data + row * n, (float *)y->data + row * n, n);
  return TN_OK;
}

static tn_status softmax(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  return args->host->parallel_for(args->host, count_of(x, x->ndim - 1), 64, softmax_range,
                                  (void *)(uintptr_t)args);
}

/* -------------------------------------------------------------------- plugin --- */

/* `types` leaves the operators' other element types to other kernels. */
static const tn_kernel kernels[] = {
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_RELU,
     .device_type = DEVICE_TYPE,
     .name = "template.relu.f32",
     .priority = PRIORITY,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = relu},
    {.struct_size = sizeof(tn_kernel),
     .op = TN_OP_SOFTMAX,
     .device_type = DEVICE_TYPE,
     .name = "template.softmax.f32",
     .priority = PRIORITY,
     .flags = TN_KERNEL_DETERMINISTIC,
     .types = {TN_SET(TN_F32)},
     .run = softmax,
     .supports = softmax_supports,
     .note = "the last axis"},
};

TN_PLUGIN_BRINGS("kernels:" DEVICE_TYPE);

TN_PLUGIN_DEFINE("template") {
  static const tn_plugin plugin = {
      .struct_size = sizeof(tn_plugin),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .name = "template",
      .version = "0.1.0",
      .description = "kernels for " DEVICE_TYPE,
      .kernels = kernels,
      .num_kernels = sizeof kernels / sizeof *kernels,
  };
  (void)host;
  return &plugin;
}
