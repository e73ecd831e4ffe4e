/*
 * Normalising by the squares of neighbouring channels, a thread per element. Squares are summed in
 * double: float32 has no room for those of all its numbers.
 */
#include "kernels/cuda/base/place.cuh"

namespace {

struct response {
  int64_t channels, inner, before, behind;
  double share, beta, bias;
};

template <class T>
__global__ void __launch_bounds__(place_threads)
    respond(T *y, const T *x, int64_t count, const __grid_constant__ response s) {
  int64_t i = thread_index<int64_t>();
  if (i >= count) return;
  int64_t c = i / s.inner % s.channels;
  int64_t first = c < s.before ? -c : -s.before;
  int64_t last = s.channels - 1 - c < s.behind ? s.channels - 1 - c : s.behind;
  double squares = 0;
  for (int64_t j = first; j <= last; j++) {
    double v = (double)load(x[i + j * s.inner]);
    squares += v * v;
  }
  double sum = s.bias + s.share * squares, v = (double)load(x[i]);
  if (s.beta == 0.75) {
    double root = sqrt(sum);
    v /= root * sqrt(root);
  } else {
    v *= pow(sum, -s.beta);
  }
  y[i] = stored<T>::from((compute_t<T>)v);
}

} // namespace

tn_status cuda_run_local_response_norm(const tn_kernel_args *args) {
  const tn_local_response_norm_attrs *a = (const tn_local_response_norm_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t n = cuda_size(x, 0, x->ndim);
  if (n == 0) return TN_OK;
  response s = {x->shape[1], cuda_size(x, 2, x->ndim),   (a->size - 1) / 2,
                a->size / 2, a->alpha / (double)a->size, a->beta,
                a->bias};
  return for_float(args, y, [&](auto t) {
    using T = decltype(t);
    return launch(args, respond<T>, place_blocks(n), place_threads, 0, (T *)y->data,
                  (const T *)x->data, n, s);
  });
}
