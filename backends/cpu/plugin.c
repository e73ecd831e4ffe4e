/*
 * The CPU plugin: looks at the processor and returns the table whose kernels were built
 * for the widest instruction set it has.
 */
#include "backend.h"

static const tn_backend *const backends[] = {&cpu_backend};

/* Tables of kernels/cpu, one per instruction set. */
extern const tn_kernel cpu_kernels_baseline[];
extern const uint32_t cpu_kernels_count_baseline;
#if defined(__x86_64__)
extern const tn_kernel cpu_kernels_avx2[];
extern const tn_kernel cpu_kernels_avx512[];
#endif

/* All builds have the same rows, which the test of the kernels checks. */
#define PLUGIN(isa)                                                                                \
  static const tn_plugin plugin_##isa = {                                                          \
      .struct_size = sizeof(tn_plugin),                                                            \
      .abi_min = TN_ABI_VERSION_MIN,                                                               \
      .abi_max = TN_ABI_VERSION,                                                                   \
      .name = "cpu",                                                                               \
      .version = TN_VERSION_STRING,                                                                \
      .description = "The host's processor: OpenBLAS products and our own kernels (" #isa ")",     \
      .backends = backends,                                                                        \
      .num_backends = 1,                                                                           \
      .kernels = cpu_kernels_##isa,                                                                \
      .num_kernels = CPU_KERNELS,                                                                  \
  };

/* A constant, because a table's count must be one: rows.def is counted once more. */
#define ROW(...) +1
#define ROW_ANY(...) +1
#define ROW_BLAS(...) +1
enum {
  CPU_KERNELS = 0
#include "kernels/cpu/rows.def"
};
#undef ROW
#undef ROW_ANY
#undef ROW_BLAS

PLUGIN(baseline)
#if defined(__x86_64__)
PLUGIN(avx2)
PLUGIN(avx512)
#endif

TN_PLUGIN_DEFINE("cpu") {
  (void)host;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return &plugin_avx512;
  if (avx2) return &plugin_avx2;
#endif
  return &plugin_baseline;
}
