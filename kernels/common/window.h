/*
 * Convolutions and poolings over one, two or three spatial axes seen as three: axes that a
 * tensor lacks stand in front of the others with size 1. The operators of a family share
 * the order of their attributes (api/ops/conv.def, pool.def), each an int64_t per axis
 * behind the struct's size, so that one function reads them all.
 */
#ifndef TENON_KERNELS_WINDOW_H
#define TENON_KERNELS_WINDOW_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "tenon/plugin.h"

/* [n, c, d, h, w] of [n, c, size...]. */
typedef struct window_shape {
  int64_t size[5], stride[5];
} window_shape;

static inline int window_axes(const DLTensor *t) { return t->ndim - 2; }

static inline window_shape window_shape_of(const DLTensor *t) {
  window_shape s = {{t->shape[0], t->shape[1], 1, 1, 1}, {t->strides[0], t->strides[1], 0, 0, 0}};
  for (int d = 2; d < t->ndim; d++) {
    s.size[5 - t->ndim + d] = t->shape[d];
    s.stride[5 - t->ndim + d] = t->strides[d];
  }
  return s;
}

/* The numbers behind the struct's size. */
static inline const int64_t *window_numbers(const void *attrs) {
  return (const int64_t *)(const void *)((const char *)attrs + sizeof(int64_t));
}

static inline void window_spread(int64_t to[3], const int64_t *from, int axes, int64_t lacking) {
  for (int d = 0; d < 3; d++) to[d] = d < 3 - axes ? lacking : from[d - (3 - axes)];
}

typedef struct window_conv {
  int64_t stride[3], padding[3], dilation[3], groups;
} window_conv;

static_assert(offsetof(tn_conv1d_attrs, groups) == 8 * 4, "three numbers of one axis each");
static_assert(offsetof(tn_conv2d_attrs, groups) == 8 * 7, "three numbers of two axes each");
static_assert(offsetof(tn_conv3d_attrs, groups) == 8 * 10, "three numbers of three axes each");

static_assert(offsetof(tn_conv2d_add_attrs, activation) == offsetof(tn_conv2d_attrs, activation) &&
                  sizeof(tn_conv2d_add_attrs) == sizeof(tn_conv2d_attrs),
              "attributes of the two are one another's");

static_assert(offsetof(tn_conv1d_attrs, activation) == 8 * 5, "behind the groups");
static_assert(offsetof(tn_conv2d_attrs, activation) == 8 * 8, "behind the groups");
static_assert(offsetof(tn_conv3d_attrs, activation) == 8 * 11, "behind the groups");

/* Behind the groups; none where the host is older than that. */
static inline int64_t window_activation_at(const void *attrs, int axes) {
  const size_t end = sizeof(int64_t) * (3 * (size_t)axes + 3);
  uint32_t size;
  memcpy(&size, attrs, sizeof size);
  return size < end ? TN_ACTIVATION_NONE : window_numbers(attrs)[3 * axes + 1];
}

/* The tn_activation of a call: of convolutions alone, of their kin none. */
static inline int64_t window_activation(const tn_kernel_args *args) {
  const uint32_t op = args->kernel->op;
  if (op != TN_OP_CONV1D && op != TN_OP_CONV2D && op != TN_OP_CONV3D && op != TN_OP_CONV2D_ADD)
    return TN_ACTIVATION_NONE;
  return window_activation_at(args->attrs, window_axes(args->out[0]));
}

static inline window_conv window_conv_of(const void *attrs, int axes) {
  const int64_t *numbers = window_numbers(attrs);
  window_conv c;
  window_spread(c.stride, numbers, axes, 1);
  window_spread(c.padding, numbers + axes, axes, 0);
  window_spread(c.dilation, numbers + 2 * axes, axes, 1);
  c.groups = numbers[3 * axes];
  return c;
}

typedef struct window_pool {
  int64_t kernel[3], stride[3], padding[3];
  int32_t count_padding; /* 0 where the operator does not ask */
} window_pool;

static_assert(offsetof(tn_avg_pool1d_attrs, count_padding) == 8 * 4, "as above");
static_assert(offsetof(tn_avg_pool2d_attrs, count_padding) == 8 * 7, "as above");
static_assert(offsetof(tn_avg_pool3d_attrs, count_padding) == 8 * 10, "as above");

/* A stride of 0 is read as the kernel. */
static inline window_pool window_pool_of(const void *attrs, int axes, bool average) {
  const int64_t *numbers = window_numbers(attrs);
  window_pool p;
  window_spread(p.kernel, numbers, axes, 1);
  window_spread(p.stride, numbers + axes, axes, 1);
  window_spread(p.padding, numbers + 2 * axes, axes, 0);
  for (int d = 0; d < 3; d++)
    if (p.stride[d] == 0) p.stride[d] = p.kernel[d];
  p.count_padding = average ? *(const int32_t *)(const void *)(numbers + 3 * axes) : 0;
  return p;
}

#endif
