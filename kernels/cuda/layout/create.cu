/* Tensors made from a rule, triangles, and one_hot: a thread to 16 bytes of a dense y. */
#include "kernels/cuda/base/vector.cuh"
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

/* odd_float of what is normal in float, without a way back. */
__device__ __forceinline__ float odd_of_normal(double x) {
  const uint32_t lost = (uint32_t)__double2loint(x) & 0x1fffffffu;
  return __uint_as_float(__float_as_uint(__double2float_rz(x)) | min(lost, 1u));
}

template <class T> struct count_up {
  template <class I> struct by {
    series s;
    template <int N> __device__ __forceinline__ void fill(I first, T (&v)[N]) const {
      if constexpr (N > 1 && is_real<T>::value && sizeof(T) == 2)
        if (fill_pairs((int64_t)first, v)) return;
#pragma unroll
      for (int k = 0; k < N; k++) v[k] = at((int64_t)first + k);
    }
    /* The same of N numbers of one sign that float holds as normal ones and none of which is an
     * end; false where they are not. */
    template <int N> __device__ __forceinline__ bool fill_pairs(int64_t first, T (&v)[N]) const {
      const double i = (double)first, a = fma(i, s.step, s.start);
      const double b = fma(i + (N - 1), s.step, s.start);
      if (s.last >= 0 && (first == 0 || s.last - first < N)) return false;
      if (!(fmin(fabs(a), fabs(b)) >= 0x1p-126 && fmax(fabs(a), fabs(b)) < 0x1p126)) return false;
      if ((a < 0) != (b < 0)) return false;
      uint32_t pairs[N / 2];
#pragma unroll
      for (int k = 0; k < N; k += 2)
        pairs[k / 2] = pair_of(odd_of_normal(fma(i + k, s.step, s.start)),
                               odd_of_normal(fma(i + (k + 1), s.step, s.start)), T());
      memcpy(v, pairs, sizeof pairs);
      return true;
    }
    __device__ __forceinline__ T at(int64_t i) const {
      if constexpr (!is_real<T>::value) {
        return convert<T>::from((int64_t)(s.whole_start + (uint64_t)i * s.whole_step));
      } else {
        double x = fma((double)i, s.step, s.start);
        if (i == s.last) x = s.stop;
        if (i == 0 && s.last >= 0) x = s.start;
        return convert<T>::from(x);
      }
    }
  };
};

template <class T> tn_status run_count(const tn_kernel_args *args, const series &s) {
  return vector_run<T, count_up<T>::template by>(args, (T *)args->out[0]->data, s.n, s);
}

tn_status run_series(const tn_kernel_args *args, series s) {
  s.n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (s.n == 0) return TN_OK;
  return for_number(args, args->out[0], [&](auto t) { return run_count<decltype(t)>(args, s); });
}

/* --- eye, tril, triu --- */

enum triangle { LOWER, UPPER, DIAGONAL };

/* Bits of N elements side by side in a row, of which those are kept that lie before, behind or at
 * place `at` from the first. */
template <int N, class S> __device__ __forceinline__ uint32_t kept_of(int which, S at) {
  constexpr uint32_t all = (1u << N) - 1;
  const uint32_t from = at <= 0 ? all : at >= N ? 0 : all << at & all;
  const uint32_t behind = at < 0 ? all : at >= N - 1 ? 0 : all << (at + 1) & all;
  return which == LOWER ? all & ~behind : which == UPPER ? from : from & ~behind;
}

/* x is NULL for eye, and may be y itself otherwise: it is not read where nothing of it is kept.
 * The diagonal reaches no further than the first row or column outside. */
template <class U> struct cut_out {
  template <class I> struct by {
    using S = std::make_signed_t<I>;
    const U *x;
    readable from;
    int which;
    int64_t diagonal;
    U one;
    place_divisor rows, columns;
    /* The same of N elements, some of which may lie in the rows behind. */
    template <int N> __device__ __forceinline__ uint32_t kept_across(S row, S column) const {
      uint32_t kept = 0;
#pragma unroll 1
      for (int k = 0; k < N; k++) {
        kept |= kept_of<1>(which, (S)diagonal - column + row) << k;
        if (++column < (S)columns.value) continue;
        column = 0;
        if (++row == (S)rows.value) row = 0;
      }
      return kept;
    }
    template <int N> __device__ __forceinline__ void fill(I first, U (&v)[N]) const {
      constexpr uint32_t all = (1u << N) - 1;
      I line, column, matrix, row;
      split(first, columns, &line, &column);
      split(line, rows, &matrix, &row);
      const uint32_t kept = column + N <= (I)columns.value
                                ? kept_of<N>(which, (S)diagonal - (S)column + (S)row)
                                : kept_across<N>((S)row, (S)column);
#pragma unroll
      for (int k = 0; k < N; k++) v[k] = kept ? one : (U)0;
      if (kept == 0) return;
      if (x) {
        if constexpr (N == 1) {
          v[0] = x[first];
        } else {
          vector_of<U> read = vector_at(x + first, from);
#pragma unroll
          for (int k = 0; k < N; k++) v[k] = read.v[k];
        }
      }
      if (kept == all) return;
#pragma unroll
      for (int k = 0; k < N; k++)
        if (!(kept >> k & 1)) v[k] = 0;
    }
  };
};

template <class U> tn_status run_cut(const tn_kernel_args *args, int which, int64_t diagonal) {
  const DLTensor *out = args->out[0];
  int64_t n = cuda_size(out, 0, out->ndim);
  U one = (U)cuda_value_bits(cuda_dtype(out), 1);
  const U *x = which == DIAGONAL ? NULL : (const U *)args->in[0]->data;
  readable from = readable_of(which == DIAGONAL ? out : args->in[0]);
  if (n == 0) return TN_OK;
  const int64_t rows = out->shape[out->ndim - 2], columns = out->shape[out->ndim - 1];
  if (diagonal < -rows) diagonal = -rows;
  if (diagonal > columns) diagonal = columns;
  return vector_run<U, cut_out<U>::template by>(args, (U *)out->data, n, x, from, which, diagonal,
                                                one, place_divisor_of(rows),
                                                place_divisor_of(columns));
}

tn_status run_matrices(const tn_kernel_args *args, int which) {
  int64_t diagonal = ((const tn_tril_attrs *)args->attrs)->diagonal; /* one layout for all */
  return for_size(args->out[0],
                  [&](auto t) { return run_cut<decltype(t)>(args, which, diagonal); });
}

/* --- one_hot: y as [outer, classes, inner], index as [outer, inner] --- */

template <class U> struct mark {
  template <class I> struct by {
    indexes index;
    place_divisor classes, inner;
    U on, off;
    template <int N> __device__ __forceinline__ void fill(I first, U (&v)[N]) const {
      I row, at, outer, which;
      split(first, inner, &row, &at);
      split(row, classes, &outer, &which);
      if (inner.value == 1 && which + N <= (I)classes.value) {
        const int64_t here = index.at((int64_t)outer) - (int64_t)which;
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = here == k ? on : off;
        return;
      }
      int64_t place = (int64_t)outer * (int64_t)inner.value + (int64_t)at, base = place - at;
      int64_t here = index.at(place);
#pragma unroll
      for (int k = 0; k < N; k++) {
        v[k] = here == (int64_t)which ? on : off;
        if (k == N - 1) break;
        if (++at == (I)inner.value) {
          at = 0;
          if (++which == (I)classes.value) {
            which = 0;
            base += (int64_t)inner.value;
          }
          if (inner.value == 1 && which) continue; /* the same index */
        }
        here = index.at(base + (int64_t)at);
      }
    }
  };
};

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

tn_status cuda_run_one_hot(const tn_kernel_args *args) {
  const tn_one_hot_attrs *attrs = (const tn_one_hot_attrs *)args->attrs;
  const DLTensor *index = args->in[0], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim),
          axis = attrs->axis < 0 ? attrs->axis + y->ndim : attrs->axis;
  if (n == 0) return TN_OK;
  return for_size(y, [&](auto e) {
    using U = decltype(e);
    return vector_run<U, mark<U>::template by>(
        args, (U *)y->data, n, indexes_of(index, attrs->classes), place_divisor_of(attrs->classes),
        place_divisor_of(cuda_size(y, (int)axis + 1, y->ndim)),
        (U)cuda_value_bits(cuda_dtype(y), attrs->on),
        (U)cuda_value_bits(cuda_dtype(y), attrs->off));
  });
}
