/* Copies to shared memory in the background, in groups that a thread waits for in their order. */
#ifndef KERNELS_CUDA_BACKGROUND_CUH
#define KERNELS_CUDA_BACKGROUND_CUH

#include "kernels/cuda/base/common.cuh"

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* Writes 16 bytes: `bytes` of them, 0 to 16, are copied, and zeros behind them. */
__device__ __forceinline__ void copy_16_of(void *to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
/* Copies 16 bytes; zeros if not `valid`. */
__device__ __forceinline__ void copy_16(void *to, const void *from, bool valid) {
  copy_16_of(to, from, valid ? 16 : 0);
}
/* Copies 4 or 8 bytes. */
template <int BYTES> __device__ __forceinline__ void copy_few(void *to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from),
               "n"(BYTES)
               : "memory");
}
/* Ends a group. */
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* Waits for the thread's own copies but those of the latest groups, so many. */
template <int UNDER_WAY> __device__ __forceinline__ void copies_wait_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(UNDER_WAY) : "memory");
}

/* Lets a kernel have more than the 48 KB that need no asking. pre: the device is current. */
template <class... P>
static tn_status allow_shared(const tn_kernel_args *args, void (*kernel)(P...), size_t bytes) {
  if (bytes <= 47 * 1024) return TN_OK; /* what the kernel always has counts, too */
  cudaError_t error = cudaFuncSetAttribute((const void *)kernel,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, args->kernel->name);
}

#endif /* KERNELS_CUDA_BACKGROUND_CUH */
