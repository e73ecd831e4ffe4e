/* Knowing OpenBLAS's names of processors, and having it take another: see blas_core.h. */
#include "kernels/cpu/matmul/blas_core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CORE_VARIABLE "OPENBLAS_CORETYPE"

/* Of driver/others/dynamic.c, releases 0.3.10 to 0.3.30. */
static const char *const for_sse[] = {
    "Katmai",     "Coppermine",  "Northwood",    "Prescott",    "Banias", "Core2",
    "Penryn",     "Dunnington",  "Nehalem",      "Sandybridge", "Atom",   "Nano",
    "Athlon",     "Opteron",     "Opteron_SSE3", "Barcelona",   "Bobcat", "Bulldozer",
    "Piledriver", "Steamroller", "Excavator",    NULL};
static const char *const for_avx2[] = {"Haswell", "Zen", NULL};

static bool is_listed(const char *const *list, const char *core) {
  while (*list && strcasecmp(*list, core)) list++;
  return *list != NULL;
}

blas_vectors blas_core_processor(void) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return BLAS_AVX512;
  if (avx2) return BLAS_AVX2;
#endif
  return BLAS_SSE;
}

const char *blas_core_better(const char *core, blas_vectors has) {
  const bool sse = is_listed(for_sse, core), avx2 = is_listed(for_avx2, core);
  if (has == BLAS_AVX512 && (sse || avx2)) return "SkylakeX";
  return has == BLAS_AVX2 && sse ? "Haswell" : NULL;
}

bool blas_core_is_alone(void) {
  char line[256];
  long threads = 0;
  FILE *status = fopen("/proc/self/status", "re"); /* proc_pid_status(5) */
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "Threads: %ld", &threads) == 1) break;
  if (status) fclose(status);
  return threads == 1;
}

/* The environment with one variable more; NULL without memory. Never freed: threads that the
 * library starts may keep a place in it. */
static char **with_core(char **from, const char *core) {
  static char variable[64];
  size_t count = 0;
  while (from && from[count]) count++;
  char **to = malloc((count + 2) * sizeof *to);
  if (!to) return NULL;
  snprintf(variable, sizeof variable, CORE_VARIABLE "=%s", core);
  to[0] = variable;
  if (count) memcpy(to + 1, from, count * sizeof *to);
  to[count + 1] = NULL;
  return to;
}

/* The program's array of variables is put back as it was, for those who hold a pointer to it; but
 * one that constructors made by a variable of theirs stays, less ours. */
void *blas_core_load(const char *soname, int flags, const char *core) {
  static char **copy; /* where leak checkers see it */
  char **before = environ;
  if (!core) return dlopen(soname, flags);
  copy = with_core(before, core);
  if (copy) environ = copy;
  void *library = dlopen(soname, flags);
  if (copy && environ == copy)
    environ = before;
  else if (copy)
    (void)unsetenv(CORE_VARIABLE);
  return library;
}
