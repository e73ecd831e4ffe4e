/*
 * Convolutions of each channel by itself and their gradients, of images with channels last in 16 or
 * 32 bits: what the backend's rows need of conv_depthwise.cu and conv_depthwise_weight.cu. Run
 * functions take only what the predicates name.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_H
#define KERNELS_CUDA_WINDOW_DEPTHWISE_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

tn_status cuda_run_conv_depthwise_backward(const tn_kernel_args *args); /* y, w, bias: x */
tn_status cuda_run_conv_depthwise_weight(const tn_kernel_args *args);   /* y, x: w */
/* x, y: w */
tn_status cuda_run_conv_depthwise_transpose_weight(const tn_kernel_args *args);
bool cuda_conv_backward_is_depthwise(const tn_kernel_args *args);
/* Of these, whether the windows are common ones, for which ours are faster than cuDNN's. */
bool cuda_conv_is_walked(const tn_kernel_args *args);
bool cuda_conv_backward_is_walked(const tn_kernel_args *args);
bool cuda_conv_weight_is_walked(const tn_kernel_args *args);
bool cuda_conv_transpose_weight_is_walked(const tn_kernel_args *args);
bool cuda_conv_weight_is_depthwise(const tn_kernel_args *args);
bool cuda_conv_transpose_weight_is_depthwise(const tn_kernel_args *args);
tn_status cuda_conv_depthwise_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_conv_transpose_depthwise_workspace(const tn_kernel_args *args, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_H */
