/* The kernels of table.h. */
#include "kernels/cuda/base/table.h"

#include "kernels/cuda/base/common.cuh"

namespace {

enum { look_threads = 512, look_packs = 4, words = TABLE_BYTES / 4 };

/* Where a byte of the table lies in shared memory. Numbers whose last bits are all 0, as small
 * whole ones are, would otherwise share a bank. */
__device__ __forceinline__ uint32_t place_of(uint32_t byte) { return byte ^ (byte >> 5 & 0x7cu); }

__device__ __forceinline__ uint32_t look_at(const char *table, uint32_t pair) {
  const uint32_t low = *(const unsigned short *)(table + place_of(pair << 1 & 0x1fffeu));
  const uint32_t high = *(const unsigned short *)(table + place_of(pair >> 15 & 0x1fffeu));
  return low | high << 16;
}

__device__ __forceinline__ uint4 look_at(const char *table, uint4 x) {
  return make_uint4(look_at(table, x.x), look_at(table, x.y), look_at(table, x.z),
                    look_at(table, x.w));
}

/* A thread's packs from place i on, a step apart: those that there are. */
struct look_share {
  uint4 v[look_packs];
  __device__ __forceinline__ void read(const uint4 *x, int64_t i, int64_t step, int64_t packs) {
#pragma unroll
    for (int k = 0; k < look_packs; k++)
      if (i + k * step < packs) v[k] = __ldcs(x + i + k * step);
  }
};

/* A block to each multiprocessor. A thread's next packs of 8 elements are under way while it looks
 * up those that it has, the first of them while the table is made. */
__global__ void __launch_bounds__(look_threads, 1)
    table_look(uint4 *y, const uint4 *x, const uint32_t *made, int64_t n) {
  extern __shared__ char table[];
  const int64_t packs = n / 8, step = (int64_t)gridDim.x * look_threads;
  int64_t i = (int64_t)blockIdx.x * look_threads + threadIdx.x;
  look_share next;
  next.read(x, i, step, packs);
  await_earlier();
#pragma unroll 8
  for (uint32_t w = threadIdx.x; w < words; w += look_threads)
    *(uint32_t *)(table + place_of(4 * w)) = made[w];
  __syncthreads();
  while (i < packs) {
    const look_share here = next;
    const int64_t from = i;
    i += look_packs * step;
    next.read(x, i, step, packs);
#pragma unroll
    for (int k = 0; k < look_packs; k++)
      if (from + k * step < packs) __stcs(y + from + k * step, look_at(table, here.v[k]));
  }
  const int64_t last = packs * 8 + threadIdx.x;
  if (blockIdx.x == 0 && last < n) {
    const uint32_t one = ((const unsigned short *)x)[last];
    ((unsigned short *)y)[last] = (unsigned short)look_at(table, one);
  }
}

} // namespace

bool cuda_table_fits(void) {
  const cudaError_t error = cudaFuncSetAttribute(
      (const void *)table_look, cudaFuncAttributeMaxDynamicSharedMemorySize, TABLE_BYTES);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess;
}

tn_status cuda_table_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *y = args->out[0];
  *bytes = y->dtype.bits == 16 && cuda_size(y, 0, y->ndim) >= TABLE_LEAST ? TABLE_BYTES : 0;
  return TN_OK;
}

tn_status cuda_table_look(const tn_kernel_args *args, void *y, const void *x, int64_t n) {
  const unsigned blocks = (unsigned)((const cuda_info *)args->device)->multiprocessors;
  return launch_early(args, table_look, blocks, look_threads, TABLE_BYTES, (uint4 *)y,
                      (const uint4 *)x, (const uint32_t *)args->workspace, n);
}
