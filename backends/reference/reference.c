/*
 * The reference backend: host memory, plain C kernels. Its kernels serve every device
 * whose memory is host memory, so nothing is ever missing there; as a device of its own
 * it is the oracle that others are compared with.
 */
#include <string.h>
#include <unistd.h>

#include "kernels/reference/kernels.h"
#include "tenon/op_rows.h"

/* The device is nothing but the way back to its host. */
typedef struct device {
  const tn_host *host;
} device;

static tn_status count_devices(const tn_host *host, void *context, uint32_t *count) {
  (void)host, (void)context;
  *count = 1;
  return TN_OK;
}

static uint64_t pages(int name) {
  long count = sysconf(name), size = sysconf(_SC_PAGESIZE);
  return count > 0 && size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLCPU;
  out->dl_device_id = 0;
  out->score = 1;
  out->memory_bytes = pages(_SC_PHYS_PAGES);
  out->alignment_bytes = 64;
  strcpy(out->name, "C reference");
  strcpy(out->features, "float64");
  return TN_OK;
}

static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **out) {
  (void)context, (void)index;
  device *d = host->alloc(host, sizeof *d, _Alignof(device));
  if (!d) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for the device's handle");
  d->host = host;
  *out = d;
  return TN_OK;
}

static void close_device(void *handle) {
  device *d = handle;
  d->host->free(d->host, d);
}

static tn_status alloc_memory(void *handle, uint32_t kind, size_t bytes, void **ptr) {
  const tn_host *host = ((device *)handle)->host;
  (void)kind;
  *ptr = host->alloc(host, bytes, 64);
  if (*ptr) return TN_OK;
  return host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no host memory for %zu bytes", bytes);
}

static void free_memory(void *handle, uint32_t kind, void *ptr) {
  const tn_host *host = ((device *)handle)->host;
  (void)kind;
  host->free(host, ptr);
}

static tn_status memory_info(void *handle, uint64_t *free_bytes, uint64_t *total_bytes) {
  (void)handle;
  *free_bytes = pages(_SC_AVPHYS_PAGES);
  *total_bytes = pages(_SC_PHYS_PAGES);
  return TN_OK;
}

static tn_status copy(void *handle, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  (void)handle, (void)queue, (void)direction;
  if (bytes) memmove((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static const tn_backend backend = {
    .struct_size = sizeof backend,
    .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS | TN_BACKEND_FORK_SAFE,
    .device_type = "reference",
    .count = count_devices,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .memory_info = memory_info,
    .copy = copy,
};

/* The attribute struct of an operator once more, for its size: also of one without attributes. */
#define FIELD_i64(name) int64_t name;
#define FIELD_u64(name) uint64_t name;
#define FIELD_f64(name) double name;
#define FIELD_flag(name) int32_t name;
#define FIELD_dtype(name) int32_t name;
#define FIELD_result(name) int32_t name;
#define FIELD_pair(name) int64_t name[2];
#define FIELD_triple(name) int64_t name[3];
#define FIELD_axes(name) tn_axes name;
#define FIELD_dims(name) tn_dims name;
#define FIELD_tensor(name) const struct tn_tensor *name;
#define FIELD(kind, name, ...) FIELD_##kind(name)
#define OP(ID, op_name_, ...)                                                                      \
  typedef struct op_name_##_fields {                                                               \
    uint32_t struct_size;                                                                          \
    TN_ATTRS_##op_name_(FIELD)                                                                     \
  } op_name_##_fields;
#include "ops.def"

/* One row per operator, for all its element types and every attribute that it has now: whoever
 * appends one teaches its kernel here first. Without a reference kernel it does not link. */
static const tn_kernel kernels[] = {
#define OP(ID, op_name_, OP_NAME, ...)                                                             \
  {.struct_size = sizeof(tn_kernel),                                                               \
   .op = TN_OP_##OP_NAME,                                                                          \
   .device_type = TN_DEVICE_ANY_HOST,                                                              \
   .name = "reference." #op_name_,                                                                 \
   .priority = 0,                                                                                  \
   .flags = TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC,                                           \
   .types = {TN_TYPES_##op_name_},                                                                 \
   .run = reference_##op_name_,                                                                    \
   .attrs_size = sizeof(op_name_##_fields)},
#include "ops.def"
};

static const tn_backend *const backends[] = {&backend};

static const tn_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "reference",
    .version = TN_VERSION_STRING,
    .description = "every operator in plain C, computed in double: oracle and safety net",
    .backends = backends,
    .num_backends = 1,
    .kernels = kernels,
    .num_kernels = sizeof kernels / sizeof *kernels,
};

TN_PLUGIN_BRINGS("host-device:reference kernels:" TN_DEVICE_ANY_HOST);

TN_PLUGIN_DEFINE("reference") {
  (void)host;
  return &plugin;
}
