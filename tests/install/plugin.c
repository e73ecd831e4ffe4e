/* The least of a plugin: a device whose memory is the host's, and one kernel of its own;
 * every other operator is served by whoever serves host memory. */
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

static int the_device; /* has no state, but a handle is wanted */

static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  (void)host, (void)context;
  *devices = 1;
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLCPU;
  out->memory_bytes = 1 << 20;
  strcpy(out->name, "Abacus");
  return TN_OK;
}

static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)host, (void)context, (void)index;
  *device = &the_device;
  return TN_OK;
}

static void close_device(void *device) { (void)device; }

static tn_status take_memory(void *device, uint32_t kind, size_t bytes, void **ptr) {
  (void)device, (void)kind;
  *ptr = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *ptr ? TN_OK : TN_ERR_DEVICE_OUT_OF_MEMORY;
}

static void give_memory(void *device, uint32_t kind, void *ptr) {
  (void)device, (void)kind;
  free(ptr);
}

static tn_status copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  (void)device, (void)queue, (void)direction;
  memcpy((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static tn_status add(const tn_kernel_args *args) {
  const float *a = args->in[0]->data, *b = args->in[1]->data;
  float *y = args->out[0]->data;
  int64_t elements = 1;
  for (int i = 0; i < args->out[0]->ndim; ++i) elements *= args->out[0]->shape[i];
  for (int64_t i = 0; i < elements; ++i) y[i] = a[i] + b[i];
  return TN_OK;
}

static const tn_backend backend = {
    .struct_size = sizeof backend,
    .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS,
    .device_type = "abacus",
    .count = count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .alloc = take_memory,
    .free = give_memory,
    .copy = copy,
};
static const tn_backend *const backends[] = {&backend};

static const tn_kernel kernels[] = {{
    .struct_size = sizeof kernels[0],
    .op = TN_OP_ADD,
    .device_type = "abacus",
    .name = "abacus.add.f32",
    .priority = 200,
    .types = {TN_SET(TN_F32)},
    .run = add,
}};

static const tn_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "abacus",
    .version = "1.0",
    .description = "beads on wires",
    .backends = backends,
    .num_backends = 1,
    .kernels = kernels,
    .num_kernels = 1,
};

TN_PLUGIN_DEFINE("abacus") {
  (void)host;
  return &plugin;
}
