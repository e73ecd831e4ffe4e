/*
 * Convolutions whose windows are one place of x, inside it: products of the weights by the images
 * of the whole batch side by side, in tiles (tile.h). The channels of some windows are copied into
 * panels that stay in cache, so that kernels of all channels of y read them there, and each element
 * of y is written once: a BLAS would clear y, and read it again for its sums.
 */
#ifndef TENON_CPU_CONV_POINT_H
#define TENON_CPU_CONV_POINT_H

/* Channels of y and windows of an image at the least: with fewer what is copied is not used often,
 * or copied in too short runs. */
#define POINT_CHANNELS 16
#define POINT_WINDOWS 16
/* Bytes of panels that are worth having, so that rows of y are written in long runs, and at the
 * most. */
#define POINT_BYTES (256 * 1024)
#define POINT_BYTES_MOST (512 * 1024)

/* Channels between the one that is copied and the one that is asked for: runs of a few hundred
 * bytes, far apart, which no processor expects. */
#define POINT_AHEAD 8

/* Whether it is one of these, and then the windows of a unit, in whole tiles. */
static bool conv_is_point(conv_call *call, size_t element) {
  const int64_t tile = call->c * TILE_WIDTH * (int64_t)sizeof(float);
  const int64_t all = cpu_ceil_div(call->n * call->image, TILE_WIDTH);
  bool is = call->window == 1 && element == sizeof(float) && call->c > 0;
  for (int d = 0; d < 3; d++) is &= call->at.padding[d] == 0;
  if (!is || call->stays || call->k < POINT_CHANNELS || call->image < POINT_WINDOWS ||
      tile > POINT_BYTES_MOST)
    return false;
  const int64_t tiles = cpu_max(1, cpu_min(all, POINT_BYTES / tile));
  call->points = cpu_ceil_div(all, cpu_ceil_div(all, tiles)) * TILE_WIDTH;
  return true;
}

/* Windows first <= i < first + n of an image of the batch, side by side in x, `step` apart. */
typedef struct conv_points {
  int64_t image, from, first, n, step;
} conv_points;

/* The run of windows of all images that begins at window `at`, of at most `left`; `from` counts
 * elements of x behind the image's first. */
static inline conv_points conv_points_at(const conv_call *call, int64_t at, int64_t left) {
  conv_points p = {.image = at / call->image, .first = at % call->image, .step = 1};
  if (conv_is_pointwise(call)) {
    p.from = p.first;
    p.n = cpu_min(left, call->image - p.first);
    return p;
  }
  const int64_t row = p.first / call->out[2], j = p.first % call->out[2];
  const int64_t z = row / call->out[1] * call->at.stride[0];
  const int64_t i = row % call->out[1] * call->at.stride[1];
  p.step = call->at.stride[2];
  p.from = (z * call->in[1] + i) * call->in[2] + j * p.step;
  p.n = cpu_min(left, call->out[2] - j);
  return p;
}

#endif
