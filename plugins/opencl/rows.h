/*
 * The table of kernels, one file of rows per family; plugin.c and rows.h itself include them
 * with different meanings of
 *   ROW(op, row_flags, ...)
 * the operator, run by ocl_run_<op>, called "opencl.<op>"; the rest is further fields of tn_kernel:
 * .types, .workspace, .supports.
 *   NAMED(op, run_fn, row_flags, ...)
 * names the run function, where several operators have one.
 */
#ifndef OPENCL_ROWS_H
#define OPENCL_ROWS_H

#include "matmul.h"
#include "opencl.h"

/* Every kernel here gives the same bits every time. */
#define DENSE TN_KERNEL_DETERMINISTIC
#define STRIDED (TN_KERNEL_DETERMINISTIC | TN_KERNEL_STRIDED)

#define ROW(op, row_flags, ...) tn_status ocl_run_##op(const tn_kernel_args *args);
#define NAMED(op, run_fn, row_flags, ...) tn_status run_fn(const tn_kernel_args *args);
#include "rows.def"
#undef ROW
#undef NAMED

/* Whether the device computes the activation. */
bool ocl_conv_supports(const tn_kernel_args *args);
/* What rows ask for as workspace. */
tn_status ocl_conv_forward_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_grad_input_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_conv_transpose_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_clip_grad_norm_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status ocl_loss_workspace(const tn_kernel_args *args, size_t *bytes);

#endif
