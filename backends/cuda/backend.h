/*
 * The CUDA backend's own handles. A device begins with what kernels need to know; a
 * queue owns one stream, the vendor libraries' handles bound to it and the plans made
 * for shapes seen on it. Its lock is held where those are used, so that a default
 * queue shared by threads stays whole.
 */
#ifndef BACKENDS_CUDA_BACKEND_H
#define BACKENDS_CUDA_BACKEND_H

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <pthread.h>

/* The vendor's header declares a function with empty parentheses. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cublasLt.h>
#pragma GCC diagnostic pop

#include "backends/cuda/plans.h"
#include "kernels/cuda/base/launch.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/recurrent/products.h"

typedef struct cuda_device {
  cuda_info info;          /* first: kernels see only this */
  cuda_launcher *launcher; /* next: and launches this */
  const tn_host *host;
  pthread_mutex_t lock; /* of everything below; taken after a queue's */
  cudnnHandle_t dnn;    /* builds attention's plans; NULL until first used */
  cuda_plans attentions;
  cuda_plans engines; /* of convolutions: graphs that were recorded may use their code */
  uint64_t peers;     /* a bit for each device whose memory was asked for, granted or not */
} cuda_device;

_Static_assert(offsetof(cuda_device, launcher) == offsetof(cuda_launching, launcher),
               "launches see a cuda_launching");

enum { cuda_stage_slots = 8, cuda_stage_bytes = 256 * 1024 };

/* Pinned memory through which small pageable copies go without waiting. A slot is free
 * once its event has passed. */
typedef struct cuda_staging {
  unsigned char *memory; /* NULL until first used */
  cudaEvent_t done[cuda_stage_slots];
  unsigned next;
} cuda_staging;

typedef struct cuda_queue {
  cuda_device *device;
  cudaStream_t stream;
  pthread_mutex_t lock;  /* of everything below */
  cublasLtHandle_t blas; /* NULL until first used */
  cudnnHandle_t dnn;     /* NULL until first used; bound to the stream once, for that is slow */
  cuda_plans products;
  cuda_plans convolutions;
  cuda_staging staging;
  cudaEvent_t reached; /* what other devices' queues wait for; NULL until first used */
  bool capturing;
  bool foreign; /* the stream is the program's */
} cuda_queue;

/* Leaves the function with a status where a runtime call fails. */
#define CUDA_TRY(host, call)                                                                       \
  do {                                                                                             \
    cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) return cuda_status(host, (int)error_, #call);                       \
  } while (0)

/* The vendor libraries' statuses, as Tenon's. */
tn_status cuda_blas_status(const tn_host *host, cublasStatus_t status, const char *call);
tn_status cuda_dnn_status(const tn_host *host, cudnnStatus_t status, const char *call);

/* Makes the queue's cuDNN handle where it has none. The queue's lock is held. */
tn_status cuda_open_dnn(cuda_queue *queue);

/* Copies in stream order (tn_backend.copy), and what it needs given back. */
tn_status cuda_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                    const void *src, uint64_t src_offset, size_t bytes);
void cuda_staging_free(cuda_staging *staging);
tn_status cuda_copy_between(void *device, void *queue, void *dst, uint64_t dst_offset,
                            void *from_device, void *from_queue, const void *src,
                            uint64_t src_offset, size_t bytes);

/* Matrix products by cuBLASLt. */
bool cuda_matmul_supports(const tn_kernel_args *args);
tn_status cuda_matmul_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_matmul(const tn_kernel_args *args);
void cuda_product_destroy(cuda_plan *plan);

/* What a row of a product of bytes has as its user pointer. */
typedef struct cuda_int8_row {
  int kind;           /* a cuda_int8_kind */
  int b;              /* which input b is */
  tn_kernel_fn tiles; /* for what cuBLASLt does not take */
} cuda_int8_row;

bool cuda_matmul_int8_supports(const tn_kernel_args *args);
tn_status cuda_matmul_int8_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_matmul_int8(const tn_kernel_args *args);

/* Products of 8-bit floats. */
tn_status cuda_matmul_f8_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_matmul_f8(const tn_kernel_args *args);

/* What a row of a recurrent network by cuBLASLt has as its user pointer. */
typedef struct cuda_recurrent_row {
  cuda_recurrent_list_fn list;
  cuda_recurrent_run_fn run;
  tn_kernel_fn own; /* for what cuBLASLt does not take */
} cuda_recurrent_row;

tn_status cuda_recurrent_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_recurrent_planned(const tn_kernel_args *args);

/* What a convolution's inputs and output are, by the forward names x, w and y of the
 * convolution that it is or whose gradient it is. */
typedef enum cuda_conv_role {
  CUDA_CONV_FORWARD,          /* x, w, bias: y */
  CUDA_CONV_BACKWARD,         /* y, w, bias: x */
  CUDA_CONV_WEIGHT,           /* y, x: w */
  CUDA_CONV_TRANSPOSE_WEIGHT, /* x, y: w */
} cuda_conv_role;

/* What a row of a convolution by cuDNN has as its user pointer. */
typedef struct cuda_conv_row {
  cuda_conv_role role;
  bool channels_last;
  tn_kernel_fn direct; /* for what cuDNN does not take */
} cuda_conv_row;

bool cuda_conv_is_channels_last(const tn_kernel_args *args);
bool cuda_conv_add_is_channels_last(const tn_kernel_args *args);
/* cuda_conv_is_thin, of a convolution or a transposed one's gradient over two axes. */
bool cuda_conv_is_thin_image(const tn_kernel_args *args);
/* Those of kernels/cuda/window/depthwise.h, but for what cuDNN has better engines for. */
bool cuda_conv_is_own_depthwise(const tn_kernel_args *args);
bool cuda_conv_backward_is_own_depthwise(const tn_kernel_args *args);
bool cuda_conv_weight_is_own_depthwise(const tn_kernel_args *args);
bool cuda_conv_transpose_weight_is_own_depthwise(const tn_kernel_args *args);
/* Whether what cuDNN rounds to 16 bits is not computed with further; or its sums stay in float32.
 */
bool cuda_conv_rounds_once(const tn_kernel_args *args);
bool cuda_conv_is_planned(const tn_kernel_args *args);
bool cuda_conv_add_is_planned(const tn_kernel_args *args); /* of conv2d_add */
tn_status cuda_conv_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_conv(const tn_kernel_args *args);
tn_status cuda_run_conv_add(const tn_kernel_args *args); /* x, w, bias, addend: y, without cuDNN */
void cuda_convolution_destroy(cuda_plan *plan);
void cuda_engine_destroy(cuda_plan *plan);

/* Attention and its gradient by cuDNN. */
bool cuda_attention_fused(const tn_kernel_args *args);
tn_status cuda_attention_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status cuda_run_attention(const tn_kernel_args *args);
void cuda_attention_destroy(cuda_plan *plan);

extern const tn_backend cuda_backend;

#endif /* BACKENDS_CUDA_BACKEND_H */
