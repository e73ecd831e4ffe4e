/*
 * Convolutions and poolings over one, two or three spatial axes seen as three: axes that a
 * tensor lacks stand in front of the others with size 1. The attributes of these operators
 * begin alike: behind the struct's size an int64_t per axis for each of their settings.
 */
#ifndef OPENCL_WINDOW_H
#define OPENCL_WINDOW_H

#include "opencl.h"

static inline int window_axes(const DLTensor *t) { return t->ndim - 2; }

/* The numbers behind the struct's size. */
static inline const int64_t *window_numbers(const void *attrs) {
  return (const int64_t *)(const void *)((const char *)attrs + sizeof(int64_t));
}

static inline void window_spread(cl_long to[3], const int64_t *from, int axes, cl_long lacking) {
  for (int d = 0; d < 3; d++) to[d] = d < 3 - axes ? lacking : from[d - (3 - axes)];
}

/* The spatial sizes of [n, c, size...]. */
static inline void window_size(cl_long to[3], const DLTensor *t) {
  window_spread(to, t->shape + 2, window_axes(t), 1);
}

#endif
