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

/* One per operator. */
#define CUDA_DECLARE(name) tn_status cuda_run_##name(const tn_kernel_args *args)
CUDA_DECLARE(copy);
CUDA_DECLARE(cast);
CUDA_DECLARE(fill);
CUDA_DECLARE(add);
CUDA_DECLARE(sub);
CUDA_DECLARE(mul);
CUDA_DECLARE(div);
CUDA_DECLARE(maximum);
CUDA_DECLARE(minimum);
CUDA_DECLARE(equal);
CUDA_DECLARE(not_equal);
CUDA_DECLARE(less);
CUDA_DECLARE(less_equal);
CUDA_DECLARE(greater);
CUDA_DECLARE(greater_equal);
CUDA_DECLARE(neg);
CUDA_DECLARE(exp);
CUDA_DECLARE(log);
CUDA_DECLARE(sqrt);
CUDA_DECLARE(relu);
CUDA_DECLARE(sigmoid);
CUDA_DECLARE(tanh);
CUDA_DECLARE(gelu);
CUDA_DECLARE(relu_grad);
CUDA_DECLARE(sigmoid_grad);
CUDA_DECLARE(tanh_grad);
CUDA_DECLARE(gelu_grad);
CUDA_DECLARE(sum);
CUDA_DECLARE(mean);
CUDA_DECLARE(max);
CUDA_DECLARE(argmax);
CUDA_DECLARE(max_pool2d);
CUDA_DECLARE(max_pool2d_grad);
CUDA_DECLARE(avg_pool2d);
CUDA_DECLARE(avg_pool2d_grad);
CUDA_DECLARE(softmax);
CUDA_DECLARE(log_softmax);
CUDA_DECLARE(softmax_grad);
CUDA_DECLARE(log_softmax_grad);
CUDA_DECLARE(nll_loss);
CUDA_DECLARE(nll_loss_grad);
CUDA_DECLARE(cross_entropy);
CUDA_DECLARE(cross_entropy_grad);
CUDA_DECLARE(dropout);
CUDA_DECLARE(dropout_grad);
CUDA_DECLARE(uniform);
CUDA_DECLARE(normal);
CUDA_DECLARE(sgd_step);
CUDA_DECLARE(adam_step);

/* Direct convolutions: any strides, empty tensors too. The predicates say where they are
 * likely to beat a matrix kernel. */
CUDA_DECLARE(conv2d);
CUDA_DECLARE(conv2d_grad_input);
CUDA_DECLARE(conv2d_grad_weight);
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
