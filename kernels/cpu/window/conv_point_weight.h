/*
 * Gradients of weights whose windows are one place of x, inside it: products of dy by x over the
 * windows of the whole batch, which need no patches. Windows of large images lie in dy, and with
 * strides of 1 in x, as the BLAS reads them; those of small ones are joined, copied side by side,
 * so that sums are long: a product to each small image would read and write the gradient as often.
 */
#ifndef TENON_CPU_CONV_POINT_WEIGHT_H
#define TENON_CPU_CONV_POINT_WEIGHT_H

/* Channels of either at the least. */
#define JOINED_CHANNELS 4
/* Windows at a time at the most, copied and as they lie; of an image at the least, for these to be
 * its own. */
#define JOINED_WINDOWS 512
#define JOINED_WINDOWS_MOST 1024
#define JOINED_IMAGE 256
/* Bytes of the channels of x at a time; channels of dy. */
#define JOINED_BYTES (512 * 1024)
#define JOINED_KERNELS 1024

/* Windows and channels of x at a time. */
typedef struct conv_joined {
  bool near;              /* windows at a time are of one image */
  int64_t windows, times; /* at a time; such times in all */
  int64_t width, strips;  /* channels of a strip; strips of a group */
} conv_joined;

/* Elements of x and dy have so many bytes: those of 16 bits are copied. */
static bool conv_is_joined(const conv_call *call, size_t element, conv_joined *d) {
  bool is = call->window == 1 && call->c >= JOINED_CHANNELS && call->k >= JOINED_CHANNELS;
  for (int a = 0; a < 3; a++) is = is && call->at.padding[a] == 0;
  if (!is) return false;
  d->near = call->image >= JOINED_IMAGE;
  const bool lies = d->near && conv_is_pointwise(call) && element == sizeof(float);
  const int64_t images = d->near ? call->n : 1, run = d->near ? call->image : call->n * call->image;
  d->windows = cpu_ceil_div(run, cpu_ceil_div(run, lies ? JOINED_WINDOWS_MOST : JOINED_WINDOWS));
  d->times = images * cpu_ceil_div(run, d->windows);
  const int64_t most = JOINED_BYTES / (d->windows * (int64_t)sizeof(float));
  d->width = cpu_ceil_div(call->c, cpu_ceil_div(call->c, most));
  d->strips = cpu_ceil_div(call->c, d->width);
  return true;
}

/* The windows of one time: of the whole batch those from `first` on. */
static inline int64_t conv_joined_windows(const conv_call *call, const conv_joined *d, int64_t time,
                                          int64_t *first) {
  if (d->near) {
    const int64_t each = cpu_ceil_div(call->image, d->windows), at = time % each * d->windows;
    *first = time / each * call->image + at;
    return cpu_min(d->windows, call->image - at);
  }
  *first = time * d->windows;
  return cpu_min(d->windows, call->n * call->image - *first);
}

#endif
