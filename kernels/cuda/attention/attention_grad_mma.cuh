/*
 * The gradient of attention on tensor cores, for the 16-bit floats and vectors of up to 128
 * elements: one kernel over queries for dq, one over keys for dk and dv. A warp owns 16
 * rows of what its block sums; the other side passes through shared memory in tiles, the
 * next arriving while one is worked on. Over keys, scores are computed transposed, so that
 * an accumulator is at once the left operand of the next product.
 */
#ifndef KERNELS_CUDA_ATTENTION_GRAD_MMA_CUH
#define KERNELS_CUDA_ATTENTION_GRAD_MMA_CUH

#include "kernels/cuda/attention/attention_mma.cuh"

namespace {

enum { grad_rows = 64, grad_threads = 128 };

/* Rows of the side that passes through. */
template <int D> struct grad_step { static constexpr int value = D <= 64 ? 64 : 32; };

/* s = a b^T for 16 rows a and 8 N rows b in shared memory. */
template <class T, int D, int N>
__device__ __forceinline__ void products(float (&s)[N][4], const T *a, const T *b) {
  constexpr int pitch = D + 8;
  int lane = threadIdx.x % 32;
  const T *left = a + (lane & 15) * pitch + (lane >> 4) * 8;
  const T *right = b + ((lane & 7) + (lane >> 4) * 8) * pitch + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) s[n][e] = 0;
#pragma unroll
  for (int x = 0; x < D / 16; x++) {
    uint32_t l[4];
    load_matrices(l, left + x * 16);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t r[4];
      load_matrices(r, right + n * 8 * pitch + x * 16);
      multiply_add(s[n], l, r[0], r[1], T());
      multiply_add(s[n + 1], l, r[2], r[3], T());
    }
  }
}

/* y += s x for 8 N rows x in shared memory. */
template <class T, int D, int N>
__device__ __forceinline__ void add_products(float (&y)[D / 8][4], const float (&s)[N][4],
                                             const T *x) {
  constexpr int pitch = D + 8;
  int lane = threadIdx.x % 32;
  const T *at = x + (lane & 15) * pitch + (lane >> 4) * 8;
#pragma unroll
  for (int k = 0; k < N / 2; k++) {
    uint32_t a[4] = {pair_of(s[2 * k][0], s[2 * k][1], T()), pair_of(s[2 * k][2], s[2 * k][3], T()),
                     pair_of(s[2 * k + 1][0], s[2 * k + 1][1], T()),
                     pair_of(s[2 * k + 1][2], s[2 * k + 1][3], T())};
#pragma unroll
    for (int c = 0; c < D / 8; c += 2) {
      uint32_t r[4];
      load_transposed(r, at + k * 16 * pitch + c * 8);
      multiply_add(y[c], a, r[0], r[1], T());
      multiply_add(y[c + 1], a, r[2], r[3], T());
    }
  }
}

/* The weight of query i and key j, given their product. */
template <class T>
__device__ __forceinline__ float weight_of(const attention_params &p, const attention_place &at,
                                           int i, int j, float product, float lse, bool plain) {
  float score = plain ? product * (float)p.scale : score_of<T>(p, at, i, j, product);
  return score == -INFINITY ? 0.f : exp2f(1.44269504f * (score - lse));
}

/* The gradient by a score, without the factor `scale`. */
__device__ __forceinline__ float score_grad(float weight, float product, float delta) {
  return weight == 0 ? 0.f : weight * (product - delta);
}

/* Writes a warp's 16 rows, times `factor`. */
template <class T, int D>
__device__ __forceinline__ void store_rows(T *to, const float (&y)[D / 8][4], float factor, int row,
                                           int rows, const attention_params &p) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int r = row + lane / 4 + half * 8;
    if (r >= rows) continue;
    T *at = to + (int64_t)r * p.d;
#pragma unroll
    for (int c = 0; c < D / 8; c++) {
      int column = c * 8 + lane % 4 * 2;
      float low = y[c][2 * half] * factor, high = y[c][2 * half + 1] * factor;
      if (p.wide && column < p.d) {
        *(uint32_t *)(at + column) = pair_of(low, high, T());
      } else {
        if (column < p.d) at[column] = stored<T>::from(low);
        if (column + 1 < p.d) at[column + 1] = stored<T>::from(high);
      }
    }
  }
}

template <int D> __device__ __forceinline__ void clear(float (&y)[D / 8][4]) {
#pragma unroll
  for (int c = 0; c < D / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) y[c][e] = 0;
}

/* A tile of the side that passes through: two lists of rows in one of two buffers. */
template <class T, int D>
__device__ __forceinline__ void stage_pair(T *to, const T *a, const T *b, int64_t from, int rows,
                                           const attention_params &p) {
  constexpr int step = grad_step<D>::value, pitch = D + 8;
  stage_rows<T, D>(to, a + from * p.d, rows, step, p);
  stage_rows<T, D>(to + step * pitch, b + from * p.d, rows, step, p);
}

template <int D> constexpr size_t grad_shared_bytes() {
  return (size_t)(2 * grad_rows + 4 * grad_step<D>::value) * (D + 8) * 2;
}

/* --------------------------------------------------------------------- dq --- */

template <class T, int D>
__global__ void __launch_bounds__(grad_threads)
    query_grad_mma(const __grid_constant__ attention_params p) {
  constexpr int step = grad_step<D>::value, pitch = D + 8, N = step / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  T *q = (T *)memory, *dy = q + grad_rows * pitch, *tiles = dy + grad_rows * pitch;
  attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * grad_rows;
  int rows = least(grad_rows, p.s - first), end = keys_seen(p, first + rows);
  int own = (int)threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  int64_t queries = at.head * p.s + first, keys = at.group * p.t;
  float lse[2], delta[2], dq[D / 8][4];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    int r = own + lane / 4 + half * 8;
    lse[half] = r < rows ? ((const float *)p.lse_in)[queries + r] : 0.f;
    delta[half] = r < rows ? ((const float *)p.delta)[queries + r] : 0.f;
  }
  clear<D>(dq);
  stage_rows<T, D>(q, (const T *)p.q + queries * p.d, rows, grad_rows, p);
  stage_rows<T, D>(dy, (const T *)p.dy + queries * p.d, rows, grad_rows, p);
  if (end > 0) stage_pair<T, D>(tiles, (const T *)p.k, (const T *)p.v, keys, least(step, p.t), p);
  for (int j = 0, buffer = 0; j < end; j += step, buffer ^= 1) {
    float s[N][4], ds[N][4];
    const T *k = tiles + buffer * 2 * step * pitch, *v = k + step * pitch;
    copies_wait();
    __syncthreads(); /* this tile is there, and the other buffer no longer needed */
    if (j + step < end)
      stage_pair<T, D>(tiles + (buffer ^ 1) * 2 * step * pitch, (const T *)p.k, (const T *)p.v,
                       keys + j + step, least(step, p.t - j - step), p);
    products<T, D, N>(s, q + own * pitch, k);
    products<T, D, N>(ds, dy + own * pitch, v);
    bool plain = !p.mask && !p.bias && j + step <= keys_seen(p, first + 1);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float weight = weight_of<T>(p, at, first + own + lane / 4 + e / 2 * 8,
                                    j + n * 8 + lane % 4 * 2 + e % 2, s[n][e], lse[e / 2], plain);
        ds[n][e] = score_grad(weight, ds[n][e], delta[e / 2]);
      }
    add_products<T, D, N>(dq, ds, k);
  }
  store_rows<T, D>((T *)p.out + queries * p.d, dq, (float)p.scale, own, rows, p);
}

/* -------------------------------------------------------------- dk and dv --- */

template <class T, int D>
__global__ void __launch_bounds__(grad_threads)
    key_grad_mma(const __grid_constant__ attention_params p) {
  constexpr int step = 32, pitch = D + 8, N = step / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  T *k = (T *)memory, *v = k + grad_rows * pitch, *tiles = v + grad_rows * pitch;
  int64_t group = blockIdx.x / p.blocks, b = group / p.groups;
  int shared = p.heads / p.groups, h = (int)(group % p.groups) * shared;
  int j = (int)(blockIdx.x % p.blocks) * grad_rows, rows = least(grad_rows, p.t - j);
  int own = (int)threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  /* The first tile of queries that sees key j, and how many tiles there are. */
  int64_t blind = p.causal ? (int64_t)j - p.shift : 0;
  int begin = blind <= 0 ? 0 : blind < p.s ? (int)blind / step * step : p.s;
  int per_head = (p.s - begin + step - 1) / step, count = shared * per_head;
  int64_t keys = group * p.t + j, heads = b * p.heads + h;
  float dk[D / 8][4], dv[D / 8][4];
  clear<D>(dk);
  clear<D>(dv);
  stage_rows<T, D>(k, (const T *)p.k + keys * p.d, rows, grad_rows, p);
  stage_rows<T, D>(v, (const T *)p.v + keys * p.d, rows, grad_rows, p);
  auto stage = [&](int tile) {
    int i = begin + tile % per_head * step, n = least(step, p.s - i);
    T *to = tiles + tile % 2 * 2 * step * pitch;
    int64_t from = ((heads + tile / per_head) * p.s + i) * p.d;
    stage_rows<T, D>(to, (const T *)p.q + from, n, step, p);
    stage_rows<T, D>(to + step * pitch, (const T *)p.dy + from, n, step, p);
  };
  if (count > 0) stage(0);
  for (int tile = 0; tile < count; tile++) {
    float s[N][4], ds[N][4];
    const T *q = tiles + tile % 2 * 2 * step * pitch, *dy = q + step * pitch;
    attention_place at = place_of_head(p, heads + tile / per_head);
    int i0 = begin + tile % per_head * step;
    copies_wait();
    __syncthreads();
    if (tile + 1 < count) stage(tile + 1);
    products<T, D, N>(s, k + own * pitch, q);
    products<T, D, N>(ds, v + own * pitch, dy);
    bool plain = !p.mask && !p.bias && j + grad_rows <= keys_seen(p, i0 + 1);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int column = 0; column < 2; column++) {
        int i = i0 + n * 8 + lane % 4 * 2 + column;
        int64_t query = at.head * p.s + i;
        float lse = i < p.s ? ((const float *)p.lse_in)[query] : 0.f;
        float delta = i < p.s ? ((const float *)p.delta)[query] : 0.f;
#pragma unroll
        for (int e = column; e < 4; e += 2) {
          float weight =
              weight_of<T>(p, at, i, j + own + lane / 4 + e / 2 * 8, s[n][e], lse, plain);
          ds[n][e] = score_grad(weight, ds[n][e], delta);
          s[n][e] = weight;
        }
      }
    add_products<T, D, N>(dv, s, dy);
    add_products<T, D, N>(dk, ds, q);
  }
  store_rows<T, D>((T *)p.dk + keys * p.d, dk, (float)p.scale, own, rows, p);
  store_rows<T, D>((T *)p.dv + keys * p.d, dv, 1.f, own, rows, p);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_GRAD_MMA_CUH */
