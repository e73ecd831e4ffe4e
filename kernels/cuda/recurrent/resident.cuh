/*
 * Recurrent networks of few sequences whose steps are all one launch. A block has units of its own,
 * keeps the numbers of u that they take in shared memory, and passes what it computes to the others
 * in words that hold a number and the step that it is of: whoever waits for a number reads it by
 * the access that finds it there (NCCL's protocol LL). The device holds all blocks at once.
 */
#ifndef KERNELS_CUDA_RECURRENT_RESIDENT_CUH
#define KERNELS_CUDA_RECURRENT_RESIDENT_CUH

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/recurrent/recurrent.cuh"

enum {
  resident_threads = 256,
  resident_lanes = 8,     /* that share a row of u */
  resident_sequences = 8, /* more are better served by products of their own */
  resident_least = 4,     /* units of a block */
};

/* How a call is cut; all 0 where its steps are launches of their own. */
struct resident_plan {
  int units, blocks; /* of a block; of a direction */
  int pitch;         /* numbers from row to row in shared memory: 0 behind the last */
  size_t shared_bytes;
};

/* Numbers of a row of words, which begins at a multiple of 16 bytes. */
static __host__ __device__ __forceinline__ int64_t resident_row(int64_t hidden) {
  return (hidden + 1) / 2 * 2;
}

/* Words for `rows` numbers of a state, twice: one step writes what the next one reads. */
static inline size_t resident_bytes(const recurrent_call &c, int64_t rows) {
  return (size_t)(2 * c.directions * rows * c.sequences * resident_row(c.hidden)) * sizeof(uint2);
}

/* pre: a block's units times sequences are threads. */
static inline bool resident_cut(resident_plan *plan, const recurrent_call &c, int64_t vectors,
                                int processors, size_t room) {
  const int64_t blocks = processors / c.directions;
  if (blocks < 1) return false;
  int64_t units = ceil_div(c.hidden, blocks);
  if (units < resident_least) units = resident_least;
  const int64_t pitch = ceil_div(c.hidden, 4 * resident_lanes) * 4 * resident_lanes;
  const int64_t numbers =
      (c.gates * units + vectors * c.sequences) * pitch + c.gates * units * c.sequences;
  if (units * c.sequences > resident_threads || (size_t)numbers * sizeof(float) > room)
    return false;
  *plan = {(int)units, (int)ceil_div(c.hidden, units), (int)pitch, (size_t)numbers * sizeof(float)};
  return true;
}

/* `vectors`: rows of numbers that a product takes of each sequence. */
static inline resident_plan resident_plan_of(const tn_kernel_args *args, const recurrent_call &c,
                                             tn_dtype dtype, int64_t vectors) {
  const int ordinal = ((const cuda_info *)args->device)->ordinal;
  int together = 0, room = 0;
  resident_plan plan = {};
  if (dtype == TN_F64 || c.sequences > resident_sequences || c.sequences * c.hidden == 0 ||
      c.steps < 2)
    return plan;
  if (cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal) !=
          cudaSuccess) {
    (void)cudaGetLastError();
    return plan;
  }
  if (together)
    (void)resident_cut(&plan, c, vectors, ((const cuda_info *)args->device)->multiprocessors,
                       (size_t)room);
  return plan;
}

/* Starts all blocks together; TN_ERR_UNSUPPORTED where less of the device is free for them than it
 * has. */
template <class Call>
static tn_status resident_launch(const tn_kernel_args *args, void (*kernel)(Call),
                                 const resident_plan &plan, int directions, Call call) {
  tn_status status = allow_shared(args, kernel, plan.shared_bytes);
  if (status != TN_OK) return status;
  void *list[] = {&call};
  const cudaError_t error = cudaLaunchCooperativeKernel(
      (const void *)kernel, dim3((unsigned)plan.blocks, (unsigned)directions), resident_threads,
      list, plan.shared_bytes, (cudaStream_t)args->native_stream);
  if (error == cudaSuccess) return TN_OK;
  if (error != cudaErrorCooperativeLaunchTooLarge)
    return cuda_status(args->host, (int)error, args->kernel->name);
  (void)cudaGetLastError();
  return TN_ERR_UNSUPPORTED;
}

/* ------------------------------------------------------------------- words --- */

__device__ __forceinline__ void resident_put(uint2 *word, float x, uint32_t step) {
  asm volatile("st.volatile.global.v2.b32 [%0], {%1, %2};" ::"l"(word), "r"(__float_as_uint(x)),
               "r"(step)
               : "memory");
}
/* A word of no step, and the one that fills the row up behind its last. */
__device__ __forceinline__ void resident_clear(uint2 *word, int64_t j, int64_t hidden) {
  word[0] = make_uint2(0, 0);
  if (j + 1 == hidden && hidden % 2) word[1] = make_uint2(0, 0);
}
__device__ __forceinline__ uint4 resident_look(const uint2 *words) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(words)
               : "memory");
  return v;
}

/* Waits for `rows` rows of a step's numbers, and puts them into shared memory. */
__device__ __forceinline__ void resident_gather(float *to, int pitch, const uint2 *words,
                                                int hidden, int rows, uint32_t step) {
  constexpr int abreast = 4;
  const int across = (hidden + 1) / 2, all = rows * across;
  __syncwarp(); /* no thread waits while another of its warp has yet to put what it has */
#pragma unroll 1
  for (int first = threadIdx.x; first < all; first += abreast * resident_threads) {
    uint4 v[abreast];
#pragma unroll
    for (int x = 0; x < abreast; x++) {
      const int i = first + x * resident_threads;
      if (i < all) v[x] = resident_look(words + 2 * (int64_t)i);
    }
#pragma unroll
    for (int x = 0; x < abreast; x++) {
      const int i = first + x * resident_threads, row = i / across, k = i % across * 2;
      if (i >= all) break;
      const bool pair = k + 1 < hidden;
      while (v[x].y != step || (pair && v[x].w != step))
        v[x] = resident_look(words + 2 * (int64_t)i);
      to[row * pitch + k] = __uint_as_float(v[x].x);
      if (pair) to[row * pitch + k + 1] = __uint_as_float(v[x].z);
    }
  }
}

/* Begins to read what a step will want: it is in the first cache then. */
__device__ __forceinline__ void resident_touch(const void *at) {
  uint32_t rest;
  asm volatile("ld.global.b8 %0, [%1];" : "=r"(rest) : "l"(at));
  (void)rest;
}

/* ---------------------------------------------------------------- products --- */

/* Shared memory of a block: rows of u, gate after gate, vectors [vectors, sequences], and their
 * products [gates, units, sequences]. */
struct resident_room {
  float *weight, *v, *z;
};

/* z[row, b] = sum over k of weight[row, k] v[b, k] for rows from `first` to `end`. `apart`: each
 * gate has a vector of its own. */
template <int N>
__device__ __forceinline__ void resident_rows(const resident_room &m, const resident_plan &plan,
                                              int first, int end, int sequences, bool apart) {
  const int lane = threadIdx.x % resident_lanes;
#pragma unroll 1
  for (int from = first; from < end; from += resident_threads / resident_lanes) {
    const int row = from + (int)threadIdx.x / resident_lanes;
    float sums[N];
#pragma unroll
    for (int b = 0; b < N; b++) sums[b] = 0;
    const float *weight = m.weight + row * plan.pitch;
    const float *v = m.v + (apart ? row / plan.units * sequences * plan.pitch : 0);
    for (int k = 4 * lane; k < plan.pitch && row < end; k += 4 * resident_lanes) {
      const float4 w = *(const float4 *)&weight[k];
#pragma unroll
      for (int b = 0; b < N; b++) {
        if (b >= sequences) break;
        const float4 x = *(const float4 *)&v[b * plan.pitch + k];
        sums[b] = fmaf(w.x, x.x, fmaf(w.y, x.y, fmaf(w.z, x.z, fmaf(w.w, x.w, sums[b]))));
      }
    }
#pragma unroll
    for (int b = 0; b < N; b++) {
      if (b >= sequences) break;
#pragma unroll
      for (int lanes = resident_lanes / 2; lanes > 0; lanes /= 2)
        sums[b] += __shfl_xor_sync(0xffffffffu, sums[b], lanes);
      if (lane == b && row < end) m.z[row * sequences + b] = sums[b];
    }
  }
}

__device__ __forceinline__ void resident_products(const resident_room &m, const resident_plan &plan,
                                                  int first, int end, int sequences, bool apart) {
  if (sequences == 1)
    resident_rows<1>(m, plan, first, end, 1, apart);
  else
    resident_rows<resident_sequences>(m, plan, first, end, sequences, apart);
}

/* A block's part of u [gates, hidden, hidden], in float: row g units + i is row first + i of gate
 * g, or such a column. */
template <class T, bool turned>
__device__ __forceinline__ void resident_load(float *weight, const T *u, const recurrent_call &c,
                                              const resident_plan &plan, int64_t first) {
  const int rows = (int)c.gates * plan.units;
  for (int x = threadIdx.x; x < rows * plan.pitch; x += resident_threads) {
    const int row =
        turned ? x / plan.pitch : x / plan.units % (int)c.gates * plan.units + x % plan.units;
    const int k = turned ? x % plan.pitch : x / rows;
    const int64_t g = row / plan.units, j = first + row % plan.units;
    const bool inside = j < c.hidden && k < c.hidden;
    const int64_t at = (g * c.hidden + (turned ? j : k)) * c.hidden + (turned ? k : j);
    weight[row * plan.pitch + k] = inside ? load(u[at]) : 0.0f;
  }
}

/* Zeros stay behind the vectors' last numbers. */
__device__ __forceinline__ resident_room resident_room_of(float *memory, const recurrent_call &c,
                                                          const resident_plan &plan,
                                                          int64_t vectors) {
  resident_room room;
  room.weight = memory;
  room.v = room.weight + c.gates * plan.units * plan.pitch;
  room.z = room.v + vectors * c.sequences * plan.pitch;
  for (int x = threadIdx.x; x < vectors * c.sequences * plan.pitch; x += resident_threads)
    room.v[x] = 0;
  return room;
}

#endif /* KERNELS_CUDA_RECURRENT_RESIDENT_CUH */
