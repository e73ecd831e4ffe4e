/* A kernel that starts while the one before it in the stream still runs, on devices that can. */
#ifndef KERNELS_CUDA_EARLY_CUH
#define KERNELS_CUDA_EARLY_CUH

/* The next kernel may start as soon as all blocks have said so, ... */
__device__ __forceinline__ void early_release() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ... and waits there for all that this one wrote. */
__device__ __forceinline__ void early_await() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif /* KERNELS_CUDA_EARLY_CUH */
