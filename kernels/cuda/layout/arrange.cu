/*
 * pad, tile, repeat, flip, roll: one thread for each access of y, which asks axis by axis
 * where it reads. Axes that are taken as they are join; where the innermost one is such an
 * axis, accesses are as wide as it allows.
 */
#include "kernels/cuda/base/place.cuh"

namespace {

enum axis_kind { AXIS_SAME, AXIS_PAD, AXIS_TILE, AXIS_REPEAT, AXIS_FLIP, AXIS_ROLL };

struct arrangement {
  int rank, mode;
  int kind[TN_MAX_RANK];
  place_divisor out[TN_MAX_RANK]; /* sizes of y */
  place_divisor by[TN_MAX_RANK];  /* size of x for tile, repeats for repeat */
  int64_t in[TN_MAX_RANK];        /* sizes of x */
  int64_t shift[TN_MAX_RANK];     /* before of pad, shift of roll */
  int64_t step[TN_MAX_RANK];      /* of x, in accesses */
  uint64_t value;                 /* bits of one element, repeated to 8 bytes */
};

__device__ __forceinline__ int64_t pad_source(int64_t i, int64_t n, int mode) {
  if (i >= 0 && i < n) return i;
  if (mode == TN_PAD_CONSTANT) return -1;
  if (mode == TN_PAD_EDGE) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

/* The index of x along axis d that index i of y reads; -1 for none. */
template <class I> __device__ __forceinline__ int64_t source(const arrangement &a, int d, I i) {
  I q, r;
  int64_t at;
  switch (a.kind[d]) {
  case AXIS_PAD:
    return pad_source((int64_t)i - a.shift[d], a.in[d], a.mode);
  case AXIS_TILE:
    split(i, a.by[d], &q, &r);
    return (int64_t)r;
  case AXIS_REPEAT:
    split(i, a.by[d], &q, &r);
    return (int64_t)q;
  case AXIS_FLIP:
    return a.in[d] - 1 - (int64_t)i;
  case AXIS_ROLL:
    at = (int64_t)i - a.shift[d];
    return at < 0 ? at + a.in[d] : at;
  default:
    return (int64_t)i;
  }
}

template <class U> __device__ __forceinline__ U filled(uint64_t value) { return (U)value; }
template <> __device__ __forceinline__ wide_bits filled<wide_bits>(uint64_t value) {
  return {{value, value}};
}

template <class U, class I>
__global__ void __launch_bounds__(place_threads)
    arrange(U *y, const U *x, I n, const __grid_constant__ arrangement a) {
  I i = thread_index<I>(), rest = i;
  if (i >= n) return;
  bool found = true;
#pragma unroll 1
  for (int d = a.rank - 1; d >= 0; d--) {
    I q, at;
    split(rest, a.out[d], &q, &at);
    rest = q;
    int64_t from = source(a, d, at);
    found = found && from >= 0;
    x += from * a.step[d];
  }
  y[i] = found ? *x : filled<U>(a.value);
}

template <class U>
tn_status run_access(const tn_kernel_args *args, int64_t n, const arrangement &a) {
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  if (n <= CUDA_MAX_INDEX)
    return launch(args, arrange<U, uint32_t>, place_blocks(n), place_threads, 0, y, x, (uint32_t)n,
                  a);
  return launch(args, arrange<U, uint64_t>, place_blocks(n), place_threads, 0, y, x, (uint64_t)n,
                a);
}

/* The axes as they come, outermost first, before they are given to the device. */
struct axis {
  axis_kind kind;
  int64_t in, out, shift; /* shift: before, repeats, or shift */
};
struct axes {
  int rank;
  axis list[TN_MAX_RANK];
};

/* The innermost axis if it is taken as it is, else NULL. */
axis *innermost_same(axes *l) {
  axis *last = l->rank ? &l->list[l->rank - 1] : NULL;
  return last && last->kind == AXIS_SAME ? last : NULL;
}

void add_axis(axes *l, axis_kind kind, int64_t in, int64_t out, int64_t shift) {
  if (kind == AXIS_TILE && in == out) kind = AXIS_SAME;
  axis *last = kind == AXIS_SAME ? innermost_same(l) : NULL;
  if (last) {
    last->in *= in;
    last->out *= out;
  } else {
    l->list[l->rank++] = {kind, in, out, shift};
  }
}

tn_status arrange_run(const tn_kernel_args *args, axes *l, int mode, double value) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim), size = y->dtype.bits / 8, w = size;
  if (n == 0) return TN_OK;
  axis *last = innermost_same(l);
  if (last) {
    w = widest_access(last->out * size, x->data, y->data);
    last->in = last->out = last->out * size / w;
  }
  arrangement a = {l->rank, mode};
  a.value = cuda_value_bits(cuda_dtype(y), value);
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
  return BY_BYTES(w, run_access, args, n * size / w, a);
}

} // namespace

tn_status cuda_run_pad(const tn_kernel_args *args) {
  const tn_pad_attrs *attrs = (const tn_pad_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  axes l = {};
  for (int d = 0; d < y->ndim; d++) {
    axis_kind kind = x->shape[d] == y->shape[d] ? AXIS_SAME : AXIS_PAD;
    add_axis(&l, kind, x->shape[d], y->shape[d], attrs->before.count ? attrs->before.dim[d] : 0);
  }
  return arrange_run(args, &l, (int)attrs->mode, attrs->value);
}

tn_status cuda_run_tile(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  int added = y->ndim - x->ndim;
  axes l = {};
  for (int d = 0; d < y->ndim; d++)
    add_axis(&l, AXIS_TILE, d < added ? 1 : x->shape[d - added], y->shape[d], 0);
  return arrange_run(args, &l, 0, 0);
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
  return arrange_run(args, &l, 0, 0);
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
  return arrange_run(args, &l, 0, 0);
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
  return arrange_run(args, &l, 0, 0);
}
