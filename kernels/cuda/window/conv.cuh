/* What direct convolutions share: their shapes. */
#ifndef KERNELS_CUDA_WINDOW_CONV_CUH
#define KERNELS_CUDA_WINDOW_CONV_CUH

#include "kernels/common/window.h"
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

/* x [n, c, d, h, w], w [k, c / groups, kd, kh, kw], y [n, k, od, oh, ow]. */
struct conv_shape {
  int64_t count; /* of the result's elements */
  int n, size[3], kernel[3], out[3];
  int group_c, group_k; /* channels of one group on either side */
  int stride[3], pad[3], dilation[3];
  int activation;                /* what is applied as y is stored */
  int64_t x[5], weight[5], y[5]; /* strides in elements */
  bool narrow;                   /* count fits 31 bits: divide by multiplication */
  cuda_divisor by[5];            /* sizes of the result */
};

namespace {

__device__ bool is_inside(int i, int size) { return i >= 0 && i < size; }

/* Attributes beyond 31 bits are never more than one window's or one tap's. */
static inline int narrowed(int64_t value) {
  return value > CUDA_MAX_INDEX ? CUDA_MAX_INDEX : (int)value;
}

/* Whether y's activation is applied as it is stored. */
static inline bool stores_activated(const tn_kernel_args *args, int activation) {
  return is_simple_activation(activation) || args->out[0]->dtype.bits == 16;
}

static inline void copy_strides(int64_t *to, const window_shape &from) {
  for (int d = 0; d < 5; d++) to[d] = from.stride[d];
}

static inline conv_shape shape_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                                  const DLTensor *y, const DLTensor *result) {
  const window_conv a = window_conv_of(args->attrs, window_axes(x));
  const window_shape sx = window_shape_of(x), sw = window_shape_of(w), sy = window_shape_of(y);
  const window_shape of_result = window_shape_of(result);
  conv_shape s;
  s.count = cuda_size(result, 0, result->ndim);
  s.narrow = s.count <= CUDA_MAX_INDEX;
  for (int d = 0; d < 5; d++) s.by[d] = cuda_divisor_of((uint32_t)of_result.size[d]);
  s.n = (int)sx.size[0];
  s.group_c = (int)sw.size[1];
  s.group_k = (int)(sw.size[0] / a.groups);
  for (int d = 0; d < 3; d++) {
    s.size[d] = (int)sx.size[2 + d];
    s.kernel[d] = (int)sw.size[2 + d];
    s.out[d] = (int)sy.size[2 + d];
    s.stride[d] = narrowed(a.stride[d]);
    s.pad[d] = narrowed(a.padding[d]);
    s.dilation[d] = narrowed(a.dilation[d]);
  }
  const int activation = (int)window_activation(args);
  s.activation = stores_activated(args, activation) ? activation : TN_ACTIVATION_NONE;
  copy_strides(s.x, sx);
  copy_strides(s.weight, sw);
  copy_strides(s.y, sy);
  return s;
}

} // namespace

/* conv_planes.cu: false, and nothing done, where the call is for the other kernels. `backward`: x
 * from y. */
bool cuda_conv_planes(const tn_kernel_args *args, const conv_shape &s, bool backward,
                      tn_status *status);
/* conv_patch.cu: likewise. */
bool cuda_conv_patch_forward(const tn_kernel_args *args, const conv_shape &s, tn_status *status);
bool cuda_conv_patch_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                            const conv_shape &s, tn_status *status);
/* Bytes of workspace that the latter is faster with. */
size_t cuda_conv_patch_workspace(const tn_kernel_args *args, const DLTensor *dy);

/* conv_small.cu: likewise. */
bool cuda_conv_small_image(const tn_kernel_args *args, const conv_shape &s, bool backward,
                           tn_status *status);
bool cuda_conv_small_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                            const conv_shape &s, tn_status *status);

#endif /* KERNELS_CUDA_WINDOW_CONV_CUH */
