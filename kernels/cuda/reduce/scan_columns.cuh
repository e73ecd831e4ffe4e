/*
 * Scans of columns that lie side by side, in tiles of `strip_rows` rows by at most 256 bytes: a
 * warp to some rows, a thread to up to 8 bytes of each. A block has the tiles of its columns one
 * after the other, or one of them and waits for what its columns come to before it, which the block
 * above publishes. Otherwise a thread owns a line or a piece of it: a first kernel finds what each
 * piece comes to, a second one begins each piece with what stands before it. Results are joined in
 * the order of the scan: the same call gives the same bits. Included by scan.cu alone.
 */
#ifndef KERNELS_CUDA_REDUCE_SCAN_COLUMNS_CUH
#define KERNELS_CUDA_REDUCE_SCAN_COLUMNS_CUH

#include "kernels/cuda/reduce/scan.cuh"

namespace {

enum {
  strip_warps = threads / 32,
  strip_share = 32, /* rows of a warp */
  strip_rows = strip_warps * strip_share,
  strip_bytes = 8,      /* of a row, of a thread, at the most */
  strip_out_bytes = 16, /* of its results, which a warp writes side by side then */
  strip_least_rows = strip_rows / 4,
  strip_least_columns = 32,
};

/* Elements of a row that a thread has, by the bytes of an element and of the widest result. */
__host__ __device__ constexpr int strip_width(int raw, int out) {
  return most(1, least(strip_bytes / raw, strip_out_bytes / out));
}

template <class S> struct strip_of : scanned<S> {
  using raw = typename scanned<S>::raw;
  using wrote = typename scanned<S>::wrote;
  static constexpr int width =
      strip_width(sizeof(raw), S::places ? (int)sizeof(int64_t) : (int)sizeof(wrote));
  static constexpr int columns = 32 * width;
  using pack_in = pack<raw, width>;
  using pack_out = pack<wrote, width>;
  /* The elements; what the columns of each warp's rows come to, and what stands before the tile. */
  static constexpr int room_bytes = strip_share * threads * (int)sizeof(pack_in);
  static constexpr int bytes =
      room_bytes + (strip_warps + 1) * columns * (int)sizeof(typename S::A);
};

/* strip_of<S>::columns, from types known at run time. */
int64_t strip_columns(const tn_kernel_args *args) {
  const DLDataType type = args->in[0]->dtype;
  const bool real = type.code == kDLFloat || type.code == kDLBfloat;
  const int out = args->kernel->op == TN_OP_CUMMAX || !real ? 64 : args->out[0]->dtype.bits;
  return 32 * strip_width(real ? type.bits / 8 : 8, out / 8);
}

/* This thread's elements of a tile, `count` rows, `step` elements apart, of up to `left` columns,
 * to shared memory, where only this thread reads them: registers hold what they are summed in,
 * which takes up to four times as much. */
template <class S>
__device__ __forceinline__ void strip_read(const S &s, const void *x, int64_t at, int64_t step,
                                           int count, int64_t left, bool packs,
                                           typename strip_of<S>::pack_in *room) {
  using Strip = strip_of<S>;
  using raw = typename Strip::raw;
  const raw neutral = Strip::neutral(s);
#pragma unroll 8
  for (int k = 0; k < strip_share; k++, at += step) {
    typename Strip::pack_in *to = room + k * threads;
    if (!Strip::any && packs && k < count && left > 0) {
      if constexpr (!Strip::any) copy_few<sizeof *to>(to, (const raw *)x + at);
      continue;
    }
#pragma unroll
    for (int j = 0; j < Strip::width; j++)
      to->v[j] = k < count && j < left ? Strip::fetch(s, x, at + j) : neutral;
  }
  copies_wait();
}

/* What this thread's elements of each of its columns come to. */
template <class S>
__device__ __forceinline__ void
strip_total(const S &s, int64_t i, const typename strip_of<S>::pack_in *room, typename S::A *a) {
  using Strip = strip_of<S>;
  using A = typename S::A;
  constexpr int V = Strip::width;
  s.each_way([&](auto how) {
    if constexpr (S::nears) {
      near_join<decltype(how)> near[V];
      bool holds = true;
#pragma unroll
      for (int j = 0; j < V; j++) near[j].begin(s.neutral());
#pragma unroll 4
      for (int k = 0; k < strip_share; k++) {
        const typename Strip::pack_in v = room[k * threads];
#pragma unroll
        for (int j = 0; j < V; j++) near[j].take(load(v.v[j]));
      }
#pragma unroll
      for (int j = 0; j < V; j++) {
        a[j] = near[j].value;
        holds = holds && near[j].holds();
      }
      if (holds) return;
    }
#pragma unroll(S::nears ? 1 : 2)
    for (int k = 0; k < strip_share; k++) {
      const typename Strip::pack_in v = room[k * threads];
#pragma unroll
      for (int j = 0; j < V; j++) {
        const A own = Strip::read(s, v.v[j], i + k);
        a[j] = k == 0 ? own : how.take(a[j], own);
      }
    }
  });
}

template <class S>
__device__ __forceinline__ void strip_put(const S &s, void *y, int64_t at, int64_t left, bool packs,
                                          const typename strip_of<S>::pack_out &w) {
  using Strip = strip_of<S>;
  if (!Strip::any && packs) {
    *(typename Strip::pack_out *)((typename Strip::wrote *)y + at) = w;
    return;
  }
#pragma unroll
  for (int j = 0; j < Strip::width; j++)
    if (j < left) Strip::put(s, y, at + j, w.v[j]);
}

/* By the threads that have a column each: what stands before each warp's rows, and before the
 * tile. `carry` is what the column comes to so far where a block walks; else the tile before says
 * it, and so does this one to the next. */
template <class S>
__device__ __forceinline__ void strip_join(const S &s, typename S::A *part, typename S::A *first,
                                           int64_t column, int64_t t, const scan_plan &p,
                                           const published &results, typename S::A *carry) {
  using A = typename S::A;
  constexpr int columns = strip_of<S>::columns;
  const int64_t lines = p.outer * p.inner;
  A all = s.init();
#pragma unroll
  for (int w = 0; w < strip_warps; w++) {
    A own = part[w * columns];
    part[w * columns] = all;
    all = s.join(all, own);
  }
  A before = *carry;
  if (!p.walks && t > 0) before = published_get<A>(results, (size_t)((t - 1) * lines + column));
  *first = before;
  *carry = s.join(before, all);
  if (!p.walks && t + 1 < p.tiles) published_put(results, (size_t)(t * lines + column), *carry);
}

/* Scans this thread's elements from `a` on, in float; false if that does not hold what comes of
 * it. */
template <class S, class How>
__device__ __forceinline__ bool strip_write_near(const S &s, How, void *y, int64_t at, int64_t step,
                                                 int count, int64_t left, const scan_plan &p,
                                                 const typename strip_of<S>::pack_in *room,
                                                 const typename S::A *a) {
  using Strip = strip_of<S>;
  constexpr int V = Strip::width;
  near_join<How> near[V];
#pragma unroll
  for (int j = 0; j < V; j++) near[j].begin((float)a[j]);
#pragma unroll 4
  for (int k = 0; k < strip_share; k++, at += step) {
    typename Strip::pack_in v = room[k * threads];
#pragma unroll
    for (int j = 0; j < V; j++) {
      const float before = near[j].value;
      near[j].take(load(v.v[j]));
      v.v[j] = stored<typename Strip::raw>::from(p.exclusive ? before : near[j].value);
    }
    if (k < count) strip_put(s, y, at, left, p.packs, v);
  }
  bool holds = true;
#pragma unroll
  for (int j = 0; j < V; j++) holds = holds && near[j].holds();
  return holds;
}

/* Places of maxima, of the rows of which the first is `at`. */
template <class S>
__device__ __forceinline__ void strip_put_places(const S &s, int64_t *index, int64_t at,
                                                 int64_t left, const scan_plan &p,
                                                 const typename S::A *a) {
  constexpr int V = strip_of<S>::width;
  pack<int64_t, V> w;
#pragma unroll
  for (int j = 0; j < V; j++) {
    const int64_t place = s.where(a[j]);
    w.v[j] = p.reverse ? p.n - 1 - place : place;
  }
  if (p.packs) {
    *(pack<int64_t, V> *)(index + at) = w;
    return;
  }
#pragma unroll
  for (int j = 0; j < V; j++)
    if (j < left) index[at + j] = w.v[j];
}

/* Scans this thread's elements from `a` on. */
template <class S>
__device__ __forceinline__ void
strip_write(const S &s, void *y, int64_t *index, int64_t at, int64_t step, int64_t i, int count,
            int64_t left, const scan_plan &p, const typename strip_of<S>::pack_in *room,
            typename S::A *a) {
  using Strip = strip_of<S>;
  using A = typename S::A;
  constexpr int V = Strip::width;
  s.each_way([&](auto how) {
    if constexpr (S::nears) {
      if (strip_write_near(s, how, y, at, step, count, left, p, room, a)) return;
    }
#pragma unroll(S::nears ? 1 : 2)
    for (int k = 0; k < strip_share; k++, at += step) {
      const typename Strip::pack_in v = room[k * threads];
      typename Strip::pack_out w;
#pragma unroll
      for (int j = 0; j < V; j++) {
        const A before = a[j];
        a[j] = how.take(a[j], Strip::read(s, v.v[j], i + k));
        w.v[j] = Strip::written(s, p.exclusive ? before : a[j]);
      }
      if (k >= count) continue;
      strip_put(s, y, at, left, p.packs, w);
      if constexpr (S::places) {
        if (index) strip_put_places(s, index, at, left, p, a);
      }
    }
  });
}

template <class S>
__global__ void __launch_bounds__(threads, 3)
    scan_strips(S s, const void *x, void *y, int64_t *index, const __grid_constant__ scan_plan p,
                const __grid_constant__ published results) {
  using Strip = strip_of<S>;
  using A = typename S::A;
  constexpr int V = Strip::width, columns = Strip::columns;
  extern __shared__ uint4 strip_memory[];
  typename Strip::pack_in *room = (typename Strip::pack_in *)strip_memory + threadIdx.x;
  A *part = (A *)((char *)strip_memory + Strip::room_bytes), *first = part + strip_warps * columns;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t strips = (uint32_t)(p.outer * p.across);
  const uint32_t number = p.walks ? blockIdx.x : published_tile(results), strip = number % strips;
  const int64_t outer = strip / (uint32_t)p.across;
  const int64_t column = (int64_t)(strip - (uint32_t)outer * (uint32_t)p.across) * columns;
  const int64_t mine = column + lane * V, left = p.inner - mine;
  int64_t t = number / strips;
  const int64_t last = p.walks ? p.tiles : t + 1, step = p.reverse ? -p.inner : p.inner;
  const int slot = threadIdx.x;
  const bool joins = slot < columns && column + slot % 32 * V + slot / 32 < p.inner;
  A carry = s.init();
#pragma unroll 1
  for (; t < last; t++) {
    const int64_t i = t * strip_rows + warp * strip_share;
    const int count = (int)(p.n - i < strip_share ? p.n - i : strip_share);
    const int64_t at = (outer * p.n + (p.reverse ? p.n - 1 - i : i)) * p.inner + mine;
    strip_read(s, x, at, step, count, left, p.packs, room);
    A a[V];
    strip_total(s, i, room, a);
#pragma unroll
    for (int j = 0; j < V; j++) part[warp * columns + j * 32 + lane] = a[j];
    __syncthreads();
    if (joins)
      strip_join(s, part + slot, first + slot, outer * p.inner + column + slot % 32 * V + slot / 32,
                 t, p, results, &carry);
    __syncthreads();
    if (left > 0) {
#pragma unroll
      for (int j = 0; j < V; j++)
        a[j] = s.join(first[j * 32 + lane], part[warp * columns + j * 32 + lane]);
      strip_write(s, y, index, at, step, i, count, left, p, room, a);
    }
    __syncthreads(); /* before part and first are used again */
  }
}

template <class S>
tn_status run_strips(const tn_kernel_args *args, S s, scan_plan p, const void *x, void *y,
                     int64_t *index) {
  using Strip = strip_of<S>;
  constexpr int words = published_words<typename S::A>();
  p.packs = !Strip::any && p.inner % Strip::width == 0 &&
            is_aligned(x, sizeof(typename Strip::pack_in)) &&
            is_aligned(y, sizeof(typename Strip::pack_out)) && is_aligned(index, 16);
  published results = published_of(args->workspace);
  const size_t count = (size_t)(p.tiles * p.outer * p.inner);
  tn_status status = p.walks ? TN_OK : published_begin(args, results, count, words);
  if (status != TN_OK) return status;
  const int64_t blocks = p.outer * p.across * (p.walks ? 1 : p.tiles);
  status = allow_shared(args, scan_strips<S>, Strip::bytes);
  if (status != TN_OK) return status;
  return launch(args, scan_strips<S>, (unsigned)blocks, threads, Strip::bytes, s, x, y, index, p,
                results);
}

/* --- a thread to each line --- */

template <class S>
__global__ void __launch_bounds__(threads)
    scan_lines(S s, const void *x, void *y, int64_t *index, void *partials,
               const __grid_constant__ scan_plan p) {
  using A = typename S::A;
  int64_t piece = blockIdx.x % p.pieces;
  int64_t line = blockIdx.x / p.pieces * threads + threadIdx.x;
  if (line >= p.outer * p.inner) return;
  int64_t base = line / p.inner * p.n * p.inner + line % p.inner;
  int64_t begin = piece * p.piece, end = begin + p.piece < p.n ? begin + p.piece : p.n;
  A *list = (A *)partials + line * p.pieces, carry = s.init();
  if (p.pieces > 1 && !p.first_pass) {
    for (int64_t i = 0; i < piece; i++) carry = s.join(carry, list[i]);
  }
  for (int64_t from = begin; from < end; from += scan_ahead) {
    A v[scan_ahead]; /* loads that stores need not wait for */
#pragma unroll
    for (int k = 0; k < scan_ahead; k++) {
      int64_t i = from + k, place = p.reverse ? p.n - 1 - i : i;
      v[k] = i < end ? s.read(x, base + place * p.inner, place) : s.init();
    }
#pragma unroll
    for (int k = 0; k < scan_ahead; k++) {
      int64_t i = from + k, place = p.reverse ? p.n - 1 - i : i;
      A before = carry;
      carry = s.join(carry, v[k]);
      if (i < end && !p.first_pass)
        s.write(y, index, base + place * p.inner, p.exclusive ? before : carry);
    }
  }
  if (p.first_pass) list[piece] = carry;
}

int64_t line_blocks(const scan_plan *p) { return ceil_div(p->outer * p->inner, (int64_t)threads); }

template <class S>
tn_status run_lines(const tn_kernel_args *args, S s, scan_plan p, const void *x, void *y,
                    int64_t *index) {
  static_assert(sizeof(typename S::A) <= cuda_reduce_partial_bytes, "scratch is too small");
  unsigned blocks = (unsigned)(line_blocks(&p) * p.pieces);
  if (p.pieces > 1) {
    p.first_pass = 1;
    tn_status status =
        launch(args, scan_lines<S>, blocks, threads, 0, s, x, y, index, args->workspace, p);
    if (status != TN_OK) return status;
    p.first_pass = 0;
  }
  return launch(args, scan_lines<S>, blocks, threads, 0, s, x, y, index, args->workspace, p);
}

} // namespace

#endif /* KERNELS_CUDA_REDUCE_SCAN_COLUMNS_CUH */
