/* The radix sorts of radix.h. */
#include "kernels/cuda/index/radix.h"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/base/common.cuh"

namespace {

/* Sorts, or says how much memory that takes where temp is NULL. */
template <class K> cudaError_t sort_as(cuda_radix *r, int bits, cudaStream_t stream) {
  cub::DoubleBuffer<K> key((K *)r->key[0], (K *)r->key[1]);
  cub::DoubleBuffer<uint32_t> item(r->item[0], r->item[1]);
  uint32_t n = (uint32_t)r->n;
  cudaError_t error =
      r->item[1] || r->item[0]
          ? cub::DeviceRadixSort::SortPairs(r->temp, r->temp_bytes, key, item, n, r->first, bits,
                                            stream)
          : cub::DeviceRadixSort::SortKeys(r->temp, r->temp_bytes, key, n, r->first, bits, stream);
  if (!r->temp || error != cudaSuccess) return error;
  r->key[0] = key.Current();
  r->key[1] = key.Alternate();
  r->item[0] = item.Current();
  r->item[1] = item.Alternate();
  return error;
}

} // namespace

tn_status cuda_radix_of(const tn_kernel_args *args, void *base, int64_t n, int bits, bool items,
                        cuda_radix *r) {
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  *r = cuda_radix{};
  r->n = n;
  r->wide = bits > 32;
  size_t keys = cuda_radix_rounded((size_t)n * (r->wide ? 8 : 4)), at = 2 * keys;
  size_t places = items ? cuda_radix_rounded((size_t)n * 4) : 0;
  r->item[1] = items ? (uint32_t *)r : NULL; /* any: only asked for */
  cudaError_t error = r->wide ? sort_as<uint64_t>(r, 64, NULL) : sort_as<uint32_t>(r, 32, NULL);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: size of scratch");
  for (int k = 0; k < 2; k++) {
    r->key[k] = (char *)base + (size_t)k * keys;
    r->item[k] = items ? (uint32_t *)((char *)base + at + (size_t)k * places) : NULL;
  }
  r->temp = (char *)base + at + 2 * places;
  r->bytes = at + 2 * places + cuda_radix_rounded(r->temp_bytes ? r->temp_bytes : 1);
  return TN_OK;
}

tn_status cuda_radix_sort(const tn_kernel_args *args, cuda_radix *r, int bits) {
  if (r->n == 0 || bits == 0) return TN_OK; /* stable: they stay as they are */
  cudaStream_t stream = (cudaStream_t)args->native_stream;
  cudaError_t error =
      r->wide ? sort_as<uint64_t>(r, bits, stream) : sort_as<uint32_t>(r, bits, stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cub: radix sort");
}
