/*
 * pad_grad: one thread for each element of dx sums what was read from it. Along an axis
 * those are its own place, and the places behind an edge that repeat or mirror it.
 */
#include "kernels/cuda/base/place.cuh"

namespace {

struct unpadding {
  int rank, mode;
  place_divisor size[TN_MAX_RANK];                                    /* of dx */
  int64_t before[TN_MAX_RANK], after[TN_MAX_RANK], step[TN_MAX_RANK]; /* step of dy */
};

/* Places of dy along one axis: from begin on, `count` of them; then up to two more. */
struct readers {
  int64_t begin, count, more[2];
  int num_more;
};

__device__ readers readers_of(const unpadding &u, int d, int64_t j) {
  int64_t n = (int64_t)u.size[d].value, before = u.before[d], after = u.after[d];
  readers r = {j + before, 1, {0, 0}, 0};
  if (u.mode == TN_PAD_EDGE) {
    if (j == n - 1) r.count += after;
    if (j == 0) r.begin = 0, r.count += before;
  } else if (u.mode == TN_PAD_REFLECT) {
    if (j > 0 && j <= before) r.more[r.num_more++] = before - j;
    int64_t back = n - 1 - j; /* how far from the far edge */
    if (back > 0 && back <= after) r.more[r.num_more++] = before + n - 1 + back;
  }
  return r;
}

/* Sums over the readers of each axis in turn: an odometer over all of them. Away from the
 * edges an element has one reader, which needs no odometer. */
template <class T, class I>
__global__ void __launch_bounds__(place_threads)
    unpad(T *dx, const T *dy, I n, const __grid_constant__ unpadding u) {
  I i = thread_index<I>(), rest = i;
  if (i >= n) return;
  int64_t offset = 0;
  bool alone = true;
#pragma unroll 1
  for (int d = u.rank - 1; d >= 0; d--) {
    I q, j;
    split(rest, u.size[d], &q, &j);
    rest = q;
    readers one = readers_of(u, d, (int64_t)j);
    alone = alone && one.count + one.num_more == 1;
    offset += one.begin * u.step[d];
  }
  if (alone) {
    dx[i] = dy[offset];
    return;
  }
  readers r[TN_MAX_RANK];
  int64_t at[TN_MAX_RANK];
  rest = i;
  offset = 0;
#pragma unroll 1
  for (int d = u.rank - 1; d >= 0; d--) {
    I q, j;
    split(rest, u.size[d], &q, &j);
    rest = q;
    r[d] = readers_of(u, d, (int64_t)j);
    at[d] = 0;
    offset += r[d].begin * u.step[d];
  }
  compute_t<T> sum = 0;
  for (;;) {
    sum += load(dy[offset]);
    int d = u.rank - 1;
#pragma unroll 1
    for (; d >= 0; d--) {
      const readers &a = r[d];
      int64_t k = at[d]++, here = k < a.count ? a.begin + k : a.more[k - a.count];
      if (++k < a.count + a.num_more) {
        offset += ((k < a.count ? a.begin + k : a.more[k - a.count]) - here) * u.step[d];
        break;
      }
      at[d] = 0;
      offset += (a.begin - here) * u.step[d];
    }
    if (d < 0) break;
  }
  dx[i] = stored<T>::from(sum);
}

template <class T> tn_status run_unpad(const tn_kernel_args *args, int64_t n, const unpadding &u) {
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data;
  if (n <= CUDA_MAX_INDEX)
    return launch(args, unpad<T, uint32_t>, place_blocks(n), place_threads, 0, dx, dy, (uint32_t)n,
                  u);
  return launch(args, unpad<T, uint64_t>, place_blocks(n), place_threads, 0, dx, dy, (uint64_t)n,
                u);
}

} // namespace

tn_status cuda_run_pad_grad(const tn_kernel_args *args) {
  const tn_pad_grad_attrs *attrs = (const tn_pad_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  int64_t n = cuda_size(dx, 0, dx->ndim), step = 1;
  if (n == 0) return TN_OK;
  unpadding u = {dx->ndim, (int)attrs->mode};
  for (int d = dx->ndim - 1; d >= 0; d--) {
    u.size[d] = place_divisor_of(dx->shape[d]);
    u.before[d] = attrs->before.count ? attrs->before.dim[d] : 0;
    u.after[d] = attrs->after.count ? attrs->after.dim[d] : 0;
    u.step[d] = step;
    step *= dy->shape[d];
  }
  return for_float(args, dx, [&](auto t) { return run_unpad<decltype(t)>(args, n, u); });
}
