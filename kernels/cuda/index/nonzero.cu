/* nonzero: bits are looked at, without the sign of a float. */
#include "kernels/cuda/index/compact.cuh"

namespace {

struct search {
  int64_t n;
  uint64_t mask; /* all bits but the sign of a float */
  int rank;
  place_divisor size[TN_MAX_RANK];
};

__device__ __forceinline__ void write_index(int64_t *y, int64_t flat, const search &s) {
  uint64_t rest = (uint64_t)flat;
#pragma unroll 1
  for (int d = s.rank - 1; d > 0; d--) {
    uint64_t q, at;
    if (s.n <= CUDA_MAX_INDEX) {
      uint32_t q32, at32;
      split((uint32_t)rest, s.size[d], &q32, &at32);
      q = q32;
      at = at32;
    } else {
      split(rest, s.size[d], &q, &at);
    }
    y[d] = (int64_t)at;
    rest = q;
  }
  if (s.rank) y[0] = (int64_t)rest;
}

template <class T> struct set_elements {
  using U = T;
  using V = uint8_t; /* nothing is read again */
  const U *tested;
  int64_t *y;
  search s;
  __device__ __forceinline__ uint32_t hits(const vector_of<U> &v, int64_t) const {
    return compact_bits<U>([&](int e) { return (v.v[e] & (U)s.mask) != 0; });
  }
  __device__ __forceinline__ V fetch(int64_t) const { return 0; }
  __device__ __forceinline__ void write(int64_t to, int64_t i, V) const {
    write_index(y + to * s.rank, i, s);
  }
};

} // namespace

tn_status cuda_nonzero_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = compact_bytes(cuda_size(args->in[0], 0, args->in[0]->ndim));
  return TN_OK;
}

tn_status cuda_run_nonzero(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  bool real = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  search s = {cuda_size(x, 0, x->ndim), ~(uint64_t)0, x->ndim};
  if (real) s.mask = ~((uint64_t)1 << (x->dtype.bits - 1));
  for (int d = 0; d < x->ndim; d++) s.size[d] = place_divisor_of(x->shape[d]);
  int64_t *y = (int64_t *)args->out[0]->data, *count = (int64_t *)args->out[1]->data;
  return for_size(x, [&](auto t) {
    using U = decltype(t);
    return compact(args, args->workspace, s.n, count, set_elements<U>{(const U *)x->data, y, s});
  });
}
