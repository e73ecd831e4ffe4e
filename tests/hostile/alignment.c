/*
 * Devices that want their memory aligned in ways that are none, beside some that are well. Which
 * is which, the test knows by their numbers.
 */
#include "tests/plugins/fixture.h"

static const uint64_t alignments[] = {0, 1, 4096, 96, 3, UINT64_C(1) << 40, UINT64_MAX};

static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  (void)host, (void)context;
  *devices = sizeof alignments / sizeof *alignments;
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  tn_status status = fixture_describe(host, context, index, out);
  out->alignment_bytes = alignments[index];
  return status;
}

static tn_status alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  const tn_host *host = device;
  (void)kind;
  *ptr = host->alloc(host, bytes, 4096);
  return *ptr ? TN_OK : host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no memory");
}

static const tn_backend backend = {.struct_size = sizeof backend,
                                   .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS,
                                   .device_type = "aligned",
                                   .count = count,
                                   .describe = describe,
                                   .open = fixture_open,
                                   .close = fixture_close,
                                   .alloc = alloc,
                                   .free = fixture_free,
                                   .copy = fixture_copy};
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {FIXTURE_KERNEL("aligned")};
static const tn_plugin plugin = {FIXTURE_PLUGIN("alignment", backends, kernels)};

TN_PLUGIN_DEFINE("alignment") {
  (void)host;
  return &plugin;
}
