/* One of its kernels has no function. */
#include "fixture.h"

static const tn_backend backend = FIXTURE_BACKEND("null_run");
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {
    FIXTURE_KERNEL("null_run"),
    {.struct_size = sizeof(tn_kernel), .op = TN_OP_SUB, .device_type = "null_run", .name = "n.sub"},
};
static const tn_plugin plugin = {FIXTURE_PLUGIN("null-run", backends, kernels)};

TN_PLUGIN_DEFINE("null-run");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
