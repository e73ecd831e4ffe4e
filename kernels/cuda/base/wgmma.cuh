/*
 * Steps on tensor cores by a warpgroup of 128 threads, which read both operands from shared memory
 * (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). Code for 9.0a alone has them,
 * which devices of compute capability 9.0 run: TENON_CUDA_90A says that a file is compiled for
 * that, too.
 */
#ifndef KERNELS_CUDA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include <type_traits>

#include "kernels/cuda/base/mma.cuh"

#ifdef TENON_CUDA_90A
constexpr bool compiled_for_wgmma = true;
#else
constexpr bool compiled_for_wgmma = false;
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Describes an operand's panel whose lines of 128 bytes follow each other, 16 bytes at a time, each
 * part's number taken exclusively with its line's modulo 8: from an address of shared memory, where
 * lines whose number is a multiple of 8 begin at multiples of 1024. Lines go along the sum; or
 * each is a term of 64 vectors of 16 bits, and `next` bytes behind it is that of 64 more. */
__device__ __forceinline__ uint64_t panel_descriptor(uint32_t at, uint32_t next) {
  const uint64_t lines_8 = 1024 >> 4, turned_128 = (uint64_t)1 << 62;
  return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(next >> 4) << 16 | lines_8 << 32 | turned_128;
}

/* What this thread wrote to shared memory, by copies too, is there for wgmma. */
__device__ __forceinline__ void show_to_wgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits for all of them: sums may be read again. */
template <class C, int COUNT> __device__ __forceinline__ void wgmma_wait(C (&sum)[COUNT]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if constexpr (std::is_same_v<C, float>)
      asm volatile("" : "+f"(sum[i])::"memory");
    else
      asm volatile("" : "+r"(sum[i])::"memory");
  }
}

/* sum[64, COLUMNS] += a[64, 16] b[16, COLUMNS]; element 4 j + e of a thread's sums is of row
 * 16 (warp % 4) + lane / 4, or 8 further where e >= 2, and column 8 j + 2 (lane % 4) + e % 2.
 * A_ACROSS, B_ACROSS: lines of the panel are terms. */
#define WGMMA(COLUMNS, type, name, sums, list, a, b, ta, tb)                                       \
  template <bool A_ACROSS, bool B_ACROSS>                                                          \
  __device__ __forceinline__ void wgmma_add(float(&d)[sums], uint64_t left, uint64_t right,        \
                                            type) {                                                \
    asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." name "." name " {" list   \
                 "}, " a ", " b ", add, 1, 1, " ta ", " tb ";\n}"                                  \
                 : SUMS_##sums(d)                                                                  \
                 : "l"(left), "l"(right), "n"(A_ACROSS), "n"(B_ACROSS));                           \
  }
#define SUMS_32(d)                                                                                 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),     \
      "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),   \
      "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),   \
      "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define INTEGERS_32(d)                                                                             \
  "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),  \
      "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]),     \
      "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]),   \
      "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]),   \
      "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
#define LIST_32                                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "          \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_64(d)                                                                                 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),     \
      "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),   \
      "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),   \
      "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),   \
      "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]),   \
      "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),   \
      "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),   \
      "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define LIST_64                                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "          \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "          \
  "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "          \
  "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
WGMMA(64, half_t, "f16", 32, LIST_32, "%32", "%33", "%34", "%35")
WGMMA(64, bfloat_t, "bf16", 32, LIST_32, "%32", "%33", "%34", "%35")
WGMMA(128, half_t, "f16", 64, LIST_64, "%64", "%65", "%66", "%67")
WGMMA(128, bfloat_t, "bf16", 64, LIST_64, "%64", "%65", "%66", "%67")

/* sum[64, 64] += a[64, 32] b[32, 64] of signed bytes, whose panels' lines both go along the sum;
 * elements lie as above. */
__device__ __forceinline__ void wgmma_add(int (&d)[32], uint64_t left, uint64_t right) {
  asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" LIST_32 "}, %32, %33, add;\n}"
               : INTEGERS_32(d)
               : "l"(left), "l"(right));
}
#undef WGMMA
#undef INTEGERS_32
#undef SUMS_32
#undef SUMS_64
#undef LIST_32
#undef LIST_64

#endif /* __CUDA_ARCH_FEAT_SM90_ALL */

#endif /* KERNELS_CUDA_WGMMA_CUH */
