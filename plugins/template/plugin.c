/*
 * The plugin's face: the tables of what it brings, and the one symbol that it exports. The query
 * runs before anybody has decided to use the plugin: it starts no driver, makes no thread, opens
 * no file. Where the plugin cannot work at all (the wrong processor), it says why with
 * host->fail and returns NULL.
 */
#include "kernels.h"

/* -------------------------------------------------------------------- rows --- */

#define REALS (TN_SET(TN_BF16) | TN_SET(TN_F32) | TN_SET(TN_F64))
#define NUMBERS (REALS | TN_SET(TN_I32) | TN_SET(TN_I64))
#define BYTES (TN_SET_BITS | TN_SET(TN_F32) | TN_SET(TN_F64))

/* All of these take any strides; a row without TN_KERNEL_STRIDED gets row-major copies. */
#define ROW(NAME, set, function, ...)                                                              \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##NAME, .device_type = SIM_DEVICE_TYPE,          \
    .priority = 200, .flags = TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC, .types = {set},         \
    .run = function, __VA_ARGS__                                                                   \
  }
#define PROGRAM(name)                                                                              \
  .user = &(const sim_row) { sim_program_##name }

static const tn_kernel kernels[] = {
    /* The dispatcher itself copies with this one: a device wants it first, for all types. */
    ROW(COPY, TN_SET_ALL, sim_run_map, PROGRAM(copy), .name = "sim.copy"),
    ROW(FILL, BYTES, sim_run_fill, PROGRAM(fill), .name = "sim.fill"),
    ROW(ADD, NUMBERS, sim_run_map, PROGRAM(add), .name = "sim.add"),
    ROW(SUB, NUMBERS, sim_run_map, PROGRAM(sub), .name = "sim.sub"),
    ROW(MUL, NUMBERS, sim_run_map, PROGRAM(mul), .name = "sim.mul"),
    ROW(RELU, NUMBERS, sim_run_map, PROGRAM(relu), .name = "sim.relu"),
    ROW(EXP, REALS, sim_run_map, PROGRAM(exp), .name = "sim.exp"),
    ROW(SUM, NUMBERS, sim_run_sum, PROGRAM(sum), .name = "sim.sum"),
    ROW(SOFTMAX, REALS, sim_run_softmax, PROGRAM(softmax), .name = "sim.softmax",
        .workspace = sim_softmax_workspace),
    ROW(MATMUL, REALS, sim_run_matmul, PROGRAM(matmul), .name = "sim.matmul",
        .supports = sim_matmul_supports, .note = "activations: none and relu"),
};

/* ------------------------------------------------------------------ plugin --- */

static const tn_backend *const backends[] = {&sim_backend};

TN_PLUGIN_BRINGS("device:" SIM_DEVICE_TYPE " kernels:" SIM_DEVICE_TYPE);

TN_PLUGIN_DEFINE("template") {
  static const tn_plugin plugin = {
      .struct_size = sizeof(tn_plugin),
      .abi_min = TN_ABI_VERSION_MIN,
      .abi_max = TN_ABI_VERSION,
      .name = "template",
      .version = "0.1.0",
      .description = "a simulated chip, to be replaced by a real one",
      .backends = backends,
      .num_backends = 1,
      .kernels = kernels,
      .num_kernels = sizeof kernels / sizeof *kernels,
      /* State that devices share (a driver's context) would be made by .open, once for each
       * runtime, and come back as `context`. */
  };
  (void)host;
  return &plugin;
}
