/* A kernel struct shorter than version 1's: from before the first version. */
#include "fixture.h"

static const tn_backend backend = FIXTURE_BACKEND("past");
static const tn_backend *const backends[] = {&backend};
static const struct {
  uint32_t struct_size, op;
  const char *op_name, *device_type, *name;
} kernels[] = {{sizeof kernels[0], TN_OP_ADD, NULL, "past", "past.add"}};

static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "past",
                                 .version = "0.1",
                                 .description = "a fixture from the past",
                                 .backends = backends,
                                 .num_backends = 1,
                                 .kernels = (const tn_kernel *)kernels,
                                 .num_kernels = 1};

TN_PLUGIN_DEFINE("past");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
