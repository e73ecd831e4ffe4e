/*
 * What the CUDA kernels offer to the backend: one run function per operator and what
 * they need to know of their device. A run function fills a parameter struct and
 * launches; it allocates nothing, waits for nothing and keeps no state, so all of them
 * may run at once on different streams and be captured into graphs.
 */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include "tenon/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every device handle of the backend begins with this: it is what args->device is. */
typedef struct cuda_info {
  int ordinal;         /* as the CUDA runtime counts */
  int multiprocessors; /* of the device */
  int only;            /* 1: no other CUDA device is visible, so it is always current */
} cuda_info;

/* Makes the device current in the calling thread. */
tn_status cuda_make_current(const tn_host *host, const cuda_info *info);

/* Turns a CUDA runtime error into a status with a message "call: name (text)". A
 * sticky error, after which the context is useless, is TN_ERR_DEVICE_LOST. */
tn_status cuda_status(const tn_host *host, int error, const char *call);

/* The element type of a tensor. */
tn_dtype cuda_dtype(const DLTensor *tensor);

/* Names every operator that has a run function cuda_run_<name> here. */
#define CUDA_KERNELS(X)                                                                            \
  X(copy) X(cast) X(fill) X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(equal) X(not_equal)  \
  X(less) X(less_equal) X(greater) X(greater_equal) X(neg) X(exp) X(log) X(sqrt) X(relu)           \
  X(sigmoid) X(tanh) X(gelu) X(relu_grad) X(sigmoid_grad) X(tanh_grad) X(gelu_grad) X(sum)         \
  X(mean) X(max) X(argmax) X(max_pool2d) X(max_pool2d_grad) X(avg_pool2d) X(avg_pool2d_grad)       \
  X(softmax) X(log_softmax) X(softmax_grad) X(log_softmax_grad) X(nll_loss) X(nll_loss_grad)       \
  X(cross_entropy) X(cross_entropy_grad) X(dropout) X(dropout_grad) X(uniform) X(normal)           \
  X(sgd_step) X(adam_step)

#define CUDA_DECLARE(name) tn_status cuda_run_##name(const tn_kernel_args *args);
CUDA_KERNELS(CUDA_DECLARE)

/* Direct convolutions: any strides, empty tensors too. The predicates say where they are
 * likely to beat a matrix kernel. */
CUDA_DECLARE(conv2d)
CUDA_DECLARE(conv2d_grad_input)
CUDA_DECLARE(conv2d_grad_weight)
bool cuda_conv2d_is_thin(const tn_kernel_args *args);
bool cuda_conv2d_grad_weight_is_thin(const tn_kernel_args *args);

/* Scratch memory of the kernels that work in two stages. */
tn_status cuda_reduce_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_loss_workspace(const tn_kernel_args *args, size_t *bytes);

#undef CUDA_DECLARE

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_KERNELS_H */
