/*
 * Lists of tensors in one launch: a table in the kernel's parameters says where each
 * tensor lies and which block begins it. Lists too long for a table take several
 * launches. The table comes in two sizes, since a long one costs every launch.
 */
#ifndef KERNELS_CUDA_MULTI_CUH
#define KERNELS_CUDA_MULTI_CUH

#include "kernels/cuda/base/dispatch.cuh"

enum {
  multi_threads = 256,
  multi_rounds = 4, /* packs that one thread handles */
  /* Parameters of all kernels, and of those for devices of today. */
  multi_small_bytes = 3800,
#if CUDART_VERSION >= 12010
  multi_large_bytes = 32000,
#else
  multi_large_bytes = multi_small_bytes,
#endif
};

/* Tensors of `LISTS` lists, place by place; empty ones are left out. */
template <int LISTS, int CAPACITY> struct multi_table {
  static constexpr int capacity = CAPACITY;
  int count;
  void *data[LISTS][CAPACITY];
  int64_t size[CAPACITY];   /* elements */
  uint32_t first[CAPACITY]; /* block */
};

constexpr int multi_capacity(int lists, int bytes) { return bytes / (8 * lists + 12); }

/* A block's share: `n` elements of the tensor at `place`, from `begin` on. */
struct multi_share {
  int place;
  int64_t begin, n;
};

template <int LISTS, int CAPACITY>
__device__ __forceinline__ multi_share multi_find(const multi_table<LISTS, CAPACITY> &t,
                                                  int64_t chunk, uint32_t block) {
  int low = 0, high = t.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (t.first[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  int64_t begin = (int64_t)(block - t.first[low]) * chunk, n = t.size[low] - begin;
  return {low, begin, n < chunk ? n : chunk};
}

/* Calls start(table, blocks) for as many tables as the lists fill: tensor `at` of list k is
 * lists[k][at]. */
template <int LISTS, int CAPACITY, class Start>
static tn_status multi_each_table(const DLTensor *const *const *lists, int length, int64_t chunk,
                                  Start start) {
  multi_table<LISTS, CAPACITY> t;
  tn_status status = TN_OK;
  for (int i = 0; i < length && status == TN_OK;) {
    int64_t blocks = 0;
    t.count = 0;
    for (; i < length && t.count < CAPACITY && blocks < CUDA_MAX_INDEX / 2; i++) {
      int64_t n = cuda_size(lists[0][i], 0, lists[0][i]->ndim);
      if (n == 0) continue;
      for (int k = 0; k < LISTS; k++) t.data[k][t.count] = lists[k][i]->data;
      t.size[t.count] = n;
      t.first[t.count++] = (uint32_t)blocks;
      blocks += ceil_div(n, chunk);
    }
    if (t.count > 0) status = start(t, (unsigned)blocks);
  }
  return status;
}

#endif /* KERNELS_CUDA_MULTI_CUH */
