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
  int early;           /* 1: kernels can start before those that they wait for have ended */
} cuda_info;

/* Makes the device current in the calling thread. */
tn_status cuda_make_current(const tn_host *host, const cuda_info *info);

/* Turns a CUDA runtime error into a status with a message "call: name (text)". A
 * sticky error, after which the context is useless, is TN_ERR_DEVICE_LOST. */
tn_status cuda_status(const tn_host *host, int error, const char *call);

/* The element type of a tensor. */
tn_dtype cuda_dtype(const DLTensor *tensor);

/* A number as bits of an element type, converted as tn_cast does. */
uint64_t cuda_value_bits(tn_dtype dtype, double value);

/* Copies tensors that do not lie alike where tiles or wide accesses help; false, with
 * nothing done, where they do not. */
bool cuda_copy_apart(const tn_kernel_args *args, tn_status *status);

/* Fills memory, a multiple of 4 bytes, with numbers of a dtype to measure with, in the order of a
 * stream. A cudaError_t. */
int cuda_fill_noise(void *stream, void *memory, size_t bytes, tn_dtype dtype);
/* Keeps a stream busy for so long; a cudaError_t. */
int cuda_pass_time(void *stream, uint64_t ns);

/* One per operator. */
#define CUDA_DECLARE(name) tn_status cuda_run_##name(const tn_kernel_args *args)
#define STRIDED(op) CUDA_DECLARE(op);
#define DENSE(op) CUDA_DECLARE(op);
#define STRIDED_WITH(op, ...) CUDA_DECLARE(op);
#define DENSE_WITH(op, ...) CUDA_DECLARE(op);
#include "kernels/cuda/rows.def"

/* Direct convolutions: any strides, empty tensors too. The predicates say where they are
 * likely to beat a matrix kernel. */
CUDA_DECLARE(conv_forward);          /* x, w, bias: y */
CUDA_DECLARE(conv_forward_once);     /* x, w, bias, addend: y, all in one sum, one thread each */
CUDA_DECLARE(conv_backward);         /* y, w, bias: x */
CUDA_DECLARE(conv_weight);           /* y, x: w */
CUDA_DECLARE(conv_transpose_weight); /* x, y: w */
/* A convolution's result [outer, channels, inner] of 32 or 16 bits, at most 2^31 - 1 elements; what
 * it is made of, which lies as it does and begins at a multiple of 32 bytes, or NULL: y itself; and
 * the bias [channels] and an addend that lies as the result does, or NULL. */
typedef struct cuda_conv_result {
  void *stream, *y;
  const float *sums;
  const void *bias, *addend;
  int64_t outer, channels, inner;
  tn_dtype dtype;
  int activation; /* a tn_activation */
} cuda_conv_result;
/* y = activation(sums + bias + addend). A cudaError_t. */
int cuda_conv_finish(const cuda_conv_result *r);
/* The same of the result of a call, without a bias, of any strides and type. */
tn_status cuda_conv_activate(const tn_kernel_args *args, int64_t activation);
/* Each channel by itself, of 16-bit images with channels last: that alone. */
CUDA_DECLARE(conv_depthwise);
bool cuda_conv_is_depthwise(const tn_kernel_args *args);
bool cuda_conv_is_thin(const tn_kernel_args *args);
bool cuda_conv_backward_is_planes(const tn_kernel_args *args);
bool cuda_conv_weight_is_thin(const tn_kernel_args *args);
/* Of the four roles: so small that one launch of ours takes less than a library's call. */
bool cuda_conv_forward_is_small(const tn_kernel_args *args);
bool cuda_conv_backward_is_small(const tn_kernel_args *args);
bool cuda_conv_weight_is_small(const tn_kernel_args *args);
bool cuda_conv_transpose_weight_is_small(const tn_kernel_args *args);
tn_status cuda_conv_weight_workspace(const tn_kernel_args *args, size_t *bytes);

/* Scattering of floats whose sums come in whatever order threads do. */
CUDA_DECLARE(scatter_add_atomic);
CUDA_DECLARE(scatter_mul_atomic);
CUDA_DECLARE(scatter_nd_add_atomic);
CUDA_DECLARE(scatter_nd_mul_atomic);
bool cuda_scatter_atomic_supports(const tn_kernel_args *args);
bool cuda_scatter_nd_atomic_supports(const tn_kernel_args *args);
tn_status cuda_scatter_atomic_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_nd_atomic_workspace(const tn_kernel_args *args, size_t *bytes);

/* Attention of few queries to many keys, which blocks share. Strided where rows begin at multiples
 * of 16 bytes; deterministic. */
CUDA_DECLARE(attention_split);
bool cuda_attention_split_supports(const tn_kernel_args *args);
tn_status cuda_attention_split_workspace(const tn_kernel_args *args, size_t *bytes);

/* The gradient of a table's rows by few numbers. */
CUDA_DECLARE(embedding_grad_few);
bool cuda_embedding_grad_few_supports(const tn_kernel_args *args);

/* What rows take: scattering, lists of parameters of one type, sizes that 32 bits index,
 * attention over vectors that fit the kernels' tiles. */
bool cuda_scatter_supports(const tn_kernel_args *args);
bool cuda_suppress_supports(const tn_kernel_args *args);
bool cuda_multi_supports(const tn_kernel_args *args);
bool cuda_sort_supports(const tn_kernel_args *args);
bool cuda_conv_integer_supports(const tn_kernel_args *args);
bool cuda_dot_supports(const tn_kernel_args *args);
bool cuda_embedding_grad_supports(const tn_kernel_args *args);
bool cuda_attention_supports(const tn_kernel_args *args);
bool cuda_attention_grad_supports(const tn_kernel_args *args);
bool cuda_recurrent_supports(const tn_kernel_args *args);
bool cuda_recurrent_grad_supports(const tn_kernel_args *args);

/* What rows ask for as workspace. */
/* Matrix products of a few thousand terms. */
bool cuda_matmul_small_supports(const tn_kernel_args *args);
tn_status cuda_run_matmul_small(const tn_kernel_args *args);
/* Those that are over sooner than a library's call. */
bool cuda_matmul_short_supports(const tn_kernel_args *args);
tn_status cuda_run_matmul_short(const tn_kernel_args *args);
/* Those of few results and many terms, whose sums are found in parts. */
bool cuda_matmul_parts_supports(const tn_kernel_args *args);
tn_status cuda_matmul_parts_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_matmul_parts(const tn_kernel_args *args);
/* Of rows that would look results up: room for a table where a call is large enough. */
tn_status cuda_table_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_nonzero_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_fixed_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_suppress_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_reduce_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scan_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_loss_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_loss_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_pair_loss_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_batch_norm_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_batch_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_layer_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_group_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_instance_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_rms_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_dynamic_quantize_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_multinomial_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_randperm_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_clip_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_embedding_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_attention_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_add_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_index_add_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_sort_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_unique_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_gather_nd_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_nd_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_nd_add_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_scatter_nd_max_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_masked_select_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_lstm_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_lstm_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_gru_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_gru_grad_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_rnn_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_rnn_grad_workspace(const tn_kernel_args *args, size_t *bytes);

#undef CUDA_DECLARE

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_KERNELS_H */
