/*
 * Shared by every file of the CPU kernels: names per instruction set and the loops that
 * families have in common. The folder is compiled once per instruction set with
 * TN_ISA = baseline, avx2 or avx512; everything that leaves a file carries that suffix,
 * everything else is static, so that no build can borrow another's code.
 */
#ifndef TENON_KERNELS_CPU_H
#define TENON_KERNELS_CPU_H

#include "tenon/op_rows.h"
#include "tenon/plugin.h"

#define CPU_CAT_(a, b) a##_##b
#define CPU_CAT(a, b) CPU_CAT_(a, b)
#define CPU_STRING_(a) #a
#define CPU_STRING(a) CPU_STRING_(a)
#define ISA(name) CPU_CAT(name, TN_ISA)

/* An output may be exactly an input, never overlap it otherwise: no iteration reads
 * what another writes, which the compiler cannot see. */
#if defined(__clang__)
#define CPU_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CPU_IVDEP _Pragma("GCC ivdep")
#else
#define CPU_IVDEP
#endif

/* A short loop, no iteration of which depends on another, that is to become vectors as it is,
 * before a compiler takes it apart. */
#if defined(__clang__)
#define CPU_SIMD _Pragma("clang loop vectorize(enable)")
#else
#define CPU_SIMD _Pragma("omp simd")
#endif

/* Elements per share of a parallel loop: some microseconds of work. */
#define CPU_GRAIN_CHEAP 16384
#define CPU_GRAIN_MATHS 8192
#define CPU_GRAIN_SLOW 1024

static inline int64_t cpu_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cpu_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cpu_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Whether `bytes` bytes at either pointer can be read and written as one integer. */
static inline bool cpu_is_word(int64_t bytes, const void *a, const void *b) {
  const bool word = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  return word && (((uintptr_t)a | (uintptr_t)b) & (uintptr_t)(bytes - 1)) == 0;
}

static inline int64_t cpu_count(const DLTensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->ndim; d++) n *= t->shape[d];
  return n;
}

/* Shape seen as [outer, size, inner] around one axis. */
typedef struct cpu_axis_view {
  int64_t outer, size, inner;
} cpu_axis_view;

static inline cpu_axis_view cpu_view_axis(const DLTensor *t, int64_t axis) {
  cpu_axis_view v = {1, 1, 1};
  if (t->ndim == 0) return v;
  if (axis < 0) axis += t->ndim;
  for (int d = 0; d < t->ndim; d++) {
    if (d < axis) v.outer *= t->shape[d];
    if (d > axis) v.inner *= t->shape[d];
  }
  v.size = t->shape[axis];
  return v;
}

/* An elementwise inner loop over n elements: operand i starts at p[i] and steps by
 * step[i] elements. Inputs stand first, outputs behind them. */
typedef void (*elementwise_fn)(int64_t n, void *const *p, const int64_t *step, const void *ctx);

#define ELEMENTWISE_MAX 6

/* Runs fn over all elements of the call's tensors, in any order, in shares of at least
 * grain elements. */
tn_status ISA(elementwise)(const tn_kernel_args *args, elementwise_fn fn, const void *ctx,
                           int64_t grain);

/* Copies by tiles where input and output are dense along different axes; false, with
 * nothing done, where they are not. */
bool ISA(transpose)(const tn_kernel_args *args, tn_status *status);

/* A number as an element of a type, converted as tn_cast does, in the first bytes of bits. */
void ISA(value_bits)(DLDataType type, double value, uint64_t *bits);

/* The table of this build. */
extern const tn_kernel ISA(cpu_kernels)[];
extern const uint32_t ISA(cpu_kernels_count);

#define KERNEL_DECLARE(op, d) tn_status ISA(op##_##d)(const tn_kernel_args *args);
#define ROW(op, flags, d, DTYPE) KERNEL_DECLARE(op, d)
#define ROW_HEEDS(op, flags, d, DTYPE) KERNEL_DECLARE(op, d)
#define ROW_ANY(op, flags) KERNEL_DECLARE(op, any)
#define ROW_ANY_HEEDS(op, flags) KERNEL_DECLARE(op, any)
#define ROW_LAST(op, flags, d, DTYPE) KERNEL_DECLARE(op##_last, d)
#define ROW_ANY_LAST(op, flags) KERNEL_DECLARE(op##_last, any)
#define ROW_MULTI(op) KERNEL_DECLARE(op, any)
#define ROW_BLAS(op, flags, d, DTYPE) KERNEL_DECLARE(op, d)
#include "kernels/cpu/rows.def"
#undef ROW
#undef ROW_HEEDS
#undef ROW_ANY
#undef ROW_ANY_HEEDS
#undef ROW_LAST
#undef ROW_ANY_LAST
#undef ROW_MULTI
#undef ROW_BLAS

/* Whether all tensors are images that lie dense with channels last, and one not row-major too; of
 * several results only the first is wanted. */
bool ISA(last_supports)(const tn_kernel_args *args);
bool ISA(matmul_supports)(const tn_kernel_args *args);
/* Whether the state of an optimiser over lists has a type that goes with its parameters'. */
bool ISA(multi_supports)(const tn_kernel_args *args);

#endif
