/*
 * Element types on the device, conversions between them, and the launch. Included by
 * every .cu file; the half types are plain bits here, so that the vendor's large
 * headers for them stay out of the build.
 */
#ifndef KERNELS_CUDA_COMMON_CUH
#define KERNELS_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda/base/launch.h"
#include "kernels/cuda/base/layout.h"
#include "kernels/cuda/kernels.h"

struct half_t {
  unsigned short bits;
};
struct bfloat_t {
  unsigned short bits;
};
struct bool_t {
  unsigned char byte;
};

/* What an element is computed in: float for the half types, else the type itself. */
template <class T> struct compute_of { using type = T; };
template <> struct compute_of<half_t> { using type = float; };
template <> struct compute_of<bfloat_t> { using type = float; };
template <> struct compute_of<bool_t> { using type = unsigned char; };
template <class T> using compute_t = typename compute_of<T>::type;

/* What sums over floats are kept in where they lose nothing by it: float, but for double. */
template <class T> struct accumulator { using type = float; };
template <> struct accumulator<double> { using type = double; };
template <class T> using accumulator_t = typename accumulator<T>::type;

template <class T> __device__ __forceinline__ T load(T x) { return x; }
__device__ __forceinline__ unsigned char load(bool_t x) { return x.byte; }
__device__ __forceinline__ float load(half_t x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float load(bfloat_t x) {
  return __uint_as_float((unsigned)x.bits << 16);
}

template <class T> struct stored {
  static __device__ __forceinline__ T from(T x) { return x; }
};
template <> struct stored<bool_t> {
  static __device__ __forceinline__ bool_t from(bool x) { return {(unsigned char)x}; }
};
template <> struct stored<half_t> {
  static __device__ __forceinline__ half_t from(float x) {
    half_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
};
template <> struct stored<bfloat_t> {
  static __device__ __forceinline__ bfloat_t from(float x) {
    bfloat_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
};

/* Two floats as a pair of 16 bits: rounded to the nearest, and towards 0. */
#define PAIR_OF(name, type, instruction)                                                           \
  __device__ __forceinline__ uint32_t name(float low, float high, type) {                          \
    uint32_t r;                                                                                    \
    asm(instruction " %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));                               \
    return r;                                                                                      \
  }
PAIR_OF(pair_of, half_t, "cvt.rn.f16x2.f32")
PAIR_OF(pair_of, bfloat_t, "cvt.rn.bf16x2.f32")
PAIR_OF(pair_below, half_t, "cvt.rz.f16x2.f32")
PAIR_OF(pair_below, bfloat_t, "cvt.rz.bf16x2.f32")
#undef PAIR_OF

/* And back. */
__device__ __forceinline__ float low_of_pair(uint32_t pair, bfloat_t) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float high_of_pair(uint32_t pair, bfloat_t) {
  return __uint_as_float(pair & 0xffff0000u);
}
__device__ __forceinline__ float low_of_pair(uint32_t pair, half_t) {
  return load(half_t{(unsigned short)pair});
}
__device__ __forceinline__ float high_of_pair(uint32_t pair, half_t) {
  return load(half_t{(unsigned short)(pair >> 16)});
}

/* Several elements that move in one access. */
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };

__host__ __device__ constexpr int least(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int most(int a, int b) { return a > b ? a : b; }

static inline bool is_aligned(const void *ptr, size_t bytes) {
  return ((uintptr_t)ptr & (bytes - 1)) == 0;
}

__device__ __forceinline__ uint32_t quotient(uint32_t n, cuda_divisor d) {
  return (__umulhi(n, d.multiplier) + n) >> d.shift;
}

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T> struct same_type { using type = T; };

/* cuda_launch of a kernel with its parameters. */
template <class... P>
static tn_status launch(const tn_kernel_args *args, void (*kernel)(P...), dim3 grid, dim3 block,
                        size_t shared_bytes, typename same_type<P>::type... params) {
  void *list[] = {(void *)&params...};
  return cuda_launch(args, (const void *)kernel, grid, block, shared_bytes, list);
}

/* A kernel that launch_early starts begins before the one that it follows in its stream has ended,
 * which saves its launch: before it has waited for that one it writes no memory and reads none,
 * unless that one was started by `launch`, of which it then may read what was there before. */
__device__ __forceinline__ void await_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* The next kernel may begin so when all blocks have come here, or ended. */
__device__ __forceinline__ void let_later_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Whether devices of compute capability 9 run code that waits. */
#ifdef __CUDA_ARCH_LIST__
static constexpr int compiled_archs[] = {__CUDA_ARCH_LIST__};
constexpr bool compiled_to_wait() {
  for (int arch : compiled_archs)
    if (arch / 100 == 9) return true;
  return false;
}
#else
constexpr bool compiled_to_wait() { return false; }
#endif

/* Starts a kernel that calls await_earlier(). */
template <class... P>
static tn_status launch_early(const tn_kernel_args *args, void (*kernel)(P...), dim3 grid,
                              dim3 block, size_t shared_bytes,
                              typename same_type<P>::type... params) {
  const cuda_info *info = (const cuda_info *)args->device;
  tn_status status = cuda_make_current(args->host, info);
  if (status != TN_OK) return status;
  void *list[] = {(void *)&params...};
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = (cudaStream_t)args->native_stream;
  config.attrs = &early;
  config.numAttrs = info->early && compiled_to_wait() ? 1 : 0;
  cudaError_t error = cudaLaunchKernelExC(&config, (const void *)kernel, list);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, args->kernel->name);
}

#endif /* KERNELS_CUDA_COMMON_CUH */
