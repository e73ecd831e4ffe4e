/*
 * Recurrent networks of few sequences whose steps are all one launch. A block has units of its own,
 * keeps the numbers of u that they take in shared memory, and passes what it computes to the others
 * in words that hold a number and the step that it is of: whoever waits for a number reads it by
 * the access that finds it there (NCCL's protocol LL). The device holds all blocks at once. Small
 * networks are a cluster of blocks to a direction, which write into one another's shared memory;
 * others have their words in the workspace.
 */
#ifndef KERNELS_CUDA_RECURRENT_RESIDENT_CUH
#define KERNELS_CUDA_RECURRENT_RESIDENT_CUH

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/recurrent/recurrent.cuh"

enum {
  resident_threads = 256,
  resident_lanes = 8,             /* that share a row of u */
  resident_sequences = 8,         /* more are better served by products of their own */
  resident_least = 4,             /* units of a block */
  resident_cluster = 8,           /* blocks of a cluster, at the most */
  resident_cluster_terms = 32768, /* of a block's products: more are better shared by more blocks */
};

/* How a call is cut; all 0 where its steps are launches of their own. */
struct resident_plan {
  int units, blocks; /* of a block; of a direction */
  int pitch;         /* numbers from row to row in shared memory: 0 behind the last */
  int vectors;       /* rows of numbers that products take of each sequence */
  int lists;         /* rows of words that blocks give of each sequence */
  bool cluster;      /* the blocks of a direction are one */
  size_t shared_bytes;
};

/* Words of a row, which begins at a multiple of 16 bytes. */
static __host__ __device__ __forceinline__ int resident_row(int64_t hidden) {
  return (int)((hidden + 1) / 2 * 2);
}

/* Words of a direction: one step writes what the next one reads, so there are two sides. */
static __host__ __device__ __forceinline__ int64_t resident_count(const recurrent_call &c,
                                                                  const resident_plan &plan) {
  return 2 * plan.lists * c.sequences * resident_row(c.hidden);
}
static inline size_t resident_bytes(const recurrent_call &c, const resident_plan &plan) {
  return (size_t)(c.directions * resident_count(c, plan)) * sizeof(uint2);
}

/* Cuts a direction into `blocks` at the most. pre: a block's units times sequences are threads. */
static inline bool resident_cut(resident_plan *plan, const recurrent_call &c, int64_t blocks,
                                size_t room) {
  int64_t units = ceil_div(c.hidden, blocks);
  if (units < resident_least) units = resident_least;
  const int64_t pitch = ceil_div(c.hidden, 4 * resident_lanes) * 4 * resident_lanes;
  const int64_t terms = c.gates * units * pitch * c.sequences;
  const int64_t numbers = (c.gates * units + plan->vectors * c.sequences) * pitch +
                          c.gates * units * c.sequences +
                          (plan->cluster ? 2 * resident_count(c, *plan) : 0);
  plan->units = (int)units;
  plan->blocks = (int)ceil_div(c.hidden, units);
  plan->pitch = (int)pitch;
  plan->shared_bytes = (size_t)numbers * sizeof(float);
  return units * c.sequences <= resident_threads && plan->shared_bytes <= room &&
         !(plan->cluster && terms > resident_cluster_terms);
}

/* Whether kernels are compiled for architectures that have clusters. */
static inline bool resident_knows_clusters() {
  for (int architecture : {__CUDA_ARCH_LIST__})
    if (architecture >= 900) return true;
  return false;
}

static inline int resident_ask(const tn_kernel_args *args, cudaDeviceAttr attribute) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, ((const cuda_info *)args->device)->ordinal) ==
      cudaSuccess)
    return value;
  (void)cudaGetLastError();
  return 0;
}

static inline resident_plan resident_plan_of(const tn_kernel_args *args, const recurrent_call &c,
                                             tn_dtype dtype, int vectors, int lists) {
  resident_plan plan = {};
  if (dtype == TN_F64 || c.sequences > resident_sequences || c.sequences * c.hidden == 0 ||
      c.steps < 2)
    return plan;
  const int blocks = ((const cuda_info *)args->device)->multiprocessors / c.directions;
  const size_t room = (size_t)resident_ask(args, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  plan.vectors = vectors;
  plan.lists = lists;
  plan.cluster = resident_knows_clusters() && resident_ask(args, cudaDevAttrClusterLaunch) != 0;
  if (plan.cluster && blocks >= resident_cluster && resident_cut(&plan, c, resident_cluster, room))
    return plan;
  plan.cluster = false;
  if (blocks > 0 && resident_ask(args, cudaDevAttrCooperativeLaunch) &&
      resident_cut(&plan, c, blocks, room))
    return plan;
  return {};
}

/* False where the device has no room for a cluster. */
template <class Call>
static bool resident_launch_cluster(const tn_kernel_args *args, void (*kernel)(Call),
                                    const resident_plan &plan, int directions, Call call) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = (unsigned)plan.blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)plan.blocks, (unsigned)directions);
  config.blockDim = dim3(resident_threads);
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = (cudaStream_t)args->native_stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  void *list[] = {&call};
  if (cudaLaunchKernelExC(&config, (const void *)kernel, list) == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

/* Starts all blocks together; TN_ERR_UNSUPPORTED where less of the device is free for them than it
 * has. */
template <class Call>
static tn_status resident_launch(const tn_kernel_args *args, void (*kernel)(Call), int directions,
                                 Call call) {
  const resident_plan *plan = &call.plan;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status == TN_OK) status = allow_shared(args, kernel, plan->shared_bytes);
  if (status != TN_OK) return status;
  if (plan->cluster)
    return resident_launch_cluster(args, kernel, *plan, directions, call) ? TN_OK
                                                                          : TN_ERR_UNSUPPORTED;
  void *list[] = {&call};
  const cudaError_t error = cudaLaunchCooperativeKernel(
      (const void *)kernel, dim3((unsigned)plan->blocks, (unsigned)directions), resident_threads,
      list, plan->shared_bytes, (cudaStream_t)args->native_stream);
  if (error == cudaSuccess) return TN_OK;
  if (error != cudaErrorCooperativeLaunchTooLarge && error != cudaErrorNotSupported)
    return cuda_status(args->host, (int)error, args->kernel->name);
  (void)cudaGetLastError();
  return TN_ERR_UNSUPPORTED;
}

/* ------------------------------------------------------------------- words --- */

/* The words of a direction: of a cluster, in the shared memory of each of its blocks. */
struct resident_words {
  uint2 *at;
  uint32_t shared;       /* the block's own */
  int row, rows, blocks; /* words of a row; rows of a side; blocks of a cluster, or 0 */
};

__device__ __forceinline__ int64_t resident_place(const resident_words &w, int side, int row) {
  return ((int64_t)side * w.rows + row) * w.row;
}

__device__ __forceinline__ void resident_meet() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#endif
}

/* `memory`: the workspace's, or `room` for a cluster's, which is cleared for all to write. */
__device__ __forceinline__ resident_words resident_words_of(const recurrent_call &c,
                                                            const resident_plan &plan,
                                                            uint2 *memory, float *room) {
  const int64_t count = resident_count(c, plan);
  resident_words w = {memory + blockIdx.y * count, shared_address(room), resident_row(c.hidden),
                      plan.lists * (int)c.sequences, plan.cluster ? plan.blocks : 0};
  if (!plan.cluster) return w;
  w.at = (uint2 *)room;
  for (int x = threadIdx.x; x < count; x += resident_threads) w.at[x] = make_uint2(0, 0);
  __syncwarp();
  resident_meet();
  return w;
}

/* Of no step yet. pre: the thread's place is inside. */
__device__ __forceinline__ void resident_clear(const recurrent_call &c, const resident_plan &plan,
                                               uint2 *memory, const recurrent_place &at) {
  const int64_t first = at.d * resident_count(c, plan);
  const int64_t rows = 2 * plan.lists * c.sequences;
  for (int64_t row = at.b; row < rows; row += c.sequences)
    memory[first + row * resident_row(c.hidden) + at.j] = make_uint2(0, 0);
}

__device__ __forceinline__ void resident_put(const resident_words &w, int side, int row, int64_t j,
                                             float x, uint32_t step) {
  const uint64_t word = (uint64_t)step << 32 | __float_as_uint(x);
  const int64_t place = resident_place(w, side, row) + j;
#if __CUDA_ARCH__ >= 900
  for (int block = 0; block < w.blocks; block++) {
    uint32_t to;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(to)
                 : "r"(w.shared + (uint32_t)place * 8), "r"(block));
    asm volatile("st.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(to), "l"(word)
                 : "memory");
  }
#endif
  if (w.blocks == 0)
    asm volatile("st.volatile.global.b64 [%0], %1;" ::"l"(w.at + place), "l"(word) : "memory");
}

/* Two words, from an even one on. */
__device__ __forceinline__ ulonglong2 resident_look(const resident_words &w, int64_t place) {
  ulonglong2 v;
  if (w.blocks)
    asm volatile("ld.volatile.shared.v2.b64 {%0, %1}, [%2];"
                 : "=l"(v.x), "=l"(v.y)
                 : "r"(w.shared + (uint32_t)place * 8)
                 : "memory");
  else
    asm volatile("ld.volatile.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(v.x), "=l"(v.y)
                 : "l"(w.at + place)
                 : "memory");
  return v;
}

/* Waits for `rows` rows of a step's numbers, and puts them into shared memory. */
__device__ __forceinline__ void resident_gather(float *to, int pitch, const resident_words &w,
                                                int side, int row, int rows, int hidden,
                                                uint32_t step) {
  constexpr int abreast = 4;
  const int across = w.row / 2, all = rows * across;
  const int64_t place = resident_place(w, side, row);
  __syncwarp(); /* no thread waits while another of its warp has yet to put what it has */
#pragma unroll 1
  for (int first = threadIdx.x; first < all; first += abreast * resident_threads) {
    ulonglong2 v[abreast];
#pragma unroll
    for (int x = 0; x < abreast; x++) {
      const int i = first + x * resident_threads;
      if (i < all) v[x] = resident_look(w, place + 2 * i);
    }
#pragma unroll
    for (int x = 0; x < abreast; x++) {
      const int i = first + x * resident_threads, r = i / across, k = i % across * 2;
      if (i >= all) break;
      const bool pair = k + 1 < hidden;
      while (v[x].x >> 32 != step || (pair && v[x].y >> 32 != step))
        v[x] = resident_look(w, place + 2 * i);
      to[r * pitch + k] = __uint_as_float((uint32_t)v[x].x);
      if (pair) to[r * pitch + k + 1] = __uint_as_float((uint32_t)v[x].y);
    }
  }
}

/* ---------------------------------------------------------------- products --- */

/* Shared memory of a block: rows of u, gate after gate, vectors [vectors, sequences], and their
 * products [gates, units, sequences]. */
struct resident_room {
  float *weight, *v, *words, *z;
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
                                                          const resident_plan &plan) {
  const int64_t vectors = plan.vectors * c.sequences * plan.pitch;
  resident_room room;
  room.weight = memory;
  room.v = room.weight + c.gates * plan.units * plan.pitch;
  room.words = room.v + vectors;
  room.z = room.words + (plan.cluster ? 2 * resident_count(c, plan) : 0);
  for (int x = threadIdx.x; x < vectors; x += resident_threads) room.v[x] = 0;
  return room;
}

#endif /* KERNELS_CUDA_RECURRENT_RESIDENT_CUH */
