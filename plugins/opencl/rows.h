/*
 * The table of kernels, one file of rows per family; plugin.c and rows.h itself include them
 * with different meanings of
 *   ROW(NAME, name, row_flags, ...)
 * operator TN_OP_<NAME>, run by ocl_run_<name>, called "opencl.<name>"; the rest is further
 * fields of tn_kernel: .types, .workspace, .supports.
 *   NAMED(NAME, row_name, rank, run_fn, row_flags, ...)
 * says name, priority and run function itself, where an operator has several kernels.
 */
#ifndef OPENCL_ROWS_H
#define OPENCL_ROWS_H

#include "matmul.h"
#include "opencl.h"

/* Every kernel here gives the same bits every time. */
#define DENSE TN_KERNEL_DETERMINISTIC
#define STRIDED (TN_KERNEL_DETERMINISTIC | TN_KERNEL_STRIDED)

#define ROW(NAME, name, row_flags, ...) tn_status ocl_run_##name(const tn_kernel_args *args);
#define NAMED(NAME, row_name, rank, run_fn, row_flags, ...)                                        \
  tn_status run_fn(const tn_kernel_args *args);
#include "rows.def"
#undef ROW
#undef NAMED

/* What rows ask for as workspace. */
tn_status ocl_conv_forward_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_grad_input_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_transpose_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_clip_grad_norm_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_loss_workspace(const tn_kernel_args *args, size_t *bytes);

#endif
