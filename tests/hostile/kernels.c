/* A sound plugin that brings kernels alone: what the mutations start from. All of its code
 * that a host runs while it loads it, the scan runs before. */
#include "tests/plugins/fixture.h"

#define KERNEL(type)                                                                               \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_ADD, .device_type = type,                        \
    .name = "kernels.add." type, .priority = 900, .flags = TN_KERNEL_DETERMINISTIC,                \
    .types = {TN_SET(TN_F32)}, .run = fixture_add                                                  \
  }
static const tn_kernel kernels[] = {KERNEL("fixture"), KERNEL("future")};
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
