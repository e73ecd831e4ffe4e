/*
 * The BLAS of the process: OpenBLAS, loaded when the CPU is first opened, so that it can be
 * kept from what it does otherwise. Left to itself it starts a thread per processor as it is
 * loaded, ends the process by SIGINT where it may not, and loops for ever where a call gets no
 * memory to work in. The state is the process's, since the library's is: whatever number of
 * runtimes call it, they share its buffers.
 *
 * Invariant: no more calls are inside than the library surely has buffers for.
 */
#ifndef TENON_KERNELS_CPU_BLAS_H
#define TENON_KERNELS_CPU_BLAS_H

#include <cblas.h>
#include <stdatomic.h>

#include "tenon/plugin.h"

typedef struct cpu_blas_library {
  __typeof__(cblas_sgemm) *sgemm;
  __typeof__(cblas_dgemm) *dgemm;
  __typeof__(cblas_sgemv) *sgemv;
  __typeof__(cblas_dgemv) *dgemv;
  bool thin_allocates; /* see gemm.h */
  char core[32];       /* whose kernels it computes with, in its words */
  char took[32];       /* for which it would have taken the processor; empty if for `core` */
  const char *better;  /* the core whose kernels would use more of the processor, or NULL */
  const char *failed;  /* the core for which it could not be loaded again, or NULL */
  _Alignas(64) _Atomic(int32_t) permits;
} cpu_blas_library;

extern cpu_blas_library cpu_blas;

/* Loads the library, or sees that it is there and works. Errors: TN_ERR_OUT_OF_MEMORY without
 * room for the library and a buffer, TN_ERR_BACKEND with the loader's words. Thread-safe. */
tn_status cpu_blas_open(const tn_host *host);

/* What is known of it, as words of a device's features: its core, and those that it took the
 * processor for, that would be better, and that it could not be loaded for. Empty before it is
 * loaded. Thread-safe. */
void cpu_blas_describe(char *words, size_t size);

/* Takes a permit when none is free: has the library take another buffer, or waits. */
void cpu_blas_wait(void);

/* Every call of the library stands between these two. */
static inline void cpu_blas_enter(void) {
  int32_t free = atomic_load_explicit(&cpu_blas.permits, memory_order_relaxed);
  while (free > 0)
    if (atomic_compare_exchange_weak_explicit(&cpu_blas.permits, &free, free - 1,
                                              memory_order_acquire, memory_order_relaxed))
      return;
  cpu_blas_wait();
}

static inline void cpu_blas_leave(void) {
  atomic_fetch_add_explicit(&cpu_blas.permits, 1, memory_order_release);
}

#endif
