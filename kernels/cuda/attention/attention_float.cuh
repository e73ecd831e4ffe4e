/*
 * Products of float32 on tensor cores for attention, at float32's accuracy: a number is a sum of
 * two of TF32, and of the four products of two such sums all but the least are added (Ootomo and
 * Yokota 2022, arXiv 2203.03341). Since tensor cores cut what they add instead of rounding it,
 * their sums are short, of a vector or of a tile's keys, and are added to the running ones outside.
 *
 * Rows lie in shared memory with a pitch of 8 modulo 32 floats, and a warp takes 8 rows in the
 * order 0 2 1 3 6 4 7 5 (`turned`): so reads of 16 bytes meet no bank twice both along rows, as
 * factors of a score, and across them, as what weights are multiplied with.
 */
#ifndef KERNELS_CUDA_ATTENTION_FLOAT_CUH
#define KERNELS_CUDA_ATTENTION_FLOAT_CUH

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/base/mma.cuh"

namespace {

enum { float_warps = 4, float_threads = 32 * float_warps, float_rows = 16 * float_warps };

/* Floats from one row to the next. */
template <int D> constexpr int float_pitch = D + 8;

/* Which of 8 rows is a warp's i-th. An accumulator's columns 2 t and 2 t + 1 are rows of its right
 * operand, and so are the terms of the next product. */
__device__ __forceinline__ int turned(int i) {
  return i % 2 != 0 ? i / 2 + 2 : i < 4 ? i / 2 : i / 2 + 4;
}

/* The row and the column of element e of a fragment in a tile of 16 by 8 scores. */
__device__ __forceinline__ int score_row(int e) {
  return turned((int)threadIdx.x % 32 / 4) + e / 2 * 8;
}
__device__ __forceinline__ int score_column(int e) {
  return turned((int)threadIdx.x % 4 * 2 + e % 2);
}

/* N numbers, each as the sum of two of TF32, of which multiples of 2^-136 are the least. `crossed`
 * is what meets the other number's `low`: the high part, but for Inf. */
template <int N> struct split_floats { uint32_t high[N], low[N], crossed[N]; };

/* INFINITE: Inf and numbers beyond the last of TF32 are right, too, but for Inf times what is less
 * than 2^-136; they are NaN otherwise. All 16 rows that a warp has are computed so where one is
 * NaN, and may then differ in their last bits. */
template <bool INFINITE, int N>
__device__ __forceinline__ void split(split_floats<N> &s, int i, float x) {
  constexpr uint32_t kept = 0xffffe000, half = 0x1000; /* half of the last bit that is kept */
  const uint32_t bits = __float_as_uint(x), high = (INFINITE ? bits : bits + half) & kept;
  const float low = x - __uint_as_float(high);
  const bool infinite = INFINITE && fabsf(x) == INFINITY;
  s.high[i] = high;
  s.crossed[i] = infinite ? 0 : high;
  s.low[i] = infinite ? 0 : __float_as_uint(low);
}

/* Four floats at 16 bytes. */
__device__ __forceinline__ void load_4(float (&x)[4], const float *at) {
  const float4 v = *(const float4 *)at;
  x[0] = v.x;
  x[1] = v.y;
  x[2] = v.z;
  x[3] = v.w;
}

/* c[j] += a b[j] for M tiles of 8 columns, of which b has two numbers each, from b[first] on,
 * `step` from tile to tile; products of small parts come first. */
template <int M, int L, int R>
__device__ __forceinline__ void multiply_add_split(float (&c)[M][4], const split_floats<L> &a,
                                                   int left, const split_floats<R> &b, int first,
                                                   int second, int step) {
  const auto four = [left](const uint32_t(&x)[L], uint32_t(&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = x[left + i];
  };
  uint32_t high[4], low[4], crossed[4];
  four(a.high, high);
  four(a.low, low);
  four(a.crossed, crossed);
#pragma unroll
  for (int j = 0; j < M; j++)
    multiply_add(c[j], low, b.crossed[first + j * step], b.crossed[second + j * step], float());
#pragma unroll
  for (int j = 0; j < M; j++)
    multiply_add(c[j], crossed, b.low[first + j * step], b.low[second + j * step], float());
#pragma unroll
  for (int j = 0; j < M; j++)
    multiply_add(c[j], high, b.high[first + j * step], b.high[second + j * step], float());
}

template <int M> __device__ __forceinline__ void clear_floats(float (&c)[M][4]) {
#pragma unroll
  for (int j = 0; j < M; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) c[j][e] = 0;
}

/* Whether any lane has a sum that is NaN. */
template <int M> __device__ __forceinline__ bool any_nan(const float (&c)[M][4]) {
  bool found = false;
#pragma unroll
  for (int j = 0; j < M; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) found |= c[j][e] != c[j][e];
  return __any_sync(0xffffffffu, found);
}

/* s += a b^T for M tiles of 8 rows b and 16 terms, of which a thread reads 4 t to 4 t + 3. */
template <bool INFINITE, int D, int M>
__device__ __forceinline__ void add_scores(float (&s)[M][4], const float *a, const float *b) {
  constexpr int pitch = float_pitch<D>;
  const int lane = threadIdx.x % 32, at = turned(lane / 4) * pitch + lane % 4 * 4;
  split_floats<8> left; /* of each step two terms of two rows */
  split_floats<4 * M> right;
  float rows[2][4];
#pragma unroll
  for (int half = 0; half < 2; half++) load_4(rows[half], a + at + half * 8 * pitch);
#pragma unroll
  for (int i = 0; i < 8; i++) split<INFINITE>(left, i, rows[i % 2][i / 4 * 2 + i / 2 % 2]);
#pragma unroll
  for (int j = 0; j < M; j++) {
    float row[4];
    load_4(row, b + at + j * 8 * pitch);
#pragma unroll
    for (int i = 0; i < 4; i++) split<INFINITE>(right, 4 * j + i, row[i]);
  }
#pragma unroll
  for (int step = 0; step < 2; step++)
    multiply_add_split<M>(s, left, 4 * step, right, 2 * step, 2 * step + 1, 4);
}

template <bool INFINITE, int D, int M>
__device__ __forceinline__ void sum_scores(float (&s)[M][4], const float *a, const float *b) {
  clear_floats(s);
#pragma unroll 2
  for (int x = 0; x < D; x += 16) add_scores<INFINITE, D, M>(s, a + x, b + x);
}

/* s = a b^T of 16 rows a and 8 N rows b in shared memory. */
template <int D, int N>
__device__ __forceinline__ void float_scores(float (&s)[N][4], const float *a, const float *b) {
  sum_scores<false, D>(s, a, b);
  if (any_nan(s)) sum_scores<true, D>(s, a, b);
}

template <bool INFINITE, int D, int N>
__device__ __forceinline__ void sum_two_scores(float (&s)[N][4], const float *a, const float *b,
                                               float (&t)[N][4], const float *c, const float *d) {
  clear_floats(s);
  clear_floats(t);
#pragma unroll 2
  for (int x = 0; x < D; x += 16) {
    add_scores<INFINITE, D>(s, a + x, b + x);
    add_scores<INFINITE, D>(t, c + x, d + x);
  }
}

/* s = a b^T and t = c d^T in turns, so that neither waits for itself. */
template <int D, int N>
__device__ __forceinline__ void two_float_scores(float (&s)[N][4], const float *a, const float *b,
                                                 float (&t)[N][4], const float *c, const float *d) {
  sum_two_scores<false, D>(s, a, b, t, c, d);
  if (any_nan(s) || any_nan(t)) sum_two_scores<true, D>(s, a, b, t, c, d);
}

/* sums = w x for columns 4 g to 4 g + 3 of 32: four tiles, of every fourth column. */
template <bool INFINITE, int D, int N>
__device__ __forceinline__ void sum_weighted(float (&sums)[4][4], const float (&w)[N][4],
                                             const float *x) {
  constexpr int pitch = float_pitch<D>;
  const int lane = threadIdx.x % 32, across = lane / 4 * 4;
  clear_floats(sums);
#pragma unroll
  for (int n = 0; n < N; n++) {
    split_floats<4> left;
    split_floats<8> right;
#pragma unroll
    for (int i = 0; i < 4; i++) split<INFINITE>(left, i, w[n][i % 2 * 2 + i / 2]);
#pragma unroll
    for (int term = 0; term < 2; term++) {
      float row[4];
      load_4(row, x + (n * 8 + score_column(term)) * pitch + across);
#pragma unroll
      for (int i = 0; i < 4; i++) split<INFINITE>(right, 4 * term + i, row[i]);
    }
    multiply_add_split<4>(sums, left, 0, right, 0, 4, 1);
  }
}

/* y = y factor + w x for 8 N rows x. Element e of y[4 c + i] is column 32 c + 8 t + 4 (e % 2) + i.
 */
template <int D, int N>
__device__ __forceinline__ void add_weighted(float (&y)[D / 8][4], const float (&factor)[2],
                                             const float (&w)[N][4], const float *x) {
#pragma unroll
  for (int c = 0; c < D / 32; c++) {
    float sums[4][4];
    sum_weighted<false, D, N>(sums, w, x + 32 * c);
    if (any_nan(sums)) sum_weighted<true, D, N>(sums, w, x + 32 * c);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        y[4 * c + i][e] = fmaf(y[4 * c + i][e], factor[e / 2], sums[i][e]);
  }
}

/* Begins to copy COUNT rows to shared memory, the first `rows` of them from `from`. */
template <int D, int COUNT>
__device__ __forceinline__ void stage_floats(float *to, const float *from, int rows,
                                             const attention_params &p) {
  constexpr int across = D / 4, down = float_threads / across;
  static_assert(COUNT % down == 0, "each thread copies as much");
  const int first = threadIdx.x / across, c = threadIdx.x % across * 4;
  if (p.wide) {
    const float *x = from + (int64_t)first * p.d + c;
    const int64_t next = (int64_t)down * p.d;
    if (c >= p.d) rows = 0;
#pragma unroll
    for (int i = 0; i < COUNT / down; i++, x += next) {
      const bool valid = first + i * down < rows;
      copy_16(to + (first + i * down) * float_pitch<D> + c, valid ? x : from, valid);
    }
  } else {
#pragma unroll 1
    for (int r = first; r < COUNT; r += down)
#pragma unroll
      for (int e = 0; e < 4; e++)
        to[r * float_pitch<D> + c + e] =
            r < rows && c + e < p.d ? from[(int64_t)r * p.d + c + e] : 0.f;
  }
  copies_commit();
}

/* Writes a warp's 16 rows from `row` on, of `rows` to write, each times its factor. */
template <int D>
__device__ __forceinline__ void store_floats(float *to, const float (&y)[D / 8][4],
                                             const float (&factor)[2], int row, int rows,
                                             const attention_params &p) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int r = row + score_row(2 * half);
    if (r >= rows) continue;
    float *at = to + (int64_t)r * p.d;
#pragma unroll
    for (int c = 0; c < D / 32; c++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int column = 32 * c + lane % 4 * 8 + 4 * e;
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = y[4 * c + i][2 * half + e] * factor[half];
        if (p.wide && column < p.d)
          *(float4 *)(at + column) = make_float4(v[0], v[1], v[2], v[3]);
        else
#pragma unroll
          for (int i = 0; i < 4; i++)
            if (column + i < p.d) at[column + i] = v[i];
      }
  }
}

/* -------------------------------------------------------------- forward --- */

/* Keys pass by so many at once. */
enum { float_keys = 32 };

template <int D> constexpr size_t float_shared_bytes() {
  return (size_t)(float_rows + 2 * float_keys) * float_pitch<D> * sizeof(float);
}

/* e^(x - base), 0 where that is below 2^-126. The difference comes first: scores may be as large as
 * floats are, and so may all of them. */
__device__ __forceinline__ float weight_over(float x, float base) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"((x - base) * 1.44269504f));
  return y;
}

/* A warp's softmax: maxima, and sums of this thread's own columns. */
struct float_softmax {
  float top[2], sum[2];
};

/* Products become weights; gives what earlier sums are to be multiplied with. */
template <int N>
__device__ __forceinline__ void soften_floats(float (&s)[N][4], float_softmax &w,
                                              float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float top = w.top[half], sum = 0;
#pragma unroll
    for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0.f : top;
    factor[half] = weight_over(w.top[half], base);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; e++) sum += s[n][e] = weight_over(s[n][e], base);
    w.top[half] = top;
    w.sum[half] = w.sum[half] * factor[half] + sum;
  }
}

/* One block computes 64 queries of a head; late ones, which may see most, come first. */
template <int D>
__global__ void __launch_bounds__(float_threads, D <= 64 ? 4 : 3)
    attend_floats(const __grid_constant__ attention_params p) {
  constexpr int pitch = float_pitch<D>, step = float_keys, N = step / 8;
  extern __shared__ __align__(16) unsigned char memory[];
  float *q = (float *)memory, *k = q + float_rows * pitch, *v = k + step * pitch;
  const attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  const int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * float_rows;
  const int own = (int)threadIdx.x / 32 * 16, rows = least(float_rows, p.s - first);
  const int end = keys_seen(p, first + rows), unseen = keys_seen(p, first + 1);
  const float *keys = (const float *)p.k + at.group * p.t * p.d;
  const float *values = (const float *)p.v + at.group * p.t * p.d;
  const float scale = (float)p.scale;
  float_softmax w = {{-INFINITY, -INFINITY}, {0, 0}};
  float y[D / 8][4], factor[2];
  clear_floats(y);
  stage_floats<D, float_rows>(q, (const float *)p.q + (at.head * p.s + first) * p.d, rows, p);
  if (end > 0) stage_floats<D, step>(k, keys, p.t, p);
  for (int j = 0; j < end; j += step) {
    float s[N][4];
    copies_wait();
    __syncthreads(); /* keys are there, and the last values no longer needed */
    stage_floats<D, step>(v, values + (int64_t)j * p.d, p.t - j, p);
    float_scores<D, N>(s, q + own * pitch, k);
    if (!p.mask && !p.bias && j + step <= unseen) {
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[n][e] *= scale;
    } else {
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          s[n][e] = score_of<float>(p, at, first + own + score_row(e), j + n * 8 + score_column(e),
                                    s[n][e]);
    }
    soften_floats(s, w, factor);
    copies_wait();
    __syncthreads(); /* values are there, and the keys no longer needed */
    if (j + step < end)
      stage_floats<D, step>(k, keys + (int64_t)(j + step) * p.d, p.t - j - step, p);
    add_weighted<D, N>(y, factor, s, v);
  }
  copies_wait();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = w.sum[half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    factor[half] = sum == 0 ? 0.f : 1 / sum;
    const int row = own + score_row(2 * half);
    if (p.lse && row < rows && threadIdx.x % 4 == 0)
      ((float *)p.lse)[at.head * p.s + first + row] =
          sum == 0 ? -INFINITY : w.top[half] + logf(sum);
  }
  store_floats<D>((float *)p.out + (at.head * p.s + first) * p.d, y, factor, own, rows, p);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_FLOAT_CUH */
