/* What plugin.c puts into its table. */
#ifndef TENON_ONEDNN_H
#define TENON_ONEDNN_H

#include "compat.h"
#include "tenon/plugin.h"

/* A row's part in a convolution: row.user. In a transposed convolution x is what a
 * convolution gives and y what it reads, so its rows are the other roles. */
typedef struct conv_row {
  conv_role role;
  bool transposed;
} conv_row;

bool conv_supports(const tn_kernel_args *args);
tn_status conv_run(const tn_kernel_args *args);

bool avg_pool_supports(const tn_kernel_args *args);
tn_status avg_pool_run(const tn_kernel_args *args);

bool matmul_supports(const tn_kernel_args *args);
tn_status matmul_run(const tn_kernel_args *args);
bool matmul_integer_supports(const tn_kernel_args *args);
tn_status matmul_integer_run(const tn_kernel_args *args);

/* What oneDNN lets itself use: what the processor has, less what ONEDNN_MAX_CPU_ISA forbids. */
bool onednn_has_avx512(void);
bool onednn_has_vnni(void);
bool onednn_has_amx(void);
/* Whether products of bf16 are twice as fast as of f32 without AMX: AMD's processors compute as
 * many pairs at a time as floats, Intel's half of that. */
bool onednn_doubles_bf16(void);

static inline dnnl_data_type_t data_type_of(DLDataType type) {
  if (type.code == kDLFloat) return dnnl_f32;
  if (type.code == kDLBfloat) return dnnl_bf16;
  return type.code == kDLInt ? dnnl_s8 : dnnl_u8;
}

static inline int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* The largest divisor of n that is at most `most`, at least 1. */
static inline int64_t divisor(int64_t n, int64_t most) {
  int64_t d = max_of(1, min_of(n, most));
  while (n % d) d--;
  return d;
}

#endif
