/*
 * The first k elements of a sorted row, found digit by digit (radix selection): every element is
 * its key with its place below it, so that no two are the same and of equal elements the first
 * counts. A pass counts the digits of those that share the digits found so far, and picks the
 * digit that the k-th one has; it ends where all that share the digits are wanted. The k elements
 * are then put in order by counting, for each, those before it.
 *
 * Rows of at most `short_row` elements are one block's, in registers; longer ones are gone through
 * once for each digit by many blocks, of which the last one picks. As soon as those that share the
 * digits are a few, a pass lists them, and the passes behind it go through the list alone. A block
 * that has seen k elements leaves out those with greater digits: they are not among the first k.
 *
 * Most of the longer rows whose elements lie side by side go by delegates (select_delegates.cu), in
 * one pass over their elements.
 */
#include "kernels/cuda/index/radix.h"
#include "kernels/cuda/index/select_delegates.h"
#include "kernels/cuda/index/sort.cuh"

namespace {

typedef unsigned long long u64;

enum {
  most_wanted = 1024,
  least_row = 64,
  short_items = 8,
  short_row = 2048,
  short_digit = 8,
  long_threads = 256,
  long_vectors = 2, /* of 16 bytes, that a thread reads at once */
  long_blocks = 4,  /* side by side on a multiprocessor */
  long_digit = 11,
  long_bins = 1 << long_digit,
  least_chunk = 8192,
  least_listed = 8,  /* the part of a row, one in so many, that is few enough for a list */
  staged = 2048,     /* that a block gathers before it appends them to the list */
  list_chunk = 2048, /* of a block */
};

/* What a pass knows: digits found, how many elements lie below them, and how many share them. */
struct found {
  u64 prefix;
  uint32_t below, sharing, done;
  uint32_t shift; /* where the digits end */
  uint32_t ticket, taken;
  uint32_t listed, is_listed; /* how many; whether passes go through the list */
};

struct search {
  rows r;
  int place_bits; /* below the key */
  bool vectors;   /* whether rows may be read 16 bytes at a time */
  int64_t chunk, chunks;
  found *state;   /* of each row, zero at first, as bins are */
  uint32_t *bins; /* of each row */
  u64 *wanted;    /* k of each row */
  u64 *list;      /* `room` of each row */
  uint32_t room;
};

__device__ __forceinline__ u64 composite(const rows &r, int64_t row, int64_t i, int place_bits) {
  u64 key = order_key(bits_at(r.x, place_of(r, row, i, r.n), r.type.bits), r.type);
  return key << place_bits | (u64)i;
}

/* By one warp: which of `bins` counts the need-th element falls in, from 1 on. `before` gets how
 * many stand in front of that bin. */
__device__ __forceinline__ uint32_t find_bin(const uint32_t *count, uint32_t bins, uint32_t need,
                                             uint32_t *before) {
  uint32_t lane = threadIdx.x % 32, each = bins / 32, own = 0;
  for (uint32_t b = 0; b < each; b++) own += count[lane * each + b];
  uint32_t upto = own;
#pragma unroll
  for (uint32_t step = 1; step < 32; step *= 2) {
    uint32_t left = __shfl_up_sync(~0u, upto, step);
    if (lane >= step) upto += left;
  }
  uint32_t reached = __ballot_sync(~0u, upto >= need);
  uint32_t leader = (uint32_t)__ffs((int)reached) - 1, bin = 0, at = upto - own;
  if (lane == leader) {
    bin = lane * each;
    while (at + count[bin] < need) at += count[bin++];
  }
  *before = __shfl_sync(~0u, at, (int)leader);
  return __shfl_sync(~0u, bin, (int)leader);
}

/* Writes the k elements of a row, each at its rank. */
__device__ __forceinline__ void write_ranked(const rows &r, int64_t row, const u64 *wanted,
                                             int place_bits) {
  for (int e = threadIdx.x; e < (int)r.k; e += blockDim.x) {
    u64 own = wanted[e], x;
    int rank = 0;
#pragma unroll 4
    for (int i = 0; i < (int)r.k; i++) rank += wanted[i] < own;
    int64_t place = (int64_t)(own & (((u64)1 << place_bits) - 1));
    int64_t to = place_of(r, row, rank, r.k);
    if (r.index) r.index[to] = place;
    if (!r.y) continue;
    uint64_t element;
    x = own >> place_bits;
    if (!element_of(x, r.type, &element))
      element = bits_at(r.x, place_of(r, row, place, r.n), r.type.bits);
    bits_put(r.y, to, element, r.type.bits);
  }
}

__global__ void __launch_bounds__(short_row / short_items)
    select_short(const __grid_constant__ rows r, int place_bits) {
  __shared__ uint32_t bins[1 << short_digit];
  __shared__ u64 wanted[short_row / 4];
  __shared__ uint32_t chosen, in_front, taken;
  int64_t row = blockIdx.x;
  u64 item[short_items], prefix = 0;
#pragma unroll
  for (int j = 0; j < short_items; j++) {
    int i = j * (int)blockDim.x + (int)threadIdx.x;
    item[j] = i < (int)r.n ? composite(r, row, i, place_bits) : 0;
  }
  if (threadIdx.x == 0) taken = 0;
  uint32_t need = (uint32_t)r.k;
  int shift = r.type.bits + place_bits;
  while (shift > 0) {
    int width = shift < short_digit ? shift : short_digit, above = shift;
    shift -= width;
    for (int b = threadIdx.x; b < 1 << short_digit; b += blockDim.x) bins[b] = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < short_items; j++) {
      bool there = j * (int)blockDim.x + (int)threadIdx.x < (int)r.n;
      if (there && item[j] >> above == prefix)
        atomicAdd(&bins[(uint32_t)(item[j] >> shift) & ((1u << width) - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      uint32_t before, bin = find_bin(bins, 1 << short_digit, need, &before);
      if (threadIdx.x == 0) {
        chosen = bin;
        in_front = before;
      }
    }
    __syncthreads();
    prefix = prefix << width | chosen;
    need -= in_front;
    bool all = bins[chosen] == need;
    __syncthreads(); /* before bins and chosen are used again */
    if (all) break;
  }
#pragma unroll
  for (int j = 0; j < short_items; j++) {
    bool there = j * (int)blockDim.x + (int)threadIdx.x < (int)r.n;
    if (there && item[j] >> shift <= prefix) wanted[atomicAdd(&taken, 1u)] = item[j];
  }
  __syncthreads();
  write_ranked(r, row, wanted, place_bits);
}

template <class Fn>
__device__ __forceinline__ void meet(const search &s, uint32_t bits, int64_t i, uint32_t limit,
                                     Fn fn) {
  const uint32_t key = narrow_key(bits, s.r.type);
  if (key <= limit) fn((u64)key << s.place_bits | (u64)i);
}

/* Calls fn on those elements of this block's chunk of its row whose keys are no greater than
 * `limit`, with several loads under way. After the first of several rounds all threads come to
 * refine(limit), which may lower it. */
template <class Fn, class Refine>
__device__ __forceinline__ void each_of_chunk(const search &s, int64_t row, uint32_t limit, Fn fn,
                                              Refine refine) {
  const int64_t begin = blockIdx.x % s.chunks * s.chunk;
  const int64_t end = begin + s.chunk < s.r.n ? begin + s.chunk : s.r.n;
  const int bits = s.r.type.bits;
  if (!s.vectors) {
#pragma unroll 4
    for (int64_t i = begin + threadIdx.x; i < end; i += long_threads)
      meet(s, (uint32_t)bits_at(s.r.x, place_of(s.r, row, i, s.r.n), bits), i, limit, fn);
    return;
  }
  const int each = 128 / bits, in_word = 32 / bits, step = long_threads * each;
  const uint32_t mask = ~0u >> (32 - bits);
  const char *x = (const char *)s.r.x + row * s.r.n * (bits / 8);
  auto read = [&](int64_t own, uint4(&v)[long_vectors]) {
#pragma unroll
    for (int j = 0; j < long_vectors; j++)
      if (own + j * step + each <= end) v[j] = *(const uint4 *)(x + (own + j * step) * (bits / 8));
  };
  uint4 v[long_vectors], next[long_vectors];
  read(begin + threadIdx.x * each, v);
  for (int64_t at = begin; at < end; at += step * long_vectors) {
    const int64_t own = at + threadIdx.x * each;
    read(own + step * long_vectors, next);
#pragma unroll
    for (int j = 0; j < long_vectors; j++) {
      const int64_t first = own + j * step;
      if (first + each > end) {
        for (int64_t i = first; i < end; i++) meet(s, (uint32_t)bits_at(x, i, bits), i, limit, fn);
        continue;
      }
      const uint32_t words[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
      for (int w = 0; w < 4; w++)
        for (int e = 0; e < in_word; e++)
          meet(s, words[w] >> e * bits & mask, first + w * in_word + e, limit, fn);
    }
    if (at == begin && begin + step * long_vectors < end) limit = refine(limit);
#pragma unroll
    for (int j = 0; j < long_vectors; j++) v[j] = next[j];
  }
}

/* Blocks of a row that have a part in a pass: all, or as many as the list is for. */
__device__ __forceinline__ int64_t taking_part(const search &s, const found *state) {
  if (!state->is_listed) return s.chunks;
  const int64_t blocks = (state->listed + list_chunk - 1) / list_chunk;
  return blocks < 1 ? 1 : blocks < s.chunks ? blocks : s.chunks;
}

/* The same of the list, where there is one. */
template <class Fn, class Refine>
__device__ __forceinline__ void each_item(const search &s, int64_t row, const found *state,
                                          uint32_t limit, Fn fn, Refine refine) {
  if (!state->is_listed) {
    each_of_chunk(s, row, limit, fn, refine);
    return;
  }
  const u64 *list = s.list + row * s.room;
  const uint32_t step = (uint32_t)taking_part(s, state) * long_threads;
  for (uint32_t i = (uint32_t)(blockIdx.x % s.chunks) * long_threads + threadIdx.x;
       i < state->listed; i += step)
    fn(list[i]);
}

/* Whether this block is the last of its row's to come here; what the others wrote can be read by
 * it past the first-level cache. */
__device__ __forceinline__ bool is_last(found *state, int64_t blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&state->ticket, 1u) == (uint32_t)blocks - 1;
  __syncthreads();
  if (last) __threadfence();
  return last;
}

/* By all threads: which of long_bins counts the need-th element falls in, and how many stand in
 * front of it; false where there are fewer elements. */
struct bin_place {
  uint32_t bin, before;
  bool is_there;
};

__device__ __forceinline__ bin_place find_long(const uint32_t *bins, uint32_t need) {
  constexpr int each = long_bins / long_threads;
  __shared__ uint32_t parts[long_threads];
  __shared__ bin_place place;
  uint32_t sum = 0;
#pragma unroll
  for (int b = 0; b < each; b++) sum += bins[threadIdx.x * each + b];
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    uint32_t total = 0, before = 0, bin = 0;
    for (int k = threadIdx.x; k < long_threads; k += 32) total += parts[k];
    const bool is_there = __reduce_add_sync(~0u, total) >= need;
    if (is_there) {
      bin = each * find_bin(parts, long_threads, need, &before);
      while (before + bins[bin] < need) before += bins[bin++];
    }
    if (threadIdx.x == 0) place = {bin, before, is_there};
  }
  __syncthreads();
  return place;
}

/* The greatest key of elements whose digits down to `shift` are no greater than `prefix`. */
__device__ __forceinline__ uint32_t limit_of(const search &s, u64 prefix, int shift) {
  return (uint32_t)(((prefix + 1) << shift) - 1 >> s.place_bits);
}

/* One digit, of `width` bits from `shift` on. */
__global__ void __launch_bounds__(long_threads, long_blocks)
    select_pass(const __grid_constant__ search s, int shift, int width) {
  __shared__ uint32_t bins[long_bins];
  __shared__ u64 stage[staged];
  __shared__ uint32_t in_stage, stage_place;
  const int64_t row = blockIdx.x / s.chunks;
  found *state = s.state + row;
  uint32_t *all = s.bins + row * long_bins;
  const int64_t blocks = taking_part(s, state);
  if (state->done || blockIdx.x % s.chunks >= blocks) return;
  u64 *list = s.list + row * s.room, *wanted = s.wanted + row * s.r.k;
  const u64 prefix = state->prefix;
  const uint32_t need = (uint32_t)s.r.k - state->below;
  const int above = shift + width;
  const bool first = above == s.r.type.bits + s.place_bits; /* may be all 64 bits */
  const bool lists = !first && !state->is_listed && state->sharing <= s.room;
  uint32_t most_bin = long_bins - 1; /* what counts at the most */
  if (threadIdx.x == 0) in_stage = 0;
  for (int b = threadIdx.x; b < long_bins; b += long_threads) bins[b] = 0;
  __syncthreads();
  each_item(
      s, row, state, first ? ~0u : limit_of(s, prefix, above),
      [&](u64 item) {
        if (first || item >> above == prefix) {
          atomicAdd(&bins[(uint32_t)(item >> shift) & ((1u << width) - 1)], 1u);
          if (!lists) return;
          const uint32_t at = atomicAdd(&in_stage, 1u);
          if (at < staged)
            stage[at] = item;
          else
            list[atomicAdd(&state->listed, 1u)] = item;
        } else if (lists && item >> above < prefix) {
          wanted[atomicAdd(&state->taken, 1u)] = item;
        }
      },
      [&](uint32_t limit) {
        __syncthreads();
        const bin_place p = find_long(bins, need);
        if (!p.is_there) return limit;
        most_bin = p.bin;
        return umin(limit, limit_of(s, prefix << width | p.bin, shift));
      });
  __syncthreads();
  for (uint32_t b = threadIdx.x; b <= most_bin; b += long_threads)
    if (bins[b]) atomicAdd(&all[b], bins[b]);
  if (lists) {
    const uint32_t count = umin(in_stage, staged);
    if (threadIdx.x == 0) stage_place = atomicAdd(&state->listed, count);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += long_threads) list[stage_place + i] = stage[i];
  }
  if (!is_last(state, blocks)) return;
  for (int b = threadIdx.x; b < long_bins; b += long_threads) {
    bins[b] = __ldcg(&all[b]);
    all[b] = 0;
  }
  __syncthreads();
  const bin_place p = find_long(bins, need);
  if (threadIdx.x) return;
  state->prefix = prefix << width | p.bin;
  state->below += p.before;
  state->shift = (uint32_t)shift;
  state->sharing = bins[p.bin];
  state->done = bins[p.bin] == need - p.before;
  state->ticket = 0;
  if (lists) state->is_listed = 1;
}

__global__ void __launch_bounds__(long_threads) select_take(const __grid_constant__ search s) {
  __shared__ u64 wanted[most_wanted];
  const int64_t row = blockIdx.x / s.chunks;
  found *state = s.state + row;
  const int64_t blocks = taking_part(s, state);
  if (blockIdx.x % s.chunks >= blocks) return;
  const u64 prefix = state->prefix;
  u64 *list = s.wanted + row * s.r.k;
  const int shift = (int)state->shift;
  each_item(
      s, row, state, limit_of(s, prefix, shift),
      [&](u64 item) {
        if (item >> shift <= prefix) list[atomicAdd(&state->taken, 1u)] = item;
      },
      [](uint32_t limit) { return limit; });
  if (!is_last(state, blocks)) return;
  for (int e = threadIdx.x; e < (int)s.r.k; e += long_threads) wanted[e] = __ldcg(&list[e]);
  __syncthreads();
  write_ranked(s.r, row, wanted, s.place_bits);
}

/* Lays out memory; `base` may be NULL. Returns how many bytes there are, and in `cleared` how many
 * of them begin as zeros. */
size_t search_of(const tn_kernel_args *args, const rows &r, void *base, search *s,
                 size_t *cleared) {
  int64_t count = r.outer * r.inner;
  int blocks = long_blocks * ((const cuda_info *)args->device)->multiprocessors;
  int64_t chunk = ceil_div(r.n, ceil_div(blocks, count));
  int64_t step = (int64_t)long_threads * long_vectors * (128 / r.type.bits);
  size_t states = (size_t)count * sizeof(found), bins = (size_t)count * long_bins * 4;
  s->r = r;
  s->place_bits = cuda_radix_bits((uint64_t)r.n);
  s->vectors =
      r.inner == 1 && is_aligned(r.x, 16) && (r.outer == 1 || r.n * (r.type.bits / 8) % 16 == 0);
  s->chunk = ceil_div(chunk < least_chunk ? least_chunk : chunk, step) * step;
  s->chunks = ceil_div(r.n, s->chunk);
  s->state = (found *)base;
  s->bins = (uint32_t *)((char *)base + states);
  s->wanted = (u64 *)((char *)base + states + bins);
  s->list = s->wanted + count * r.k;
  s->room = (uint32_t)(r.n / least_listed);
  *cleared = states + bins;
  return states + bins + (size_t)(count * (r.k + s->room)) * sizeof(u64);
}

tn_status select_long(const tn_kernel_args *args, const rows &r) {
  search s;
  size_t cleared;
  search_of(args, r, args->workspace, &s, &cleared);
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  cudaError_t error =
      cudaMemsetAsync(args->workspace, 0, cleared, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cudaMemsetAsync");
  unsigned blocks = (unsigned)(r.outer * r.inner * s.chunks);
  for (int shift = r.type.bits + s.place_bits; status == TN_OK && shift > 0;) {
    int width = shift < long_digit ? shift : long_digit;
    shift -= width;
    status = launch(args, select_pass, blocks, long_threads, 0, s, shift, width);
  }
  return status == TN_OK ? launch(args, select_take, blocks, long_threads, 0, s) : status;
}

} // namespace

bool cuda_select_takes(const rows &r) {
  return r.type.bits <= 32 && r.n >= least_row && r.k <= r.n / 4 && r.k <= most_wanted &&
         r.outer * r.inner * ceil_div(r.n, least_chunk) <= CUDA_MAX_INDEX;
}

tn_status cuda_select_workspace(const tn_kernel_args *args, const rows &r, size_t *bytes) {
  const cuda_select_plan plan = cuda_delegates_plan(args, r);
  search s;
  size_t cleared;
  if (plan.way != CUDA_SELECT_OTHERWISE)
    *bytes = cuda_select_memory_of(&plan, r.outer).bytes;
  else
    *bytes = r.n <= short_row ? 0 : search_of(args, r, NULL, &s, &cleared);
  return TN_OK;
}

tn_status cuda_select_run(const tn_kernel_args *args, const rows &r) {
  const cuda_select_plan plan = cuda_delegates_plan(args, r);
  if (plan.way != CUDA_SELECT_OTHERWISE) return cuda_delegates_run(args, r, plan);
  if (r.n > short_row) return select_long(args, r);
  unsigned block = 32;
  while (block * short_items < r.n) block *= 2;
  return launch(args, select_short, (unsigned)(r.outer * r.inner), block, 0, r,
                cuda_radix_bits((uint64_t)r.n));
}
