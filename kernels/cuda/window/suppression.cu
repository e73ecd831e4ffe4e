/*
 * Which boxes of those that overlap are left (non_max_suppression), a block per class: it finds the
 * best box, drops those that overlap it, and begins again.
 */
#include "kernels/common/boxes.h"
#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { class_threads = 512, warp = 32, class_warps = class_threads / warp, held_boxes = 4 };

struct suppression {
  int64_t classes, all, n, most; /* all: classes of all images */
  double overlap, score;
  int centered;
};

/* A box that may be the best one left: a key that orders as scores do, 0 for none. */
struct candidate {
  unsigned long long key;
  uint32_t at;
};

__device__ __forceinline__ unsigned long long score_key(double score) {
  const unsigned long long bits = (unsigned long long)__double_as_longlong(score + 0.0);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}

/* The better of two; of equal scores the first box. */
__device__ __forceinline__ void take_better(candidate *best, candidate other) {
  if (other.key > best->key || (other.key == best->key && other.at < best->at)) *best = other;
}

/* The best of a warp's, in every lane. */
__device__ __forceinline__ candidate best_of_warp(candidate own) {
  const uint32_t high = (uint32_t)(own.key >> 32), best_high = __reduce_max_sync(~0u, high);
  const uint32_t low = high == best_high ? (uint32_t)own.key : 0;
  const uint32_t best_low = __reduce_max_sync(~0u, low);
  const unsigned long long key = (unsigned long long)best_high << 32 | best_low;
  return {key, __reduce_min_sync(~0u, own.key == key ? own.at : ~0u)};
}

template <class T> __device__ box box_at(const T *boxes, int64_t i, int centered) {
  double v[4];
  for (int d = 0; d < 4; d++) v[d] = (double)load(boxes[4 * i + d]);
  return box_of(v, centered != 0);
}

/* A block to a class. A thread has its first boxes in registers, and of others in memory whether
 * they are out. */
template <class T>
__global__ void __launch_bounds__(class_threads)
    suppress(int64_t *left, int64_t *count, uint8_t *out, const T *boxes, const T *scores,
             const __grid_constant__ suppression s) {
  __shared__ candidate best[2][class_warps];
  __shared__ box best_box[2][class_warps];
  const int64_t k = blockIdx.x;
  int64_t found = 0;
  boxes += k / s.classes * s.n * 4;
  scores += k * s.n;
  out += k * s.n;
  left += k * s.most;
  box held[held_boxes], kept;
  candidate own[held_boxes];
#pragma unroll
  for (int h = 0; h < held_boxes; h++) {
    const int64_t i = threadIdx.x + h * class_threads;
    own[h] = {0, (uint32_t)i};
    held[h] = {};
    if (i >= s.n) continue;
    const double score = (double)load(scores[i]);
    if (score > s.score) own[h].key = score_key(score);
    held[h] = box_at(boxes, i, s.centered);
  }
  const int64_t beyond = threadIdx.x + held_boxes * class_threads;
  for (int64_t i = beyond; i < s.n; i += class_threads)
    out[i] = !((double)load(scores[i]) > s.score);
  uint32_t chosen = ~0u;
  for (int side = 0; found < s.most; side ^= 1) {
    candidate first = {0, ~0u};
#pragma unroll
    for (int h = 0; h < held_boxes; h++) {
      if (!own[h].key) continue;
      if (found && (own[h].at == chosen || boxes_overlap(&kept, &held[h], s.overlap)))
        own[h].key = 0;
      else
        take_better(&first, own[h]);
    }
    for (int64_t i = beyond; i < s.n; i += class_threads) {
      if (out[i]) continue;
      const box other = box_at(boxes, i, s.centered);
      if (found && ((uint32_t)i == chosen || boxes_overlap(&kept, &other, s.overlap)))
        out[i] = 1;
      else
        take_better(&first, {score_key((double)load(scores[i])), (uint32_t)i});
    }
    const candidate of_warp = best_of_warp(first);
    if (of_warp.key && first.at == of_warp.at) {
      box b = held[0];
#pragma unroll
      for (int h = 1; h < held_boxes; h++)
        if (own[h].at == first.at) b = held[h];
      if (first.at >= held_boxes * class_threads) b = box_at(boxes, first.at, s.centered);
      best_box[side][threadIdx.x / warp] = b;
    }
    if (threadIdx.x % warp == 0) best[side][threadIdx.x / warp] = of_warp;
    __syncthreads(); /* the other side's are read until the next one */
    const int lane = threadIdx.x % warp;
    candidate all = {0, ~0u};
    if (lane < class_warps) all = best[side][lane];
    const candidate winner = best_of_warp(all);
    if (!winner.key) break;
    const uint32_t from = __ballot_sync(~0u, all.key && all.at == winner.at);
    chosen = winner.at;
    kept = best_box[side][__ffs((int)from) - 1];
    if (threadIdx.x == 0) left[found] = chosen;
    found++;
  }
  if (threadIdx.x == 0) count[k] = found;
}

/* Rows of what was left, in order of image and class: a block to a few classes, which counts what
 * stands before them. */
enum { rows_classes = 64 };

__global__ void __launch_bounds__(class_threads)
    write_rows(int64_t *y, int64_t *total, const int64_t *left, const int64_t *count,
               const __grid_constant__ suppression s) {
  __shared__ unsigned long long before;
  __shared__ int64_t counts[rows_classes];
  const int64_t begin = (int64_t)blockIdx.x * rows_classes;
  const int64_t end = begin + rows_classes < s.all ? begin + rows_classes : s.all;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  unsigned long long sum = 0;
  for (int64_t k = threadIdx.x; k < begin; k += class_threads) sum += (unsigned long long)count[k];
  if (sum) atomicAdd(&before, sum);
  if (begin + threadIdx.x < end) counts[threadIdx.x] = count[begin + threadIdx.x];
  __syncthreads();
  int64_t first = (int64_t)before;
  for (int64_t k = begin; k < end; k++) {
    for (int64_t i = threadIdx.x; i < counts[k - begin]; i += class_threads) {
      y[3 * (first + i)] = k / s.classes;
      y[3 * (first + i) + 1] = k % s.classes;
      y[3 * (first + i) + 2] = left[k * s.most + i];
    }
    first += counts[k - begin];
  }
  if (threadIdx.x == 0 && end == s.all) *total = first;
}

suppression suppression_of(const tn_kernel_args *args) {
  const tn_non_max_suppression_attrs *a = (const tn_non_max_suppression_attrs *)args->attrs;
  const DLTensor *scores = args->in[1];
  suppression s = {scores->shape[1], scores->shape[0] * scores->shape[1],
                   scores->shape[2], scores->shape[2],
                   a->overlap,       a->score,
                   a->centered};
  if (a->most && a->most < s.n) s.most = a->most;
  return s;
}

} // namespace

/* Boxes are numbered with 32 bits. */
bool cuda_suppress_supports(const tn_kernel_args *args) {
  return args->in[1]->shape[2] <= CUDA_MAX_INDEX;
}

/* Of each class the boxes left and how many, and whether a box is out. */
tn_status cuda_suppress_workspace(const tn_kernel_args *args, size_t *bytes) {
  suppression s = suppression_of(args);
  *bytes = (size_t)s.all * ((size_t)(s.most + 1) * sizeof(int64_t) + (size_t)s.n);
  return TN_OK;
}

tn_status cuda_run_non_max_suppression(const tn_kernel_args *args) {
  const DLTensor *boxes = args->in[0], *scores = args->in[1];
  suppression s = suppression_of(args);
  int64_t *left = (int64_t *)args->workspace, *count = left + s.all * s.most;
  uint8_t *out = (uint8_t *)(count + s.all);
  tn_status status = TN_OK;
  if (s.n == 0) s.all = 0;
  if (s.all)
    status = for_float(args, scores, [&](auto t) {
      using T = decltype(t);
      return launch(args, suppress<T>, (unsigned)s.all, class_threads, 0, left, count, out,
                    (const T *)boxes->data, (const T *)scores->data, s);
    });
  if (status != TN_OK) return status;
  const unsigned blocks = s.all ? (unsigned)ceil_div(s.all, rows_classes) : 1;
  return launch(args, write_rows, blocks, class_threads, 0, (int64_t *)args->out[0]->data,
                (int64_t *)args->out[1]->data, (const int64_t *)left, (const int64_t *)count, s);
}
