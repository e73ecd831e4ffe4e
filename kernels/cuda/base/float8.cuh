/*
 * The 8-bit floats on the device: kernels/common/float8.h, and the hardware's conversions where it
 * has them (compute capability 8.9 and later), which give the same bits. Which of the two formats a
 * tensor has is known at run time alone, so that kernels are compiled once for both.
 */
#ifndef KERNELS_CUDA_FLOAT8_CUH
#define KERNELS_CUDA_FLOAT8_CUH

#include "kernels/common/float8.h"
#include "kernels/cuda/base/common.cuh"

struct f8_t {
  unsigned char bits;
};

struct f8_format {
  bool e4m3;     /* else E5M2 */
  bool saturate; /* what is larger than the largest number becomes that */
};

static inline bool is_f8(tn_dtype dtype) { return TN_SET(dtype) & TN_SET_F8; }

__device__ __forceinline__ float f8_load(f8_t x, bool e4m3) {
#if __CUDA_ARCH__ >= 890
  uint32_t pair;
  if (e4m3)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
  return load(half_t{(unsigned short)pair});
#else
  return e4m3 ? f8_e4m3_to_f32(x.bits) : f8_e5m2_to_f32(x.bits);
#endif
}

__device__ __forceinline__ f8_t f8_round(float x, f8_format to) {
#if __CUDA_ARCH__ >= 890
  if (to.saturate) {
    unsigned short pair;
    if (to.e4m3)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {(unsigned char)pair};
  }
#endif
  return {to.e4m3 ? f8_e4m3_from_f32(x, to.saturate) : f8_e5m2_from_f32(x, to.saturate)};
}

#endif /* KERNELS_CUDA_FLOAT8_CUH */
