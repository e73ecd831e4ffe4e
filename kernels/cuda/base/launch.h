/*
 * Starting kernels: by the driver, which the runtime asks as well after it has looked up what the
 * driver calls the kernel. A device remembers that of every kernel that it has started.
 */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_launcher cuda_launcher;

/* What the backend's device handle begins with, as launches see it. */
typedef struct cuda_launching {
  cuda_info info;
  cuda_launcher *launcher; /* or NULL */
} cuda_launching;

/* Starts a kernel in the call's stream. The launch's own result is the check: it also reports
 * errors of earlier work. */
tn_status cuda_launch(const tn_kernel_args *args, const void *kernel, dim3 grid, dim3 block,
                      size_t shared_bytes, void **parameters);

/* How a kernel starts that asks for more. */
typedef struct cuda_start {
  dim3 grid, block;
  size_t shared_bytes;      /* of this launch; above 47 KB a kernel must be allowed them */
  size_t most_shared_bytes; /* of all launches of the kernel, which it is allowed at once */
  unsigned cluster;         /* blocks that share their memory, beside each other in x; 1: none do */
  int early;                /* 1: before the kernel ahead of it in its stream has ended */
} cuda_start;
tn_status cuda_launch_as(const tn_kernel_args *args, const void *kernel, const cuda_start *start,
                         void **parameters);

/* What a device remembers; NULL where there is no memory for it or the driver lacks what it takes.
 * The device is current. */
cuda_launcher *cuda_launcher_make(const tn_host *host);
void cuda_launcher_free(const tn_host *host, cuda_launcher *launcher);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_LAUNCH_H */
