/*
 * What lies in boxes (roi_align), a thread to one bin of several channels, and the gradient.
 */
#include "kernels/common/boxes.h"
#include "kernels/cuda/base/fixed.cuh"

namespace {

/* --- roi_align --- */

enum { most_channels = 8, held_channels = 4, enough_threads = 1 << 18 };

struct regions {
  int64_t images, channels, size[2], bins[2], samples;
  double scale;
  int half_pixel;
  int group;   /* channels that a thread takes */
  bool narrow; /* all threads are counted by 31 bits */
  place_divisor by_bins[2], by_groups;
};

/* A thread's bin. */
struct region {
  int64_t r, c, bin[2], image; /* image: -1 where there is none */
  int channels;                /* from c on */
  roi_axis axis[2];
  double first[2], end[2], share; /* share: places that a mean is of */
};

/* Box, first channel and bin. */
template <class I> __device__ void place_by(I i, const regions &s, region *b) {
  I line, bin1, above, bin0, r, group;
  split(i, s.by_bins[1], &line, &bin1);
  split(line, s.by_bins[0], &above, &bin0);
  split(above, s.by_groups, &r, &group);
  b->r = (int64_t)r;
  b->c = (int64_t)group * s.group;
  b->bin[0] = (int64_t)bin0;
  b->bin[1] = (int64_t)bin1;
  b->channels = s.channels - b->c < s.group ? (int)(s.channels - b->c) : s.group;
}

template <class T>
__device__ region region_of(int64_t i, const T *boxes, const int64_t *batch, const regions &s) {
  region b;
  if (s.narrow)
    place_by((uint32_t)i, s, &b);
  else
    place_by((uint64_t)i, s, &b);
  b.image = batch[b.r] >= 0 && batch[b.r] < s.images ? batch[b.r] : -1;
  for (int d = 0; d < 2; d++) {
    b.axis[d] =
        roi_axis_of((double)load(boxes[4 * b.r + 1 - d]), (double)load(boxes[4 * b.r + 3 - d]),
                    s.scale, s.half_pixel, s.samples, s.bins[d]);
    roi_places(&b.axis[d], b.bin[d], s.size[d], &b.first[d], &b.end[d]);
  }
  b.share = fmax(b.axis[0].count * b.axis[1].count, 1.0);
  return b;
}

/* Calls visit(element, weight) for what a bin reads. */
template <class Visit>
__device__ void each_element(const region &b, const regions &s, Visit visit) {
  for (double p = b.first[0]; p < b.end[0]; p++) {
    int64_t row[2], column[2];
    double v, h;
    if (!roi_between(roi_place(&b.axis[0], b.bin[0], p), s.size[0], row, &v)) continue;
    for (double q = b.first[1]; q < b.end[1]; q++) {
      if (!roi_between(roi_place(&b.axis[1], b.bin[1], q), s.size[1], column, &h)) continue;
#pragma unroll
      for (int k = 0; k < 4; k++)
        visit(row[k / 2] * s.size[1] + column[k % 2], (k / 2 ? v : 1 - v) * (k % 2 ? h : 1 - h));
    }
  }
}

/* Where a thread's first channel has its bin in [r, channels, bins]. */
__device__ int64_t bin_of(const region &b, const regions &s) {
  return ((b.r * s.channels + b.c) * s.bins[0] + b.bin[0]) * s.bins[1] + b.bin[1];
}

template <class T, bool LARGEST>
__global__ void __launch_bounds__(place_threads)
    roi_align(T *y, const T *x, const T *boxes, const int64_t *batch, int64_t count,
              const __grid_constant__ regions s) {
  using C = compute_t<T>;
  int64_t i = thread_index<int64_t>();
  if (i >= count) return;
  region b = region_of(i, boxes, batch, s);
  const int64_t area = s.size[0] * s.size[1], bins = s.bins[0] * s.bins[1];
  const T *plane = x + (b.image * s.channels + b.c) * area;
  C sum[most_channels] = {};
  bool any = false;
  if (b.image >= 0)
    each_element(b, s, [&](int64_t element, double weight) {
#pragma unroll
      for (int k = 0; k < most_channels; k++) {
        if (k >= b.channels) break;
        C term = (C)weight * load(plane[k * area + element]);
        if (!LARGEST)
          sum[k] += term;
        else if (!any || term > sum[k] || term != term)
          sum[k] = term;
      }
      any = true;
    });
  y += bin_of(b, s);
#pragma unroll
  for (int k = 0; k < most_channels; k++)
    if (k < b.channels) y[k * bins] = stored<T>::from(LARGEST ? sum[k] : sum[k] / (C)b.share);
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    roi_spread(const T *dy, const T *boxes, const int64_t *batch, int64_t count,
               const __grid_constant__ fixed_sums f, const __grid_constant__ regions s) {
  int64_t i = thread_index<int64_t>();
  if (i >= count) return;
  region b = region_of(i, boxes, batch, s);
  if (b.image < 0) return;
  const int64_t area = s.size[0] * s.size[1], bins = s.bins[0] * s.bins[1];
  const int64_t plane = (b.image * s.channels + b.c) * area;
  const double unit = fixed_unit(f);
  double d[most_channels];
  dy += bin_of(b, s);
#pragma unroll
  for (int k = 0; k < most_channels; k++)
    d[k] = k < b.channels ? (double)load(dy[k * bins]) / b.share : 0;
  each_element(b, s, [&](int64_t element, double weight) {
#pragma unroll
    for (int k = 0; k < most_channels; k++)
      if (k < b.channels) fixed_add(f, unit, plane + k * area + element, weight * d[k]);
  });
}

/* To divide by what is a power of two more often than not, which a product does as exactly. */
struct often_power {
  double value, inverse; /* inverse: 0 for no power of two */

  __device__ often_power(double v) : value(v), inverse(0) {
    int exponent;
    if (frexp(v, &exponent) == 0.5) inverse = 1 / v;
  }
  __device__ double of(double x) const { return inverse != 0 ? x * inverse : x / value; }
};

/* What a bin reads along one axis, each element once with the sum of its weights, for elements come
 * in order but for boxes turned inside out. */
struct axis_taps {
  double from, bin, at, end, weight, next_weight; /* weights of `here` and the element behind it */
  int64_t size, here;

  __device__ axis_taps(const region &b, const regions &s, int d)
      : from(b.axis[d].start + (double)b.bin[d] * b.axis[d].bin), bin(b.axis[d].bin),
        at(b.first[d]), end(b.end[d]), weight(0), next_weight(0), size(s.size[d]), here(-1) {}

  /* count: b.axis[d].count; places are roi_place(). */
  __device__ bool next(const often_power &count, int64_t *element, double *of_all) {
    int64_t found[2];
    double t;
    for (; at < end; at++) {
      if (!roi_between(from + count.of((at + 0.5) * bin), size, found, &t)) continue;
      if (here < 0) here = found[0];
      if (found[0] != here) break;
      weight += 1 - t;
      next_weight += t;
    }
    if (here < 0) return false;
    *element = here;
    *of_all = weight;
    here = next_weight != 0 ? here + 1 : -1;
    weight = next_weight;
    next_weight = 0;
    return true;
  }
};

/* Calls visit(element, weight) for what a bin reads, once for each element. */
template <class Visit>
__device__ __forceinline__ void each_once(const region &b, const regions &s, Visit visit) {
  constexpr int held_columns = 4;
  const often_power rows(b.axis[0].count), columns(b.axis[1].count);
  axis_taps across(b, s, 1);
  for (bool more = true; more;) {
    int64_t column[held_columns];
    double h[held_columns];
#pragma unroll
    for (int k = 0; k < held_columns; k++) {
      column[k] = -1;
      more = more && across.next(columns, &column[k], &h[k]);
    }
    if (column[0] < 0) return;
    int64_t row;
    double v;
    for (axis_taps down(b, s, 0); down.next(rows, &row, &v);)
#pragma unroll
      for (int k = 0; k < held_columns; k++)
        if (column[k] >= 0) visit(row * s.size[1] + column[k], v * h[k]);
  }
}

/* The same by blocks that hold some channels of an image in shared memory: s.group at the most,
 * image blockIdx.y. Infinite gradients times weights of 0 count: they come one by one. */
template <class T>
__global__ void __launch_bounds__(fixed_threads)
    roi_spread_held(T *dx, const T *dy, const T *boxes, const int64_t *batch, int64_t count,
                    int slack, const __grid_constant__ regions s) {
  extern __shared__ unsigned long long held[];
  const int64_t image = blockIdx.y, first = (int64_t)blockIdx.x * s.group;
  const int64_t bins = s.bins[0] * s.bins[1];
  const int channels = (int)(s.channels - first < s.group ? s.channels - first : s.group);
  const int area = (int)(s.size[0] * s.size[1]);
  fixed_block(
      held, channels * area, slack, dx + (image * s.channels + first) * area,
      [&] {
        double largest = 0;
        for (int64_t i = threadIdx.x; i < count; i += fixed_threads) {
          const int64_t r = i / bins;
          if (batch[r] != image) continue;
          for (int k = 0; k < channels; k++) {
            const double size =
                fabs((double)load(dy[(r * s.channels + first + k) * bins + i - r * bins]));
            if (!(size <= largest)) largest = size;
          }
        }
        return largest;
      },
      [&](double unit) {
        for (int64_t i = threadIdx.x; i < count; i += fixed_threads) {
          if (batch[i / bins] != image) continue;
          region b = region_of(i, boxes, batch, s);
          b.c = first;
          const T *from = dy + bin_of(b, s);
          const often_power share(b.share);
          double d[held_channels];
#pragma unroll
          for (int k = 0; k < held_channels; k++)
            d[k] =
                k < channels ? share.of((double)load(from[k * bins])) * (unit != 0 ? unit : 1) : 0;
          auto put = [&](int64_t element, double weight) {
#pragma unroll
            for (int k = 0; k < held_channels; k++)
              if (k < channels) fixed_put(held + k * area + element, unit, weight * d[k]);
          };
          if (unit == 0) {
            each_element(b, s, put);
            continue;
          }
          each_once(b, s, put);
        }
      });
}

/* image: what is read; binned: [r, channels, bins]. */
template <class Attrs>
regions regions_of(const Attrs *a, const DLTensor *image, const DLTensor *binned) {
  regions s = {};
  s.images = image->shape[0];
  s.channels = image->shape[1];
  for (int d = 0; d < 2; d++) {
    s.size[d] = image->shape[2 + d];
    s.bins[d] = binned->shape[2 + d];
    s.by_bins[d] = place_divisor_of(s.bins[d]);
  }
  s.samples = a->samples;
  s.scale = a->scale;
  s.half_pixel = a->half_pixel;
  const int64_t spare = cuda_size(binned, 0, 4) / enough_threads;
  s.group = (int)(spare < 1 ? 1 : spare > most_channels ? most_channels : spare);
  s.by_groups = place_divisor_of(ceil_div(s.channels, s.group));
  return s;
}

/* How many threads there are to so many boxes. */
int64_t threads_of(regions *s, int64_t boxes) {
  const int64_t n = boxes * ceil_div(s->channels, s->group) * s->bins[0] * s->bins[1];
  s->narrow = n <= CUDA_MAX_INDEX;
  return n;
}

template <class T>
tn_status spread_held(const tn_kernel_args *args, regions s, int group, double terms, T *dx,
                      const T *dy, const T *boxes, const int64_t *batch) {
  const size_t bytes = (size_t)group * (size_t)(s.size[0] * s.size[1]) * 8;
  const int64_t count = args->in[1]->shape[0] * s.bins[0] * s.bins[1];
  const tn_status status = allow_shared(args, roi_spread_held<T>, bytes);
  if (status != TN_OK) return status;
  s.group = group;
  s.by_groups = place_divisor_of(1);
  s.narrow = count <= CUDA_MAX_INDEX;
  return launch(args, roi_spread_held<T>,
                dim3((unsigned)ceil_div(s.channels, group), (unsigned)s.images), fixed_threads,
                bytes, dx, dy, boxes, batch, count, fixed_slack(terms), s);
}

/* The gradient's attributes are the operator's behind another number and a pair. */
tn_status run_spread(const tn_kernel_args *args) {
  const tn_roi_align_grad_attrs *a = (const tn_roi_align_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  const int64_t n = cuda_size(dy, 0, 4);
  regions s = regions_of(a, dx, dy);
  /* A bin gives its share no more than once in all. */
  const double bins = (double)dy->shape[0] * (double)(s.bins[0] * s.bins[1]);
  const int64_t count = cuda_size(dx, 0, 4);
  const int group =
      count ? fixed_channels(args, s.images, s.channels, s.size[0] * s.size[1], held_channels) : 0;
  return for_float(args, dx, [&](auto t) {
    using T = decltype(t);
    const T *from = (const T *)dy->data, *boxes = (const T *)args->in[1]->data;
    const int64_t *batch = (const int64_t *)args->in[2]->data;
    T *to = (T *)dx->data;
    if (group && s.images < 65536) return spread_held(args, s, group, bins, to, from, boxes, batch);
    const int64_t walked = threads_of(&s, dy->shape[0]);
    fixed_sums f = fixed_sums_of(args->workspace, count, bins);
    return fixed_run(args, f, from, n, to, [&] {
      return launch(args, roi_spread<T>, place_blocks(walked), place_threads, 0, from, boxes, batch,
                    walked, f, s);
    });
  });
}

template <bool LARGEST> tn_status run_align(const tn_kernel_args *args) {
  const tn_roi_align_attrs *a = (const tn_roi_align_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  if (cuda_size(y, 0, 4) == 0) return TN_OK;
  regions s = regions_of(a, x, y);
  const int64_t n = threads_of(&s, y->shape[0]);
  return for_float(args, y, [&](auto t) {
    using T = decltype(t);
    return launch(args, roi_align<T, LARGEST>, place_blocks(n), place_threads, 0, (T *)y->data,
                  (const T *)x->data, (const T *)args->in[1]->data,
                  (const int64_t *)args->in[2]->data, n, s);
  });
}

} // namespace

tn_status cuda_run_roi_align(const tn_kernel_args *args) { return run_align<false>(args); }
tn_status cuda_run_roi_align_max(const tn_kernel_args *args) { return run_align<true>(args); }
tn_status cuda_run_roi_align_grad(const tn_kernel_args *args) { return run_spread(args); }
