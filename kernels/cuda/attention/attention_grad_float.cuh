/*
 * The gradient of attention for float32 on tensor cores, by the products of attention_float.cuh:
 * one kernel over queries for dq, one over keys for dk and dv. A warp owns 16 of a block's 64 rows;
 * the other side passes through shared memory in tiles, the next arriving while one is worked on
 * where there is room. Over keys, scores are computed transposed, so that an accumulator is at once
 * the left operand of the next product.
 */
#ifndef KERNELS_CUDA_ATTENTION_GRAD_FLOAT_CUH
#define KERNELS_CUDA_ATTENTION_GRAD_FLOAT_CUH

#include "kernels/cuda/attention/attention_float.cuh"
#include "kernels/cuda/attention/attention_grad_mma.cuh"

namespace {

/* Rows of the side that passes through, of two lists, and how many tiles of them there is room for
 * in what shared memory all devices have. */
template <int D> constexpr int float_grad_step = D <= 64 ? 32 : 24;
template <int D> constexpr int float_grad_tiles = D <= 64 ? 2 : 1;

template <int D> constexpr size_t float_grad_bytes() {
  return (size_t)2 * (float_rows + float_grad_tiles<D> * float_grad_step<D>)*float_pitch<D> *
         sizeof(float);
}

/* Products of queries and keys become weights in s, and those of dy and v in ds what the gradient
 * by the score is, but for the factor `scale`; `at_score` gives query and key of an element,
 * `of_query` its lse and delta. */
template <int N, class A, class Q>
__device__ __forceinline__ void float_grads(const attention_params &p, const attention_place &at,
                                            float (&s)[N][4], float (&ds)[N][4], bool plain,
                                            A at_score, Q of_query) {
  const float scale = plain ? (float)p.scale : 1.f;
  if (!plain) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int2 score = at_score(n, e);
        s[n][e] = score_of<float>(p, at, score.x, score.y, s[n][e]);
      }
  }
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const float2 query = of_query(n, e);
      /* A query that sees no key has an lse of -infinity. */
      const float score = s[n][e] * scale;
      const float weight = score == -INFINITY ? 0.f : weight_over(score, query.x);
      ds[n][e] = score_grad(weight, ds[n][e], query.y);
      s[n][e] = weight;
    }
}

/* The same COUNT rows of two lists. */
template <int D, int COUNT>
__device__ __forceinline__ void stage_float_pair(float *to, const void *a, const void *b,
                                                 int64_t from, int rows,
                                                 const attention_params &p) {
  stage_floats<D, COUNT>(to, (const float *)a + from * p.d, rows, p);
  stage_floats<D, COUNT>(to + COUNT * float_pitch<D>, (const float *)b + from * p.d, rows, p);
}

template <int D>
__global__ void __launch_bounds__(float_threads, D <= 64 ? 3 : 2)
    query_grad_floats(const __grid_constant__ attention_params p) {
  constexpr int pitch = float_pitch<D>, step = float_grad_step<D>, N = step / 8;
  constexpr int tiles_held = float_grad_tiles<D>;
  extern __shared__ __align__(16) unsigned char memory[];
  float *q = (float *)memory, *dy = q + float_rows * pitch;
  float *tiles = dy + float_rows * pitch;
  const attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  const int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * float_rows;
  const int rows = least(float_rows, p.s - first), own = (int)threadIdx.x / 32 * 16;
  const int end = keys_seen(p, first + rows), unseen = keys_seen(p, first + 1);
  const int64_t queries = at.head * p.s + first, keys = at.group * p.t;
  const float one[2] = {1, 1}, scale[2] = {(float)p.scale, (float)p.scale};
  float lse[2], delta[2], dq[D / 8][4];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int r = own + score_row(2 * half);
    lse[half] = r < rows ? ((const float *)p.lse_in)[queries + r] : 0.f;
    delta[half] = r < rows ? ((const float *)p.delta)[queries + r] : 0.f;
  }
  clear_floats(dq);
  stage_float_pair<D, float_rows>(q, p.q, p.dy, queries, rows, p);
  if (end > 0) stage_float_pair<D, step>(tiles, p.k, p.v, keys, p.t, p);
  for (int j = 0, buffer = 0; j < end; j += step) {
    const float *k = tiles + buffer * 2 * step * pitch, *v = k + step * pitch;
    const int next = j + step;
    float s[N][4], ds[N][4];
    copies_wait();
    __syncthreads(); /* this tile is there, and the other buffer no longer needed */
    buffer = (buffer + 1) % tiles_held;
    float *const to = tiles + buffer * 2 * step * pitch;
    if (tiles_held > 1 && next < end)
      stage_float_pair<D, step>(to, p.k, p.v, keys + next, p.t - next, p);
    two_float_scores<D>(s, q + own * pitch, k, ds, dy + own * pitch, v);
    float_grads<N>(
        p, at, s, ds, !p.mask && !p.bias && next <= unseen,
        [&](int n, int e) {
          return make_int2(first + own + score_row(e), j + n * 8 + score_column(e));
        },
        [&](int, int e) { return make_float2(lse[e / 2], delta[e / 2]); });
    add_weighted<D, N>(dq, one, ds, k);
    if (tiles_held > 1 || next >= end) continue;
    __syncthreads();
    stage_float_pair<D, step>(to, p.k, p.v, keys + next, p.t - next, p);
  }
  copies_wait();
  store_floats<D>((float *)p.out + queries * p.d, dq, scale, own, rows, p);
}

template <int D>
__global__ void __launch_bounds__(float_threads, D <= 64 ? 3 : 2)
    key_grad_floats(const __grid_constant__ attention_params p) {
  constexpr int pitch = float_pitch<D>, step = float_grad_step<D>, N = step / 8;
  constexpr int tiles_held = float_grad_tiles<D>;
  extern __shared__ __align__(16) unsigned char memory[];
  float *k = (float *)memory, *v = k + float_rows * pitch;
  float *tiles = v + float_rows * pitch;
  const int64_t group = blockIdx.x / p.blocks;
  const int j = (int)(blockIdx.x % p.blocks) * float_rows;
  const int rows = least(float_rows, p.t - j), own = (int)threadIdx.x / 32 * 16;
  const int64_t keys = group * p.t + j;
  const query_tiles list(p, group, j, step);
  const int count = list.count(p);
  const auto load_queries = [&](int x, int buffer) {
    const int i = list.first(x);
    stage_float_pair<D, step>(tiles + buffer * 2 * step * pitch, p.q, p.dy,
                              list.place(p, x).head * p.s + i, p.s - i, p);
  };
  const float one[2] = {1, 1}, scale[2] = {(float)p.scale, (float)p.scale};
  float dk[D / 8][4], dv[D / 8][4];
  clear_floats(dk);
  clear_floats(dv);
  stage_float_pair<D, float_rows>(k, p.k, p.v, keys, rows, p);
  if (count > 0) load_queries(0, 0);
  for (int x = 0, buffer = 0; x < count; x++) {
    const float *q = tiles + buffer * 2 * step * pitch, *dy = q + step * pitch;
    const attention_place at = list.place(p, x);
    const int i0 = list.first(x);
    float s[N][4], ds[N][4];
    copies_wait();
    __syncthreads();
    buffer = (buffer + 1) % tiles_held;
    if (tiles_held > 1 && x + 1 < count) load_queries(x + 1, buffer);
    two_float_scores<D>(s, k + own * pitch, q, ds, v + own * pitch, dy);
    float2 of_query[2 * N]; /* its lse and delta */
#pragma unroll
    for (int n = 0; n < 2 * N; n++) {
      const int i = i0 + n / 2 * 8 + score_column(n % 2);
      const int64_t query = at.head * p.s + i;
      of_query[n].x = i < p.s ? ((const float *)p.lse_in)[query] : 0.f;
      of_query[n].y = i < p.s ? ((const float *)p.delta)[query] : 0.f;
    }
    float_grads<N>(
        p, at, s, ds,
        !p.mask && !p.bias && i0 + step <= p.s && j + float_rows <= keys_seen(p, i0 + 1),
        [&](int n, int e) {
          return make_int2(i0 + n * 8 + score_column(e), j + own + score_row(e));
        },
        [&](int n, int e) { return of_query[2 * n + e % 2]; });
    add_weighted<D, N>(dv, one, s, dy);
    add_weighted<D, N>(dk, one, ds, q);
    if (tiles_held > 1 || x + 1 >= count) continue;
    __syncthreads();
    load_queries(x + 1, buffer);
  }
  copies_wait();
  store_floats<D>((float *)p.dk + keys * p.d, dk, scale, own, rows, p);
  store_floats<D>((float *)p.dv + keys * p.d, dv, one, own, rows, p);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_GRAD_FLOAT_CUH */
