/* Tensors made from a rule, and triangles: one thread for each element of a dense y. */
#include "kernels/cuda/base/place.cuh"
#include "kernels/cuda/elementwise/convert.cuh"

namespace {

/* --- arange and linspace --- */

struct series {
  int64_t n;
  double start, step, stop;
  int64_t last; /* where stop stands; -1 for none */
  uint64_t whole_start, whole_step;
};

template <class T> struct is_real { static constexpr bool value = false; };
template <> struct is_real<double> { static constexpr bool value = true; };
template <> struct is_real<float> { static constexpr bool value = true; };
template <> struct is_real<half_t> { static constexpr bool value = true; };
template <> struct is_real<bfloat_t> { static constexpr bool value = true; };

template <class T>
__global__ void __launch_bounds__(place_threads) count_up(T *y, const __grid_constant__ series s) {
  int64_t i = thread_index<int64_t>();
  if (i >= s.n) return;
  if (!is_real<T>::value) {
    y[i] = convert<T>::from((int64_t)(s.whole_start + (uint64_t)i * s.whole_step));
    return;
  }
  double x = fma((double)i, s.step, s.start);
  if (i == s.last) x = s.stop;
  if (i == 0 && s.last >= 0) x = s.start;
  y[i] = convert<T>::from(x);
}

template <class T> tn_status run_count(const tn_kernel_args *args, const series &s) {
  return launch(args, count_up<T>, place_blocks(s.n), place_threads, 0, (T *)args->out[0]->data, s);
}

tn_status run_series(const tn_kernel_args *args, series s) {
  s.n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (s.n == 0) return TN_OK;
  return for_number(args, args->out[0], [&](auto t) { return run_count<decltype(t)>(args, s); });
}

/* --- eye, tril, triu --- */

enum triangle { LOWER, UPPER, DIAGONAL };

/* x is NULL for eye, and may be y itself otherwise. */
template <class U, class I>
__global__ void __launch_bounds__(place_threads)
    cut(U *y, const U *x, I n, int which, int64_t diagonal, U one, place_divisor rows,
        place_divisor columns) {
  I i = thread_index<I>(), line, column, matrix, row;
  if (i >= n) return;
  split(i, columns, &line, &column);
  split(line, rows, &matrix, &row);
  int64_t d = (int64_t)column - (int64_t)row;
  bool kept = which == LOWER ? d <= diagonal : which == UPPER ? d >= diagonal : d == diagonal;
  U value{};
  if (kept) value = x ? x[i] : one;
  y[i] = value;
}

template <class U> tn_status run_cut(const tn_kernel_args *args, int which, int64_t diagonal) {
  const DLTensor *out = args->out[0];
  int64_t n = cuda_size(out, 0, out->ndim);
  U *y = (U *)out->data, one = (U)cuda_value_bits(cuda_dtype(out), 1);
  const U *x = which == DIAGONAL ? NULL : (const U *)args->in[0]->data;
  place_divisor rows = place_divisor_of(out->shape[out->ndim - 2]);
  place_divisor columns = place_divisor_of(out->shape[out->ndim - 1]);
  if (n == 0) return TN_OK;
  if (n <= CUDA_MAX_INDEX)
    return launch(args, cut<U, uint32_t>, place_blocks(n), place_threads, 0, y, x, (uint32_t)n,
                  which, diagonal, one, rows, columns);
  return launch(args, cut<U, uint64_t>, place_blocks(n), place_threads, 0, y, x, (uint64_t)n, which,
                diagonal, one, rows, columns);
}

tn_status run_matrices(const tn_kernel_args *args, int which) {
  int64_t diagonal = ((const tn_tril_attrs *)args->attrs)->diagonal; /* one layout for all */
  return for_size(args->out[0],
                  [&](auto t) { return run_cut<decltype(t)>(args, which, diagonal); });
}

} // namespace

tn_status cuda_run_arange(const tn_kernel_args *args) {
  const tn_arange_attrs *attrs = (const tn_arange_attrs *)args->attrs;
  series s = {};
  s.start = attrs->start;
  s.step = attrs->step;
  s.last = -1;
  s.whole_start = cuda_value_bits(TN_I64, attrs->start);
  s.whole_step = cuda_value_bits(TN_I64, attrs->step);
  return run_series(args, s);
}

tn_status cuda_run_linspace(const tn_kernel_args *args) {
  const tn_linspace_attrs *attrs = (const tn_linspace_attrs *)args->attrs;
  series s = {};
  s.last = cuda_size(args->out[0], 0, args->out[0]->ndim) - 1;
  s.start = attrs->start;
  s.stop = s.last > 0 ? attrs->stop : attrs->start;
  if (s.last > 0) s.step = (attrs->stop - attrs->start) / (double)s.last;
  return run_series(args, s);
}

tn_status cuda_run_eye(const tn_kernel_args *args) { return run_matrices(args, DIAGONAL); }
tn_status cuda_run_tril(const tn_kernel_args *args) { return run_matrices(args, LOWER); }
tn_status cuda_run_triu(const tn_kernel_args *args) { return run_matrices(args, UPPER); }
