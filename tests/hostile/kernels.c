/* A sound plugin that brings kernels alone: what the mutations start from. All of its code
 * that a host runs while it loads it, the scan runs before. */
#include "tests/plugins/fixture.h"

static const tn_kernel kernels[] = {FIXTURE_KERNEL("kernels"), FIXTURE_KERNEL("elsewhere")};
static const tn_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_min = TN_ABI_VERSION_MIN,
                                 .abi_max = TN_ABI_VERSION,
                                 .name = "kernels",
                                 .version = "1.0",
                                 .description = "a fixture of the tests",
                                 .kernels = kernels,
                                 .num_kernels = 2};

TN_PLUGIN_DEFINE("kernels") {
  (void)host;
  return &plugin;
}
