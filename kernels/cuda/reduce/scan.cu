/*
 * Scans along one axis of contiguous tensors, seen as [outer, n, inner]: cumsum, cumprod
 * and cummax. Rows (inner 1) longer than a block are tiles of one pass (base/lookback.cuh);
 * shorter ones belong to a warp or a block, which goes through them in parts and carries the
 * result on; otherwise a thread owns one column, so that
 * neighbouring threads read neighbouring elements. Where there are too few lines to fill
 * the device they are cut in pieces: a first kernel finds what each piece comes to, a
 * second one begins each piece with what stands before it. The pieces depend on shapes
 * alone: the same call gives the same bits.
 */
#include "kernels/cuda/reduce/scan.cuh"

namespace {

/* What stands before this warp in the block, and onto `carry` what the whole block comes
 * to; `total` is the warp's own. Alone in its row, a warp knows both. */
template <class S>
__device__ typename S::A scan_block(const S &s, typename S::A total, typename S::A *carry,
                                    int lanes) {
  using A = typename S::A;
  __shared__ __align__(16) unsigned char memory[threads / 32 * sizeof(A)];
  A *shared = (A *)memory, before = *carry;
  if (lanes == 32) {
    *carry = s.join(*carry, total);
    return before;
  }
  __syncthreads(); /* the last use of shared is over */
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = total;
  __syncthreads();
  for (int w = 0; w < threads / 32; w++) {
    if (w == (int)threadIdx.x / 32) before = *carry;
    *carry = s.join(*carry, shared[w]);
  }
  return before;
}

/* What the first `count` partial results come to, in every thread of the block. */
template <class S>
__device__ typename S::A join_partials(const S &s, const typename S::A *list, int64_t count) {
  typename S::A carry = s.init();
  for (int64_t at = 0; at < count; at += threads) {
    int64_t i = at + threadIdx.x;
    typename S::A a = scan_warp(s, i < count ? list[i] : s.init());
    scan_block(s, shuffle_from(a, 31), &carry, threads);
  }
  return carry;
}

/* One piece of one row, in the order of the scan from begin to end. */
template <class S>
__device__ typename S::A scan_row(const S &s, const void *x, void *y, int64_t *index, int64_t row,
                                  int64_t begin, int64_t end, typename S::A carry,
                                  const scan_plan &p) {
  using A = typename S::A;
  int lane = threadIdx.x % 32, warp = p.lanes == 32 ? 0 : threadIdx.x / 32;
  int64_t tile = (int64_t)p.lanes * scan_items;
  for (int64_t at = begin; at < end; at += tile) {
    int64_t first = at + warp * scan_warp_tile + lane;
    A v[scan_items], total = s.init();
#pragma unroll
    for (int k = 0; k < scan_items; k++) {
      int64_t i = first + k * 32, place = p.reverse ? p.n - 1 - i : i;
      v[k] = i < end ? s.read(x, row * p.n + place, place) : s.init();
    }
#pragma unroll
    for (int k = 0; k < scan_items; k++) v[k] = scan_warp(s, v[k]);
#pragma unroll
    for (int k = 0; k < scan_items; k++) {
      A own = shuffle_from(v[k], 31);
      v[k] = s.join(total, v[k]);
      total = s.join(total, own);
    }
    A before = scan_block(s, total, &carry, p.lanes), last = before;
    if (p.first_pass) continue;
#pragma unroll
    for (int k = 0; k < scan_items; k++) {
      int64_t i = first + k * 32, place = p.reverse ? p.n - 1 - i : i;
      A result = s.join(before, v[k]);
      if (p.exclusive) {
        A own = shuffle_from(result, 31), left = shuffle_from(result, lane - 1);
        result = lane == 0 ? last : left;
        last = own;
      }
      if (i < end) s.write(y, index, row * p.n + place, result);
    }
  }
  return carry;
}

template <class S>
__global__ void __launch_bounds__(threads)
    scan_rows(S s, const void *x, void *y, int64_t *index, void *partials,
              const __grid_constant__ scan_plan p) {
  using A = typename S::A;
  int64_t rows = threads / p.lanes, piece = blockIdx.x % p.pieces;
  int64_t row = blockIdx.x / p.pieces * rows + threadIdx.x / p.lanes;
  if (row >= p.outer) return; /* whole warps, and only where rows are theirs */
  int64_t begin = piece * p.piece, end = begin + p.piece < p.n ? begin + p.piece : p.n;
  A *list = (A *)partials + row * p.pieces, carry = s.init();
  if (p.pieces > 1 && !p.first_pass) carry = join_partials(s, list, piece);
  carry = scan_row(s, x, y, index, row, begin, end, carry, p);
  if (p.first_pass && threadIdx.x % p.lanes == 0) list[piece] = carry;
}

template <class S>
__global__ void __launch_bounds__(threads)
    scan_columns(S s, const void *x, void *y, int64_t *index, void *partials,
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

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Pieces for lines that keep `blocks` blocks busy. */
void cut(scan_plan *p, int64_t blocks, int64_t least, int64_t most, int multiprocessors) {
  p->pieces = 1;
  if (blocks < multiprocessors && p->n >= 2 * least) {
    p->pieces = smaller(most, smaller(ceil_div(4 * multiprocessors, blocks), p->n / least));
  }
  p->piece = ceil_div(p->n, p->pieces);
  p->pieces = ceil_div(p->n, p->piece);
}

int64_t blocks_of(const scan_plan *p) {
  return p->lanes ? ceil_div(p->outer, threads / p->lanes)
                  : ceil_div(p->outer * p->inner, (int64_t)threads);
}

/* The attributes of every scan begin with axis and reverse. pre: there are elements. */
scan_plan plan_of_scan(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const tn_cumsum_attrs *attrs = (const tn_cumsum_attrs *)args->attrs;
  int axis = (int)(attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis);
  scan_plan p = {};
  p.outer = cuda_size(x, 0, axis);
  p.n = x->shape[axis];
  p.inner = cuda_size(x, axis + 1, x->ndim);
  p.reverse = attrs->reverse;
  p.exclusive = args->kernel->op == TN_OP_CUMMAX ? 0 : attrs->exclusive;
  p.pieces = 1;
  p.piece = p.n;
  int64_t tile = tile_size(args);
  if (p.inner == 1 && p.n > tile / 2 && p.outer * ceil_div(p.n, tile) <= CUDA_MAX_INDEX) {
    p.tiles = ceil_div(p.n, tile);
    return p;
  }
  if (p.inner == 1 && p.n > scan_column_row) p.lanes = p.n > scan_warp_row ? threads : 32;
  int multiprocessors = ((const cuda_info *)args->device)->multiprocessors;
  bool by_row = p.lanes == threads;
  cut(&p, blocks_of(&p), by_row ? scan_least_piece : 64, by_row ? 4096 : 64, multiprocessors);
  if (p.lanes == 32) { /* its rows are never cut */
    p.pieces = 1;
    p.piece = p.n;
  }
  return p;
}

template <class S> tn_status run_scan(const tn_kernel_args *args, S s, scan_plan p) {
  static_assert(sizeof(typename S::A) <= cuda_reduce_partial_bytes, "scratch is too small");
  const void *x = args->in[0]->data;
  void *y = args->out[0]->data;
  int64_t *index =
      args->num_out > 1 && args->out[1] ? (int64_t *)args->out[1]->data : (int64_t *)NULL;
  if (p.tiles) return run_tiles(args, s, p, x, y, index);
  auto kernel = p.lanes ? scan_rows<S> : scan_columns<S>;
  unsigned blocks = (unsigned)(blocks_of(&p) * p.pieces);
  if (p.pieces > 1) {
    p.first_pass = 1;
    tn_status status = launch(args, kernel, blocks, threads, 0, s, x, y, index, args->workspace, p);
    if (status != TN_OK) return status;
    p.first_pass = 0;
  }
  return launch(args, kernel, blocks, threads, 0, s, x, y, index, args->workspace, p);
}

template <template <class> class Scan, class... P>
tn_status scan_run(const tn_kernel_args *args, P... more) {
  const DLTensor *x = args->in[0];
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  scan_plan p = plan_of_scan(args);
  int dtype = cuda_dtype(x);
  return for_number(args, x, [&](auto t) {
    return run_scan(args, Scan<reduced_t<decltype(t)>>{dtype, more...}, p);
  });
}

/* Sums and products whose results are wider than x. */
tn_status scan_widened(const tn_kernel_args *args, bool product) {
  const DLTensor *x = args->in[0];
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  scan_plan p = plan_of_scan(args);
  int from = cuda_dtype(x), to = cuda_dtype(args->out[0]);
  if (from == TN_F32)
    return run_scan(args, running_join<widened<float, double>>{from, to, product}, p);
  if (from == TN_F16 && to == TN_F64)
    return run_scan(args, running_join<widened<half_t, double>>{from, to, product}, p);
  if (from == TN_F16)
    return run_scan(args, running_join<widened<half_t, float>>{from, to, product}, p);
  if (from == TN_BF16 && to == TN_F64)
    return run_scan(args, running_join<widened<bfloat_t, double>>{from, to, product}, p);
  if (from == TN_BF16)
    return run_scan(args, running_join<widened<bfloat_t, float>>{from, to, product}, p);
  return run_scan(args, running_join<any_int>{from, to, product}, p);
}

tn_status scan_join(const tn_kernel_args *args, bool product) {
  int from = cuda_dtype(args->in[0]), to = cuda_dtype(args->out[0]);
  return from == to ? scan_run<running_join>(args, to, product) : scan_widened(args, product);
}

} // namespace

tn_status cuda_scan_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  *bytes = 0;
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  scan_plan p = plan_of_scan(args);
  if (p.tiles > 1) *bytes = lookback_bytes(lookback_of(NULL, p.outer, p.tiles));
  if (p.pieces > 1) *bytes = (size_t)(p.outer * p.inner * p.pieces) * cuda_reduce_partial_bytes;
  return TN_OK;
}

tn_status cuda_run_cumsum(const tn_kernel_args *args) { return scan_join(args, false); }
tn_status cuda_run_cumprod(const tn_kernel_args *args) { return scan_join(args, true); }
tn_status cuda_run_cummax(const tn_kernel_args *args) { return scan_run<running_max>(args); }
