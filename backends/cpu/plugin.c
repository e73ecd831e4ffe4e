/*
 * The CPU plugin: looks at the processor and returns the table whose kernels were built
 * for the widest instruction set it has, or that TENON_CPU_ISA allows.
 */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "kernels/cpu/matmul/tile_amx.h"
#include "tenon/op_rows.h"

static const tn_backend *const backends[] = {&cpu_backend};

/* Tables of kernels/cpu, one per instruction set that meson's option cpu_isa names. */
extern const tn_kernel cpu_kernels_baseline[], cpu_kernels_avx2[], cpu_kernels_avx512[];

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
#define ROW_HEEDS(...) +1
#define ROW_ANY(...) +1
#define ROW_ANY_HEEDS(...) +1
#define ROW_LAST(...) +1
#define ROW_ANY_LAST(...) +1
#define ROW_MULTI(...) +1
#define ROW_BLAS(...) +1
enum {
  CPU_KERNELS = 0
#include "kernels/cpu/rows.def"
};
#undef ROW
#undef ROW_HEEDS
#undef ROW_ANY
#undef ROW_ANY_HEEDS
#undef ROW_LAST
#undef ROW_ANY_LAST
#undef ROW_MULTI
#undef ROW_BLAS

/* Instruction sets from the narrowest on. AMX has no table: the products of AVX-512's take it. */
enum { BASELINE, AVX2, AVX512, AMX, ISAS };
#ifdef CPU_WITH_BASELINE
PLUGIN(baseline)
#endif
#ifdef CPU_WITH_AVX2
PLUGIN(avx2)
#endif
#ifdef CPU_WITH_AVX512
PLUGIN(avx512)
#endif
static const tn_plugin *const builds[ISAS] = {
#ifdef CPU_WITH_BASELINE
    [BASELINE] = &plugin_baseline,
#endif
#ifdef CPU_WITH_AVX2
    [AVX2] = &plugin_avx2,
#endif
#ifdef CPU_WITH_AVX512
    [AVX512] = &plugin_avx512,
#endif
};

static const char *const isa_names[ISAS] = {"baseline", "avx2", "avx512", "amx"};

static int widest_here(void) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return AVX512;
  if (avx2) return AVX2;
#endif
  return BASELINE;
}

/* What TENON_CPU_ISA asks for at most. A word that names nothing is no reason to compute on the
 * reference device: it is said, and the widest is taken as without it. */
static int widest_wanted(const tn_host *host) {
  const char *word = secure_getenv("TENON_CPU_ISA");
  for (int i = 0; word && i < ISAS; i++)
    if (strcmp(word, isa_names[i]) == 0) return i;
  if (word && *word)
    host->log(host, TN_LOG_WARN,
              "TENON_CPU_ISA=%s is not known and does nothing: it takes baseline, avx2, "
              "avx512 or amx",
              word);
  return ISAS - 1;
}

TN_PLUGIN_BRINGS("host-device:cpu kernels:cpu");

TN_PLUGIN_DEFINE("cpu") {
  const int here = widest_here(), wanted = widest_wanted(host);
#ifdef CPU_WITH_AVX512
  if (wanted == AMX) tile_amx_allow();
#endif
  for (int i = wanted < here ? wanted : here; i >= 0; i--)
    if (builds[i]) return builds[i];
  host->fail(TN_ERR_UNSUPPORTED, "no kernels for this processor's instruction set (%s) were built",
             isa_names[here]);
  return NULL;
}
