/*
 * What the fixture plugins share: one synchronous host-memory backend "fixture" with one
 * device that is never chosen by itself, and one kernel that adds f32. Each fixture then
 * breaks one rule. Like any plugin, it includes plugin.h alone.
 */
#ifndef TENON_TESTS_FIXTURE_H
#define TENON_TESTS_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "tenon/plugin.h"

static inline tn_status fixture_count(const tn_host *host, void *context, uint32_t *count) {
  (void)host, (void)context;
  *count = 1;
  return TN_OK;
}

static inline tn_status fixture_describe(const tn_host *host, void *context, uint32_t index,
                                         tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLCPU;
  out->score = 0;
  out->memory_bytes = 1 << 20;
  strcpy(out->name, "a fixture");
  return TN_OK;
}

static inline tn_status fixture_open(const tn_host *host, void *context, uint32_t index,
                                     void **device) {
  (void)context, (void)index;
  *device = (void *)(uintptr_t)host;
  return TN_OK;
}

static inline void fixture_close(void *device) { (void)device; }

static inline tn_status fixture_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  const tn_host *host = device;
  (void)kind;
  *ptr = host->alloc(host, bytes, 64);
  return *ptr ? TN_OK : host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no memory");
}

static inline void fixture_free(void *device, uint32_t kind, void *ptr) {
  const tn_host *host = device;
  (void)kind;
  host->free(host, ptr);
}

static inline tn_status fixture_copy(void *device, void *queue, uint32_t direction, void *dst,
                                     uint64_t dst_offset, const void *src, uint64_t src_offset,
                                     size_t bytes) {
  (void)device, (void)queue, (void)direction;
  memmove((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

static inline tn_status fixture_add(const tn_kernel_args *args) {
  const float *a = args->in[0]->data, *b = args->in[1]->data;
  float *y = args->out[0]->data;
  int64_t n = 1;
  for (int32_t i = 0; i < args->out[0]->ndim; i++) n *= args->out[0]->shape[i];
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
  return TN_OK;
}

/* `size` is what the struct says of itself. */
#define FIXTURE_BACKEND_OF(type, size)                                                             \
  {                                                                                                \
    .struct_size = size, .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS,                 \
    .device_type = type, .count = fixture_count, .describe = fixture_describe,                     \
    .open = fixture_open, .close = fixture_close, .alloc = fixture_alloc, .free = fixture_free,    \
    .copy = fixture_copy                                                                           \
  }
#define FIXTURE_BACKEND(type) FIXTURE_BACKEND_OF(type, sizeof(tn_backend))

#define FIXTURE_KERNEL_OF(type, size)                                                              \
  {                                                                                                \
    .struct_size = size, .op = TN_OP_ADD, .device_type = type, .name = type ".add.f32",            \
    .priority = 100, .flags = TN_KERNEL_DETERMINISTIC, .types = {TN_SET(TN_F32)},                  \
    .run = fixture_add                                                                             \
  }
#define FIXTURE_KERNEL(type) FIXTURE_KERNEL_OF(type, sizeof(tn_kernel))

/* The members of a tn_plugin; a fixture may name some again after it. */
#define FIXTURE_PLUGIN(plugin_name, backend_list, kernel_rows)                                     \
  .struct_size = sizeof(tn_plugin), .abi_min = TN_ABI_VERSION_MIN, .abi_max = TN_ABI_VERSION,      \
  .name = plugin_name, .version = "1.0", .description = "a fixture of the tests",                  \
  .backends = backend_list, .num_backends = sizeof(backend_list) / sizeof *(backend_list),         \
  .kernels = kernel_rows, .num_kernels = sizeof(kernel_rows) / sizeof *(kernel_rows)

/* A sound plugin with nothing special, for fixtures that go wrong elsewhere. */
#define FIXTURE_TABLES(plugin_name, type)                                                          \
  static const tn_backend backend = FIXTURE_BACKEND(type);                                         \
  static const tn_backend *const backends[] = {&backend};                                          \
  static const tn_kernel kernels[] = {FIXTURE_KERNEL(type)};                                       \
  static const tn_plugin plugin = {FIXTURE_PLUGIN(plugin_name, backends, kernels)}

/* A note that says something else than TN_PLUGIN_DEFINE would. */
#define FIXTURE_NOTE(plugin_name, min, max, flavours)                                              \
  __attribute__((section(TN_NOTE_SECTION), used,                                                   \
                 aligned(4))) static const tn_plugin_note_image note = {                           \
      sizeof TN_NOTE_OWNER,                                                                        \
      sizeof(tn_plugin_note),                                                                      \
      TN_NOTE_TYPE,                                                                                \
      TN_NOTE_OWNER,                                                                               \
      {min, max, flavours, 0, plugin_name}};                                                       \
  TN_PLUGIN_EXPORT const tn_plugin *tn_plugin_query(const tn_host *host)

#endif
