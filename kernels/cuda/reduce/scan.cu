/*
 * Scans along one axis of contiguous tensors, seen as [outer, n, inner]: cumsum, cumprod
 * and cummax. Rows (inner 1) are scanned in tiles by blocks or warps (scan_rows.cuh), columns in
 * tiles where there are enough of them side by side, else by a thread each (scan_columns.cuh).
 * Sums of floats are joined in an order that shapes and the device decide: the same call gives
 * the same bits.
 */
#include "kernels/cuda/reduce/scan_columns.cuh"
#include "kernels/cuda/reduce/scan_rows.cuh"

namespace {

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Pieces for lines that keep the device busy; of one long row as many as that takes. */
void cut(scan_plan *p, int multiprocessors) {
  const int64_t least = 64, most = p->inner == 1 ? 4096 : 64, blocks = line_blocks(p);
  if (blocks < multiprocessors && p->n >= 2 * least)
    p->pieces = smaller(most, smaller(ceil_div(4 * multiprocessors, blocks), p->n / least));
  if (p->inner == 1 && p->n > UINT32_MAX / 2) p->pieces = most;
  p->piece = ceil_div(p->n, p->pieces);
  p->pieces = ceil_div(p->n, p->piece);
}

/* Places of maxima in tiles have 32 bits. */
bool is_near(const tn_kernel_args *args, const scan_plan *p) {
  return args->kernel->op != TN_OP_CUMMAX || p->n < UINT32_MAX;
}

/* Warps of a block: as few as a row needs, or as it takes to have several tiles for each
 * multiprocessor. */
int warps_of_tiles(const scan_plan *p, int64_t share, int multiprocessors) {
  int warps = tile_warps;
  const int64_t all = p->outer * p->n;
  while (warps > tile_least_warps &&
         (p->n <= share * warps / 2 || all < share * warps * 4 * multiprocessors))
    warps /= 2;
  return warps;
}

/* Rows that warps, or blocks where there are enough of them, have to themselves. */
bool plan_rows(const tn_kernel_args *args, scan_plan *p, int multiprocessors) {
  const int64_t share = tile_share(args);
  if (p->inner != 1 || p->n <= scan_column_row || !is_near(args, p)) return false;
  p->way = p->n > share ? scan_by_tiles : scan_by_warps;
  p->warps = p->way == scan_by_warps ? tile_warps : warps_of_tiles(p, share, multiprocessors);
  p->tiles = ceil_div(p->n, share * p->warps);
  p->walks = p->way == scan_by_warps || p->outer >= 16 * multiprocessors;
  return p->outer * (p->walks ? 1 : p->tiles) <= CUDA_MAX_INDEX;
}

bool plan_strips(const tn_kernel_args *args, scan_plan *p, int multiprocessors) {
  if (p->inner < strip_least_columns || p->n < strip_least_rows || !is_near(args, p)) return false;
  p->way = scan_by_strips;
  p->across = ceil_div(p->inner, strip_columns(args));
  p->tiles = ceil_div(p->n, strip_rows);
  p->walks = p->tiles == 1 || p->outer * p->across >= 8 * multiprocessors;
  return p->outer * p->across * (p->walks ? 1 : p->tiles) <= CUDA_MAX_INDEX;
}

/* The attributes of every scan begin with axis and reverse. pre: there are elements. */
scan_plan plan_of_scan(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const tn_cumsum_attrs *attrs = (const tn_cumsum_attrs *)args->attrs;
  int axis = (int)(attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis);
  int multiprocessors = ((const cuda_info *)args->device)->multiprocessors;
  scan_plan p = {};
  p.outer = cuda_size(x, 0, axis);
  p.n = x->shape[axis];
  p.inner = cuda_size(x, axis + 1, x->ndim);
  p.reverse = attrs->reverse;
  p.exclusive = args->kernel->op == TN_OP_CUMMAX ? 0 : attrs->exclusive;
  p.pieces = 1;
  p.piece = p.n;
  if (plan_rows(args, &p, multiprocessors) || plan_strips(args, &p, multiprocessors)) return p;
  p.way = scan_by_lines;
  cut(&p, multiprocessors);
  return p;
}

/* Words that results are published in: a place beside the value may take a second one. */
int words_of_scan(const tn_kernel_args *args) {
  const DLDataType type = args->in[0]->dtype;
  bool narrow = (type.code == kDLFloat || type.code == kDLBfloat) && type.bits <= 32;
  return args->kernel->op == TN_OP_CUMMAX && !narrow ? 2 : 1;
}

/* `far` is `s` for lines that 32 bits do not count. */
template <class S, class F>
tn_status run_scan(const tn_kernel_args *args, S s, F far, const scan_plan &p) {
  const void *x = args->in[0]->data;
  void *y = args->out[0]->data;
  int64_t *index =
      args->num_out > 1 && args->out[1] ? (int64_t *)args->out[1]->data : (int64_t *)NULL;
  switch (p.way) {
  case scan_by_lines:
    return run_lines(args, far, p, x, y, index);
  case scan_by_strips:
    return run_strips(args, s, p, x, y, index);
  default:
    return run_tiles(args, s, p, x, y, index);
  }
}

/* Sums and products, whose results may be wider than x. */
tn_status scan_join(const tn_kernel_args *args, bool product) {
  const DLTensor *x = args->in[0];
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  const scan_plan p = plan_of_scan(args);
  const int from = cuda_dtype(x), to = cuda_dtype(args->out[0]);
  auto run = [&](auto s) { return run_scan(args, s, s, p); };
  if (from == to) {
    return for_number(args, x, [&](auto t) {
      return run(running_join<reduced_t<decltype(t)>>{from, to, product});
    });
  }
  if (from == TN_F32) return run(running_join<widened<float, double>>{from, to, product});
  if (from == TN_F16 && to == TN_F64)
    return run(running_join<widened<half_t, double>>{from, to, product});
  if (from == TN_F16) return run(running_join<widened<half_t, float>>{from, to, product});
  if (from == TN_BF16 && to == TN_F64)
    return run(running_join<widened<bfloat_t, double>>{from, to, product});
  if (from == TN_BF16) return run(running_join<widened<bfloat_t, float>>{from, to, product});
  return run(running_join<any_int>{from, to, product});
}

} // namespace

tn_status cuda_scan_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  *bytes = 0;
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  const scan_plan p = plan_of_scan(args);
  const int words = words_of_scan(args);
  if (p.way == scan_by_tiles && !p.walks && p.tiles > 1)
    *bytes = lookback_bytes(lookback_of(NULL, p.outer, p.tiles), words);
  if (p.way == scan_by_strips && !p.walks)
    *bytes = published_bytes((size_t)(p.tiles * p.outer * p.inner), words);
  if (p.pieces > 1) *bytes = (size_t)(p.outer * p.inner * p.pieces) * cuda_reduce_partial_bytes;
  return TN_OK;
}

tn_status cuda_run_cumsum(const tn_kernel_args *args) { return scan_join(args, false); }
tn_status cuda_run_cumprod(const tn_kernel_args *args) { return scan_join(args, true); }

tn_status cuda_run_cummax(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  if (cuda_size(x, 0, x->ndim) == 0) return TN_OK;
  const scan_plan p = plan_of_scan(args);
  const int dtype = cuda_dtype(x);
  return for_number(args, x, [&](auto t) {
    using T = reduced_t<decltype(t)>;
    return run_scan(args, running_max_near<T>{dtype, dtype}, running_max<T>{dtype, dtype}, p);
  });
}
