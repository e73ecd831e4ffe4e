/*
 * What the attention kernels share: the call's parameters, and the scores of a tile. Tensors
 * come contiguous; mask and bias keep their own shapes and are walked with stride 0 where
 * they broadcast.
 */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include <math.h>

#include "kernels/common/broadcast.h"
#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/base/halves.cuh"

namespace {

struct attention_params {
  const void *dy, *q, *k, *v, *y, *lse_in;
  void *out, *lse, *dk, *dv; /* out: y, or dq */
  void *delta;               /* sum dy y of each query */
  const bool_t *mask;        /* or NULL */
  const void *bias;          /* or NULL */
  int64_t mask_step[4], bias_step[4];
  int64_t batch;
  int heads, groups, s, t, d;
  int blocks;        /* of one head's queries, or of one group's keys */
  int shift;         /* of a causal call: query i sees keys up to i + shift */
  bool causal, wide; /* wide: rows allow accesses of 16 bytes */
  bool brain;        /* elements of any_half are those of bf16 */
  int tiles;         /* of a gradient's that pass by, in shared memory at once */
  double scale;
};

/* Where a tile lies: a head of q, and its own head of k and v. */
struct attention_place {
  int64_t b, head, group; /* head and group count through the batch */
  int h;
};

__device__ __forceinline__ attention_place place_of_head(const attention_params &p, int64_t head) {
  attention_place at;
  at.head = head;
  at.b = head / p.heads;
  at.h = (int)(head % p.heads);
  at.group = at.b * p.groups + at.h / (p.heads / p.groups);
  return at;
}

__device__ __forceinline__ int64_t score_offset(const attention_place &at, const int64_t *step,
                                                int i, int j) {
  return at.b * step[0] + at.h * step[1] + i * step[2] + j * step[3];
}

/* The keys that some query before `end` sees. */
__device__ __forceinline__ int keys_seen(const attention_params &p, int end) {
  if (!p.causal) return p.t;
  int64_t seen = (int64_t)end + p.shift;
  return seen < 0 ? 0 : seen < p.t ? (int)seen : p.t;
}

__device__ __forceinline__ bool is_hidden(const attention_params &p, const attention_place &at,
                                          int i, int j) {
  if (i >= p.s || j >= p.t || (p.causal && j > (int64_t)i + p.shift)) return true;
  return p.mask && p.mask[score_offset(at, p.mask_step, i, j)].byte == 0;
}

template <class T> __device__ __forceinline__ compute_t<T> load_of(const attention_params &p, T x) {
  if constexpr (std::is_same_v<T, any_half>)
    return load(x, p.brain);
  else
    return load(x);
}

/* The tiles of queries, of all heads that share keys, that see keys from j on. */
struct query_tiles {
  int side, hidden, seen; /* hidden: of each head, those before the first that sees */
  int64_t head;

  __device__ __forceinline__ query_tiles(const attention_params &p, int64_t group, int j, int side)
      : side(side), hidden(0) {
    const int all = (p.s + side - 1) / side;
    const int64_t blind = p.causal ? (int64_t)j - p.shift : 0; /* queries that do not see key j */
    if (blind > 0) hidden = blind < p.s ? (int)blind / side : all;
    seen = all - hidden;
    head = group * (p.heads / p.groups);
  }
  __device__ __forceinline__ int count(const attention_params &p) const {
    return p.heads / p.groups * seen;
  }
  __device__ __forceinline__ attention_place place(const attention_params &p, int x) const {
    return place_of_head(p, head + x / seen);
  }
  __device__ __forceinline__ int first(int x) const { return (hidden + x % seen) * side; }
};

/* The score of a product of query i and key j; -infinity where the key is hidden. */
template <class T, class C>
__device__ __forceinline__ C score_of(const attention_params &p, const attention_place &at, int i,
                                      int j, C product) {
  if (is_hidden(p, at, i, j)) return -(C)INFINITY;
  C score = product * (C)p.scale;
  if (p.bias) score += (C)load_of(p, ((const T *)p.bias)[score_offset(at, p.bias_step, i, j)]);
  return score;
}

/* Of 16 bits: tensor cores take weights rounded to those. Over few keys that rounding does not
 * average out, and there is little to gain. */
static inline bool suits_tensor_cores(const attention_params &p) { return p.d <= 128 && p.t >= 64; }

/* Vectors begin at multiples of 16 bytes. */
static inline bool has_wide_vectors(const attention_params &p, size_t element) {
  const void *at[] = {p.q, p.k, p.v, p.dy, p.out, p.dk, p.dv};
  for (const void *x : at)
    if (!is_aligned(x, 16)) return false;
  return p.d * element % 16 == 0;
}

/* `first` is the place of q among the inputs, `hides` that of mask. */
static inline attention_params attention_params_of(const tn_kernel_args *args, int first,
                                                   int hides) {
  const tn_scaled_dot_product_attention_attrs *attrs =
      (const tn_scaled_dot_product_attention_attrs *)args->attrs; /* the gradient's too */
  const DLTensor *q = args->in[first], *k = args->in[first + 1];
  attention_params p = {};
  p.q = q->data;
  p.k = k->data;
  p.v = args->in[first + 2]->data;
  p.batch = q->shape[0];
  p.heads = (int)q->shape[1];
  p.groups = (int)k->shape[1];
  p.s = (int)q->shape[2];
  p.t = (int)k->shape[2];
  p.d = (int)q->shape[3];
  p.causal = attrs->causal;
  p.brain = is_brain(q);
  p.shift = TN_FIELD_OR(attrs, tn_scaled_dot_product_attention_attrs, causal_upper_left, 0)
                ? 0
                : p.t - p.s;
  p.scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)(p.d > 0 ? p.d : 1));
  p.mask = (const bool_t *)scores_like(args->in[hides], p.mask_step);
  p.bias = scores_like(args->in[hides + 1], p.bias_step);
  return p;
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_CUH */
