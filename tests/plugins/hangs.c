/* A driver as most are: once it was asked for devices it answers in that process alone, and
 * hangs in its forked children. */
#include <unistd.h>

#include "fixture.h"

static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  static pid_t process;
  if (!process) process = getpid();
  while (process != getpid()) pause();
  return fixture_count(host, context, devices);
}

static const tn_backend backend = {.struct_size = sizeof(tn_backend),
                                   .flags = TN_BACKEND_SYNCHRONOUS,
                                   .device_type = "hangs",
                                   .count = count,
                                   .describe = fixture_describe,
                                   .open = fixture_open,
                                   .close = fixture_close,
                                   .alloc = fixture_alloc,
                                   .free = fixture_free,
                                   .copy = fixture_copy};
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {FIXTURE_KERNEL("hangs")};
static const tn_plugin plugin = {FIXTURE_PLUGIN("hangs", backends, kernels)};

TN_PLUGIN_BRINGS("device:hangs kernels:hangs");

TN_PLUGIN_DEFINE("hangs") {
  (void)host;
  return &plugin;
}
