/*
 * The table of kernels and the plugin's entry.
 */
#include "internal.h"
#include "rows.h"
#include "tenon/op_rows.h"

enum { OWN = 200 };

#define NAMED(op_name, run_fn, row_flags, ...)                                                     \
  {.struct_size = sizeof(tn_kernel),                                                               \
   .op = TN_OP_##op_name,                                                                          \
   .device_type = "opencl",                                                                        \
   .name = "opencl." #op_name,                                                                     \
   .priority = OWN,                                                                                \
   .flags = row_flags,                                                                             \
   .run = run_fn,                                                                                  \
   __VA_ARGS__},
#define ROW(op, row_flags, ...) NAMED(op, ocl_run_##op, row_flags, __VA_ARGS__)

static const tn_kernel kernels[] = {
#include "rows.def"
};

static const tn_backend *const backends[] = {&ocl_backend};

static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "opencl",
    .version = TN_VERSION_STRING,
    .description = "Any OpenCL 1.2 device, through the system's drivers",
    .backends = backends,
    .num_backends = 1,
    .kernels = kernels,
    .num_kernels = sizeof kernels / sizeof *kernels,
};

TN_PLUGIN_BRINGS("device:opencl kernels:opencl");

TN_PLUGIN_DEFINE("opencl") {
  (void)host;
  return &plugin;
}
