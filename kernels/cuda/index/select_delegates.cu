/*
 * The first k elements of a sorted row, found by delegates: a row is cut into groups of 16 to 512
 * elements, each of which has the least of its keys as a delegate. The k groups whose delegates
 * come first hold the k elements that do, whatever the row: every element of another group has k
 * before it. One pass over all elements finds delegates; what is left is a block's work.
 * (A. Gaihre et al., "Dr. Top-k: Delegate-Centric Top-k on GPUs", SC 2021, has the idea.)
 *
 * Of equal delegates those of earlier tiles (512 elements, in which groups interleave) come first,
 * as of equal elements the first ones do; in the same tile all are taken. The elements of the
 * groups are items of a key and a place below it, no two of them the same. Those with keys no
 * greater than the last delegate's are listed, cut down to a few, and sorted.
 *
 * Where groups enough for k would be too many for a block, tiles are the groups first, and of those
 * that are chosen each lane's elements are a group then.
 */
#include "kernels/cuda/index/select_delegates.h"

#include <type_traits>

#include "kernels/cuda/index/select_block.cuh"
#include "kernels/cuda/index/select_units.cuh"

namespace {

enum {
  block_warps = CUDA_SELECT_WARPS,
  at_once = CUDA_SELECT_AT_ONCE,
  lane_threads = 256, /* of a block that finds the delegates of lanes */
  lane_warps = lane_threads / 32,
  few = 256, /* elements, each of whose ranks is counted */
};

/* What a block of a row does: from all delegates of its row to elements, finds the delegates
 * itself, chooses tiles alone, goes from lanes of chosen tiles to elements. */
enum stage { of_all, alone, tiles_alone, of_lanes };

template <class K>
__global__ void __launch_bounds__(block_warps * 32)
    find_delegates(const __grid_constant__ delegation d, uint32_t chunks) {
  let_later_begin();
  const uint32_t row = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
  put_delegates<at_once>(K(d.r.type), d, row_of(d, row),
                         chunk * (block_warps * at_once) + threadIdx.x / 32, block_warps,
                         d.keys + (size_t)row * d.stride);
}

/* Of the lanes of chosen tiles. */
__global__ void __launch_bounds__(lane_threads)
    find_lanes(const __grid_constant__ delegation d, uint32_t chunks) {
  let_later_begin();
  const uint32_t row = blockIdx.x / chunks, lane = threadIdx.x % 32;
  const uint32_t at = blockIdx.x % chunks * lane_warps + threadIdx.x / 32;
  if (at >= d.how_many[row]) return;
  const size_t place = (size_t)row * d.most_tiles + at;
  const int64_t first = (int64_t)d.chosen[place] * tile_size + lane * unit_size;
  uint32_t key = ~0u;
#pragma unroll
  for (int j = 0; j < tile_units; j++) {
    const int64_t i = first + j * 32 * unit_size;
    const four f = four_from(d, row_of(d, row), i);
#pragma unroll
    for (int e = 0; e < unit_size; e++)
      if (i + e < d.r.n) key = umin(key, narrow_key(f.v[e], d.r.type));
  }
  d.lanes[place * 32 + lane] = key;
}

/* A block's lists; delegates lie where elements will. */
struct lists {
  u64 *elements, *finals;
  uint32_t *keys, *taken, *tiles; /* delegates, the groups to look at, the tiles chosen before */
};

__device__ __forceinline__ lists lists_in(const delegation &d, unsigned char *memory) {
  u64 *elements = (u64 *)memory, *finals = elements + d.list;
  uint32_t *taken = (uint32_t *)(finals + d.finals);
  return {elements, finals, (uint32_t *)elements, taken, taken + d.list / CUDA_SELECT_LANE};
}

/* Delegates with their tiles below them, as items to choose among. Those from memory come four at a
 * time: they lie in slots such that each thread has its own and no banks meet. */
template <int T, stage S> struct delegates {
  lists l;
  uint32_t count, slots;
  int lane_bits;

  __device__ __forceinline__ uint32_t group_in(uint32_t slot) const {
    if (S == alone) return slot;
    const uint32_t turn = slot / T;
    return 4 * ((turn >> 2) * T + slot % T) + (turn & 3);
  }
  __device__ __forceinline__ u64 item_of(uint32_t group, uint32_t key) const {
    return (u64)key << 32 | (S == of_lanes ? l.tiles[group >> 5] : group >> (5 - lane_bits));
  }
  __device__ __forceinline__ u64 operator()(uint32_t slot) const {
    const uint32_t group = group_in(slot);
    return group < count ? item_of(group, l.keys[slot]) : ~(u64)0;
  }
};

/* Finds all of a row; the thread's range. */
template <int T>
__device__ __forceinline__ range fill(delegates<T, alone> *all, const delegation &d, uint32_t row) {
  const char *x = row_of(d, row);
  with_kind(d.r.type, [&](auto *kind) {
    const std::remove_pointer_t<decltype(kind)> k(d.r.type);
    for (uint32_t tile = threadIdx.x / 32; tile < d.tiles; tile += T / 32 * at_once)
      put_delegates<at_once>(k, d, x, tile, T / 32, all->l.keys);
  });
  __syncthreads();
  range own = no_range();
  for (uint32_t i = threadIdx.x; i < all->count; i += T) extend(&own, (*all)(i));
  return own;
}

/* Reads them, a multiple of four in memory. */
template <int T, stage S>
__device__ __forceinline__ range fill(delegates<T, S> *all, const delegation &d, uint32_t row) {
  const uint32_t *from = d.keys + (size_t)row * d.stride;
  if (S == of_lanes) {
    const size_t first = (size_t)row * d.most_tiles;
    from = d.lanes + first * 32;
    all->count = d.how_many[row] * 32;
    for (uint32_t i = threadIdx.x; i < all->count / 32; i += T)
      all->l.tiles[i] = d.chosen[first + i];
    __syncthreads();
  }
  all->slots = (all->count + 4 * T - 1) / (4 * T) * (4 * T);
  range own = no_range();
#pragma unroll 4
  for (uint32_t q = threadIdx.x; q < all->slots / 4; q += T) {
    uint4 v = {~0u, ~0u, ~0u, ~0u};
    if (q * 4 < all->count) v = *(const uint4 *)(from + q * 4);
    const uint32_t key[4] = {v.x, v.y, v.z, v.w}, turn = q / T * 4;
#pragma unroll
    for (int e = 0; e < 4; e++) {
      all->l.keys[(turn + e) * T + threadIdx.x] = key[e];
      if (q * 4 + e < all->count) extend(&own, all->item_of(q * 4 + e, key[e]));
    }
  }
  return own;
}

/* The bound of the groups to look at. Of many the need-th among the first of each thread is a bound
 * to begin with. */
template <int T, stage S>
__device__ __forceinline__ u64 bound_of_groups(block_room &m, const delegates<T, S> &all,
                                               const delegation &d, const range &own) {
  const uint32_t need = umin((uint32_t)d.r.k, all.count);
  range r = range_of_block<T>(m, own);
  if (all.count <= d.most_groups) return r.most;
  if (all.count >= 4 * T && need <= T / 4) {
    const u64 first = own.least;
    r.most = bound_of<T>(
        m, [&](uint32_t) { return first; }, T, need, 2 * need, range_of_block<T>(m, {first, first}),
        false);
    __syncthreads();
  }
  return bound_of<T>(m, all, all.slots, need, d.most_groups, r, own.least > r.most);
}

/* Lists the groups up to the bound; returns how many there are. */
template <int T, stage S>
__device__ __forceinline__ uint32_t take_groups(block_room &m, const delegates<T, S> &all,
                                                u64 bound, bool idle, uint32_t *to) {
  if (threadIdx.x == 0) m.count = 0;
  __syncthreads();
  if (!idle)
    for (uint32_t i = threadIdx.x; i < all.slots; i += T) {
      if (all(i) > bound) continue;
      const uint32_t group = all.group_in(i);
      to[atomicAdd(&m.count, 1u)] =
          S == of_lanes ? all.l.tiles[group >> 5] << 5 | (group & 31) : group;
    }
  __syncthreads();
  const uint32_t count = m.count;
  __syncthreads(); /* before it is used again */
  return count;
}

/* Where unit u of the groups begins. */
__device__ __forceinline__ int64_t place_of_unit(const uint32_t *taken, int lane_bits, uint32_t u) {
  const uint32_t group = taken[u >> (lane_bits + 2)], j = u >> lane_bits & 3;
  const uint32_t in_tile = group & ((32u >> lane_bits) - 1);
  const uint32_t lane = (in_tile << lane_bits) + (u & ((1u << lane_bits) - 1));
  return (int64_t)(group >> (5 - lane_bits)) * tile_size + j * 32 * unit_size + lane * unit_size;
}

/* Lists the elements of the groups whose keys are no greater than `limit`; the thread's range, and
 * in m.count how many there are. */
template <int T>
__device__ __forceinline__ range list_elements(block_room &m, const lists &l, const delegation &d,
                                               const char *x, int lane_bits, uint32_t groups,
                                               uint32_t limit) {
  const uint32_t units = groups << (lane_bits + 2);
  range own = no_range();
  if (threadIdx.x == 0) m.count = 0;
  __syncthreads();
  int64_t next_place = 0;
  four next = {};
  auto read_next = [&](uint32_t u) {
    if (u >= units) return;
    next_place = place_of_unit(l.taken, lane_bits, u);
    next = four_from(d, x, next_place);
  };
  read_next(threadIdx.x);
  for (uint32_t u = threadIdx.x; u / 32 * 32 < units; u += T) { /* whole warps */
    const four f = next;
    const int64_t place = next_place;
    read_next(u + T);
    u64 item[unit_size];
    uint32_t passes = 0;
#pragma unroll
    for (int e = 0; e < unit_size; e++) {
      const uint32_t key = narrow_key(f.v[e], d.r.type);
      item[e] = (u64)key << 32 | (uint32_t)(place + e);
      if (u >= units || place + e >= d.r.n || key > limit) continue;
      passes |= 1u << e;
      extend(&own, item[e]);
    }
    if (!__any_sync(~0u, passes)) continue;
    const uint32_t upto = sum_upto(__popc(passes));
    uint32_t to = 0;
    if (threadIdx.x % 32 == 31) to = atomicAdd(&m.count, upto);
    to = __shfl_sync(~0u, to, 31) + upto - __popc(passes);
#pragma unroll
    for (int e = 0; e < unit_size; e++)
      if (passes >> e & 1) l.elements[to++] = item[e];
  }
  __syncthreads();
  return own;
}

/* Of the listed elements, more than there is room for: the k first and few others to `finals`. */
template <int T>
__device__ __forceinline__ uint32_t cut_down(block_room &m, const lists &l, const delegation &d,
                                             uint32_t listed, const range &own) {
  const u64 bound = bound_of<T>(
      m, [&](uint32_t i) { return l.elements[i]; }, listed, (uint32_t)d.r.k, d.finals,
      range_of_block<T>(m, own), false);
  __syncthreads();
  if (threadIdx.x == 0) m.count = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < listed; i += T)
    if (l.elements[i] <= bound) l.finals[atomicAdd(&m.count, 1u)] = l.elements[i];
  __syncthreads();
  return m.count;
}

/* Writes the first k of `count` elements in order. There is room for a power of two of them. */
template <int T>
__device__ __forceinline__ void write_first(const delegation &d, uint32_t row, const char *x,
                                            u64 *items, uint32_t count) {
  const uint32_t k = (uint32_t)d.r.k;
  auto write = [&](uint32_t rank, u64 item) {
    const int64_t place = (int64_t)(uint32_t)item, to = (int64_t)row * k + rank;
    if (d.r.index) d.r.index[to] = place;
    if (d.r.y) bits_put(d.r.y, to, bits_at(x, place, d.r.type.bits), d.r.type.bits);
  };
  if (count <= few) {
    for (uint32_t i = threadIdx.x; i < count; i += T) {
      const u64 own = items[i];
      uint32_t rank = 0;
#pragma unroll 4
      for (uint32_t o = 0; o < count; o++) rank += items[o] < own;
      if (rank < k) write(rank, own);
    }
    return;
  }
  uint32_t room = 2 * few;
  while (room < count) room *= 2;
  for (uint32_t i = count + threadIdx.x; i < room; i += T) items[i] = ~(u64)0;
  sort_items<T>(items, room);
  for (uint32_t i = threadIdx.x; i < k; i += T) write(i, items[i]);
}

template <int T, stage S>
__global__ void __launch_bounds__(T) find_first(const __grid_constant__ delegation d) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ block_room m;
  const uint32_t row = blockIdx.x;
  const char *x = row_of(d, row);
  const lists l = lists_in(d, memory);
  if (S != alone) await_earlier();
  delegates<T, S> all = {l, d.groups, d.groups, d.lane_bits};
  range own = fill(&all, d, row);
  const u64 bound = bound_of_groups(m, all, d, own);
  uint32_t *to = S == tiles_alone ? d.chosen + (size_t)row * d.most_tiles : l.taken;
  const uint32_t groups = take_groups(m, all, bound, own.least > bound, to);
  if (S == tiles_alone) {
    if (threadIdx.x == 0) d.how_many[row] = groups;
    return;
  }
  /* Of fewer groups than elements are wanted, all elements. */
  const uint32_t limit = all.count < d.r.k ? ~0u : (uint32_t)(bound >> 32);
  own = list_elements<T>(m, l, d, x, S == of_lanes ? 0 : d.lane_bits, groups, limit);
  uint32_t listed = m.count;
  u64 *ready = l.elements;
  if (listed > d.finals) {
    listed = cut_down<T>(m, l, d, listed, own);
    ready = l.finals;
  }
  write_first<T>(d, row, x, ready, listed);
}

static_assert(sizeof(block_room) <= CUDA_SELECT_BLOCK_BYTES, "what plans count for it");

/* ---------------------------------------------------------------------------- launches --- */

template <int T>
tn_status start_first(const tn_kernel_args *args, void (*kernel)(delegation),
                      const cuda_select_plan &p, const delegation &d) {
  const cuda_info *info = (const cuda_info *)args->device;
  cuda_start start = {};
  start.grid = dim3((unsigned)d.r.outer);
  start.block = dim3(T);
  start.shared_bytes = cuda_select_shared_bytes(&p);
  start.most_shared_bytes = cuda_select_most_shared_bytes(&p);
  start.cluster = 1;
  start.early = p.way != CUDA_SELECT_ALONE && info->early && compiled_to_wait();
  void *list[] = {(void *)&d};
  return cuda_launch_as(args, (const void *)kernel, &start, list);
}

tn_status run_alone(const tn_kernel_args *args, const cuda_select_plan &p, const delegation &d) {
  if (p.threads == 256) return start_first<256>(args, find_first<256, alone>, p, d);
  if (p.threads == 512) return start_first<512>(args, find_first<512, alone>, p, d);
  return start_first<1024>(args, find_first<1024, alone>, p, d);
}

tn_status run_delegates(const tn_kernel_args *args, const delegation &d) {
  const uint32_t chunks = (uint32_t)ceil_div(d.tiles, block_warps * at_once);
  tn_status status = TN_OK;
  with_kind(d.r.type, [&](auto *kind) {
    using K = std::remove_pointer_t<decltype(kind)>;
    status = launch(args, find_delegates<K>, (unsigned)(d.r.outer * chunks), block_warps * 32, 0, d,
                    chunks);
  });
  return status;
}

tn_status run_two(const tn_kernel_args *args, const cuda_select_plan &p, const delegation &d) {
  const uint32_t chunks = (uint32_t)ceil_div(d.most_tiles, lane_warps);
  tn_status status = start_first<1024>(args, find_first<1024, tiles_alone>, p, d);
  if (status == TN_OK)
    status = launch(args, find_lanes, (unsigned)(d.r.outer * chunks), lane_threads, 0, d, chunks);
  if (status != TN_OK) return status;
  return start_first<1024>(args, find_first<1024, of_lanes>, p, d);
}

delegation delegation_of(const tn_kernel_args *args, const rows &r, const cuda_select_plan &p) {
  const int64_t bytes = r.type.bits / 8 * unit_size;
  const cuda_select_memory m = cuda_select_memory_of(&p, r.outer);
  char *memory = (char *)args->workspace;
  delegation d = {r};
  d.vectors = is_aligned(r.x, (size_t)bytes) && (r.outer == 1 || r.n % unit_size == 0);
  d.lane_bits = p.lane_bits;
  d.tiles = p.tiles;
  d.groups = p.groups;
  d.stride = p.stride;
  d.most_groups = p.most_groups;
  d.most_tiles = p.most_tiles;
  d.list = p.list;
  d.finals = p.finals;
  if (m.bytes == 0) return d;
  d.keys = (uint32_t *)(memory + m.keys);
  d.lanes = (uint32_t *)(memory + m.lanes);
  d.chosen = (uint32_t *)(memory + m.chosen);
  d.how_many = (uint32_t *)(memory + m.how_many);
  return d;
}

} // namespace

cuda_select_plan cuda_delegates_plan(const tn_kernel_args *args, const rows &r) {
  const cuda_info *info = (const cuda_info *)args->device;
  int room = 0;
  if (r.inner != 1 || r.n <= CUDA_SELECT_SHORT) return {};
  if (cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, info->ordinal) !=
      cudaSuccess)
    (void)cudaGetLastError();
  return cuda_select_plan_of(r.outer, r.n, r.k, info->multiprocessors, (size_t)room);
}

tn_status cuda_delegates_run(const tn_kernel_args *args, const rows &r,
                             const cuda_select_plan &plan) {
  const delegation d = delegation_of(args, r, plan);
  if (plan.way == CUDA_SELECT_ALONE) return run_alone(args, plan, d);
  tn_status status = run_delegates(args, d);
  if (status != TN_OK) return status;
  if (plan.way == CUDA_SELECT_TWO) return run_two(args, plan, d);
  if (plan.threads == 512) return start_first<512>(args, find_first<512, of_all>, plan, d);
  return start_first<1024>(args, find_first<1024, of_all>, plan, d);
}
