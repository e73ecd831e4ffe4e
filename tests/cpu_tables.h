/*
 * Shared by the tests of the CPU kernels: every table that this processor can run, and calls of its
 * rows as the dispatcher makes them, with a host that runs loops in shares out of order.
 */
#ifndef TENON_TESTS_CPU_TABLES_H
#define TENON_TESTS_CPU_TABLES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul/blas.h"
#include "tenon/plugin.h"
#include "tests/suite.h"

extern const tn_kernel cpu_kernels_baseline[];
extern const uint32_t cpu_kernels_count_baseline;
#if defined(__x86_64__)
extern const tn_kernel cpu_kernels_avx2[], cpu_kernels_avx512[];
extern const uint32_t cpu_kernels_count_avx2, cpu_kernels_count_avx512;
#endif

/* ------------------------------------------------------------- a small host --- */

static inline tn_status host_fail(tn_status code, const char *format, ...) {
  (void)format;
  return code;
}

static inline void host_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  (void)host, (void)level, (void)format;
}

static inline void *host_alloc(const tn_host *host, size_t bytes, size_t align) {
  void *ptr = NULL;
  (void)host;
  return posix_memalign(&ptr, align, bytes ? bytes : 1) == 0 ? ptr : NULL;
}

static inline void host_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

/* Shares of seven grains, the last one first. */
static inline tn_status host_parallel_for(const tn_host *host, int64_t n, int64_t grain,
                                          tn_range_fn fn, void *ctx) {
  const int64_t share = 7 * grain;
  tn_status status = TN_OK;
  (void)host;
  for (int64_t begin = (n - 1) / share * share; n > 0 && begin >= 0; begin -= share) {
    const int64_t end = begin + share < n ? begin + share : n;
    const tn_status s = fn(ctx, begin, end);
    if (status == TN_OK) status = s;
  }
  return status;
}

static const tn_host plain_host = {.struct_size = sizeof(tn_host),
                                   .num_threads = 3,
                                   .fail = host_fail,
                                   .log = host_log,
                                   .alloc = host_alloc,
                                   .free = host_free,
                                   .parallel_for = host_parallel_for};

/* ---------------------------------------------------------- tables and calls --- */

typedef struct table {
  const char *name;
  const tn_kernel *rows;
  uint32_t count;
} table;

static inline int tables(table *out) {
  int n = 0;
  out[n++] = (table){"baseline", cpu_kernels_baseline, cpu_kernels_count_baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out[n++] = (table){"avx2", cpu_kernels_avx2, cpu_kernels_count_avx2};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    out[n++] = (table){"avx512", cpu_kernels_avx512, cpu_kernels_count_avx512};
#endif
  return n;
}

static inline const tn_kernel *find(const table *t, uint32_t op, tn_dtype dtype) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->rows[i].op == op && (t->rows[i].types[0] == 0 || t->rows[i].types[0] & TN_SET(dtype)))
      return &t->rows[i];
  ck_abort_msg("%s has no row for operator %u", t->name, op);
  return NULL;
}

/* A tensor over the caller's memory; row-major unless strides are changed afterwards. */
typedef struct view {
  DLTensor t;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} view;

static inline void view_init(view *v, void *data, int rank, const int64_t *shape) {
  int64_t step = 1;
  memset(v, 0, sizeof *v);
  v->t.data = data;
  v->t.ndim = rank;
  v->t.dtype = (DLDataType){.code = kDLFloat, .bits = 32, .lanes = 1};
  for (int d = rank - 1; d >= 0; d--) {
    v->shape[d] = shape[d];
    v->strides[d] = step;
    step *= shape[d];
  }
  v->t.shape = v->shape;
  v->t.strides = v->strides;
}
#define SHAPE(...) ((int64_t[]){__VA_ARGS__})
#define RANK(...) ((int)(sizeof SHAPE(__VA_ARGS__) / sizeof(int64_t)))
#define VIEW(v, data, ...) view_init(v, data, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))

static inline tn_status run_on(const tn_host *host, const table *t, uint32_t op, const void *attrs,
                               int num_in, const DLTensor *const *in, DLTensor *out) {
  const tn_kernel *kernel = find(t, op, TN_F32);
  tn_kernel_args args = {.struct_size = sizeof args,
                         .num_in = (uint16_t)num_in,
                         .num_out = 1,
                         .in = in,
                         .out = &out,
                         .attrs = attrs,
                         .host = host,
                         .kernel = kernel};
  return kernel->run(&args);
}

static inline void run(const table *t, uint32_t op, const void *attrs, int num_in,
                       const DLTensor *const *in, DLTensor *out) {
  ck_assert_int_eq(run_on(&plain_host, t, op, attrs, num_in, in, out), TN_OK);
}

static inline float noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)*state * 0x1p-31f;
}

static inline float *noisy(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = noise(&seed);
  return x;
}

static inline void check_near(const float *got, const double *want, int64_t n, const char *what) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  ck_assert_msg(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-30, "%s: relative error %g", what,
                sqrt(error / norm));
}

/* Runs the suite, on one OpenBLAS for the process. */
static inline int run_tables_suite(const char *name, void (*add_tests)(TCase *)) {
  if (cpu_blas_open(&plain_host)) return EXIT_FAILURE;
  return run_suite_within(name, 120, add_tests);
}

#endif
