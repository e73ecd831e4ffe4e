/*
 * pad, tile, repeat, flip, roll, where spread.cuh does not serve: a thread to a few vectors of y,
 * of 16 bytes, for which it asks axis by axis where they read. Axes that are taken as they are join
 * each other and what the axis before them does where that may be. Along the innermost axis most
 * vectors are elements of x in a row, or that backwards, and are read at once.
 */
#include "kernels/cuda/layout/arrange.cuh"
#include "kernels/cuda/layout/spread.cuh"

namespace {

/* Vectors of a thread: their loads are under way together. */
template <class I> struct arrange_items { static constexpr int value = sizeof(I) == 8 ? 1 : 4; };

template <class U, class I>
__global__ void __launch_bounds__(place_threads)
    arrange(U *y, const U *x, vector_cut<I> cut, const __grid_constant__ arrangement a) {
  constexpr int N = vector_width<U>::value, V = arrange_items<I>::value;
  const I base = ((I)blockIdx.x * (V * place_threads) + threadIdx.x) * N;
  I flat[V];
  piece<I> p[V];
  unaligned_words words[V];
#pragma unroll
  for (int k = 0; k < V; k++) flat[k] = base + (I)(k * place_threads * N) - cut.shift;
  const spots<I, V> s = spots_of(a, flat);
  uint32_t left = 0; /* vectors that take more */
#pragma unroll
  for (int k = 0; k < V; k++) {
    p[k] = piece_of<I, N>(a, s.i[k], s.row[k]);
    p[k].is_one = p[k].is_one && flat[k] + cut.shift >= (I)cut.shift && flat[k] + (I)N <= cut.n;
    if (p[k].is_one && p[k].hi) words[k] = begin_piece(a, x + s.row[k], &p[k]);
    left |= (uint32_t)!p[k].is_one << k;
  }
#pragma unroll
  for (int k = 0; k < V; k++)
    if (p[k].is_one) vector_put(y + flat[k], vector_of_piece<U>(a, p[k], words[k]));
#pragma unroll 1
  for (int k = 0; left; k++, left >>= 1)
    if (left & 1) put_any(y, x, base + (I)(k * place_threads * N), cut, a);
}

template <class I, class U> unsigned arrange_blocks(const U *y, int64_t n) {
  return (unsigned)ceil_div(vector_blocks(y, n), arrange_items<I>::value);
}

template <class U>
tn_status run_units(const tn_kernel_args *args, int64_t n, const arrangement &a) {
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  if (vector_is_narrow(n))
    return launch(args, arrange<U, uint32_t>, arrange_blocks<uint32_t>(y, n), place_threads, 0, y,
                  x, vector_cut_of<U, uint32_t>(y, n), a);
  return launch(args, arrange<U, uint64_t>, arrange_blocks<uint64_t>(y, n), place_threads, 0, y, x,
                vector_cut_of<U, uint64_t>(y, n), a);
}

/* The axes as they come, outermost first, before they are given to the device. */
struct axis {
  axis_kind kind;
  int64_t in, out, shift; /* shift: before, repeats, or shift */
};
struct axes {
  int rank;
  int mode; /* of pad */
  axis list[TN_MAX_RANK];
};

/* Whether an axis inside that is taken as it is can join one: places of both are then one
 * count, to which the outer one's rule applies. */
bool takes_inner(const axes *l, const axis *outer) {
  switch (outer->kind) {
  case AXIS_SAME:
  case AXIS_TILE:
  case AXIS_ROLL:
    return true;
  case AXIS_PAD:
    return l->mode == TN_PAD_CONSTANT;
  default:
    return false;
  }
}

void add_axis(axes *l, axis_kind kind, int64_t in, int64_t out, int64_t shift) {
  if (kind == AXIS_TILE && in == out) kind = AXIS_SAME;
  axis *last = l->rank ? &l->list[l->rank - 1] : NULL;
  if (kind == AXIS_SAME && last && takes_inner(l, last)) {
    last->in *= in;
    last->out *= out;
    last->shift *= in;
  } else {
    l->list[l->rank++] = {kind, in, out, shift};
  }
}

/* Elements of an innermost axis that can move together as one unit of up to 8 bytes: rows shorter
 * than a vector then take fewer steps. */
int64_t unit_bytes(const tn_kernel_args *args, const axis *last, int64_t size) {
  if (last->kind == AXIS_REPEAT || last->kind == AXIS_FLIP) return size;
  int64_t w = 8;
  int64_t all = last->in | last->out | (last->kind == AXIS_SAME ? 0 : last->shift);
  while (w > size && (all * size % w || !is_aligned(args->in[0]->data, (size_t)w) ||
                      !is_aligned(args->out[0]->data, (size_t)w)))
    w /= 2;
  return w;
}

/* Copies of all that x has; false where there are none, or axes that are not copied, and where
 * memory lies so that spread.cuh does not serve. */
bool run_copies(const tn_kernel_args *args, const axes *l, int64_t size, tn_status *status) {
  spread_axis list[TN_MAX_RANK];
  for (int d = 0; d < l->rank; d++) {
    const axis *from = &l->list[d];
    const bool repeated = from->kind == AXIS_REPEAT;
    if (from->kind != AXIS_SAME && from->kind != AXIS_TILE && !repeated) return false;
    list[d] = {from->in, repeated ? from->shift : from->out / from->in, !repeated};
  }
  const spread_axis *last = &list[l->rank - 1];
  if (is_spread(args, list, l->rank, size))
    *status = run_spread(args, list, l->rank, size);
  else if (!last->whole && is_repeat_each(args, last->copies, size))
    *status = run_repeat_each(args, last->copies, size);
  else
    return false;
  return true;
}

tn_status arrange_run(const tn_kernel_args *args, axes *l, double value) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim), size = y->dtype.bits / 8;
  tn_status status = TN_OK;
  if (n == 0) return TN_OK;
  if (l->rank == 0) add_axis(l, AXIS_SAME, 1, 1, 0);
  if (run_copies(args, l, size, &status)) return status;
  axis *last = &l->list[l->rank - 1];
  /* Reflections and edges of a padded axis are made of elements. */
  bool whole = last->kind != AXIS_PAD || l->mode == TN_PAD_CONSTANT;
  int64_t w = whole ? unit_bytes(args, last, size) : size;
  last->in = last->in * size / w;
  last->out = last->out * size / w;
  if (w != size) last->shift = last->shift * size / w;
  arrangement a = {l->rank, l->mode};
  a.value = cuda_value_bits(cuda_dtype(y), value);
  a.from = readable_of(x);
  for (int64_t bits = 8 * size; bits < 64; bits *= 2) a.value |= a.value << bits;
  int64_t step = 1;
  for (int d = l->rank - 1; d >= 0; d--) {
    const axis *from = &l->list[d];
    a.kind[d] = from->kind;
    a.out[d] = place_divisor_of(from->out);
    a.by[d] = place_divisor_of(from->kind == AXIS_REPEAT ? from->shift : from->in);
    a.in[d] = from->in;
    a.shift[d] = from->shift;
    a.step[d] = step;
    step *= from->in;
  }
  n = n * size / w;
  return w == 1   ? run_units<uint8_t>(args, n, a)
         : w == 2 ? run_units<uint16_t>(args, n, a)
         : w == 4 ? run_units<uint32_t>(args, n, a)
                  : run_units<uint64_t>(args, n, a);
}

} // namespace

tn_status cuda_run_pad(const tn_kernel_args *args) {
  const tn_pad_attrs *attrs = (const tn_pad_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  axes l = {};
  l.mode = (int)attrs->mode;
  for (int d = 0; d < y->ndim; d++) {
    axis_kind kind = x->shape[d] == y->shape[d] ? AXIS_SAME : AXIS_PAD;
    add_axis(&l, kind, x->shape[d], y->shape[d], attrs->before.count ? attrs->before.dim[d] : 0);
  }
  return arrange_run(args, &l, attrs->value);
}

tn_status cuda_run_tile(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  int added = y->ndim - x->ndim;
  axes l = {};
  for (int d = 0; d < y->ndim; d++)
    add_axis(&l, AXIS_TILE, d < added ? 1 : x->shape[d - added], y->shape[d], 0);
  return arrange_run(args, &l, 0);
}

tn_status cuda_run_repeat(const tn_kernel_args *args) {
  const tn_repeat_attrs *attrs = (const tn_repeat_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t axis = attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis;
  axes l = {};
  for (int d = 0; d < y->ndim; d++) {
    bool repeated = d == axis && attrs->repeats != 1;
    add_axis(&l, repeated ? AXIS_REPEAT : AXIS_SAME, x->shape[d], y->shape[d],
             repeated ? attrs->repeats : 0);
  }
  return arrange_run(args, &l, 0);
}

tn_status cuda_run_flip(const tn_kernel_args *args) {
  const tn_axes *given = &((const tn_flip_attrs *)args->attrs)->axes;
  const DLTensor *x = args->in[0];
  uint32_t marked = given->count ? 0 : ~0u;
  for (int i = 0; i < given->count; i++)
    marked |= 1u << (given->axis[i] < 0 ? given->axis[i] + x->ndim : given->axis[i]);
  axes l = {};
  for (int d = 0; d < x->ndim; d++) {
    bool flipped = (marked >> d & 1) && x->shape[d] != 1;
    add_axis(&l, flipped ? AXIS_FLIP : AXIS_SAME, x->shape[d], x->shape[d], 0);
  }
  return arrange_run(args, &l, 0);
}

tn_status cuda_run_roll(const tn_kernel_args *args) {
  const tn_roll_attrs *attrs = (const tn_roll_attrs *)args->attrs;
  const DLTensor *x = args->in[0];
  int64_t shift[TN_MAX_RANK] = {0};
  for (int i = 0; i < attrs->shifts.count; i++) {
    int given = attrs->axes.count ? attrs->axes.axis[i] : i;
    int d = given < 0 ? given + x->ndim : given;
    int64_t n = x->shape[d], rest = n ? attrs->shifts.dim[i] % n : 0;
    shift[d] = rest < 0 ? rest + n : rest;
  }
  axes l = {};
  for (int d = 0; d < x->ndim; d++)
    add_axis(&l, shift[d] ? AXIS_ROLL : AXIS_SAME, x->shape[d], x->shape[d], shift[d]);
  return arrange_run(args, &l, 0);
}
