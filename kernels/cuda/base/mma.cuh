/* Steps on tensor cores by a warp: fragments from shared memory, and their products (PTX ISA,
 * "Warp Level Matrix Instructions"). */
#ifndef KERNELS_CUDA_MMA_CUH
#define KERNELS_CUDA_MMA_CUH

#include "kernels/cuda/base/background.cuh"

/* Four 8 by 8 matrices of 16-bit elements; lane i points at row i % 8 of matrix i / 8. */
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ uint32_t load_word(uint32_t at) {
  uint32_t r;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at) : "memory");
  return r;
}
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *at) {
  load_matrices(r, shared_address(at));
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const void *at) {
  load_transposed(r, shared_address(at));
}

/* c[16, 8] += a[16, 16] b[16, 8]. */
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1, half_t) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1, bfloat_t) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* c[16, 8] += a[16, 8] b[8, 8] of floats, of which 10 bits of mantissa are looked at (TF32). */
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1, float) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Half of the least that TF32 can add to a float is added, so that the step, which cuts, takes the
 * nearest; ties go away from 0. Inf and NaN stay, which they would not were it added to the bits;
 * numbers beyond the last of TF32 become Inf, and those below 2^-126 are cut. */
__device__ __forceinline__ uint32_t rounded_to_tf32(uint32_t bits) {
  const float power = __uint_as_float(bits & 0xff800000);
  return __float_as_uint(fmaf(power, 0x1p-11f, __uint_as_float(bits)));
}

#endif /* KERNELS_CUDA_MMA_CUH */
