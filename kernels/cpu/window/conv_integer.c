/*
 * conv_integer and qlinear_conv: images are unpacked to int16 less their zero point, channels last,
 * and weights in the same order, so that what a window reads is a few dense runs; blocks of windows
 * are laid out as rows and multiplied with all kernels of their group (integer.h):
 *
 *   wide    [images, groups, d, h, w, channels of a group]
 *   weights [groups, kernels, (kd, kh, kw, channels), filled up to the pitch]
 */
#include "kernels/cpu/window/conv_integer.h"

/* Windows of a block are few enough that their rows stay in a core's cache. */
enum { BLOCK_BYTES = 256 * 1024, MOST_WINDOWS = 256 };

typedef struct wide_conv {
  const conv_integer *c;
  int16_t *wide, *weights;
  int64_t terms, pitch, block, blocks; /* of windows; of one group of one image */
} wide_conv;

static inline int32_t byte_at(const DLTensor *t, int64_t i) {
  return t->dtype.code == kDLInt ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

/* --- unpacking --- */

/* n bytes of one channel to elements `step` apart. */
static void widen_channel(bool is_signed, const uint8_t *x, int64_t n, int32_t zero, int64_t step,
                          int16_t *to) {
  if (is_signed)
    for (int64_t i = 0; i < n; i++) to[i * step] = (int16_t)((int8_t)x[i] - zero);
  else
    for (int64_t i = 0; i < n; i++) to[i * step] = (int16_t)(x[i] - zero);
}

/* The range counts shares of SHARE pixels of the planes of all groups of all images. */
enum { SHARE = 1024 };
static tn_status widen_range(void *ctx, int64_t begin, int64_t end) {
  const wide_conv *v = ctx;
  const conv_integer *c = v->c;
  const int64_t shares = cpu_ceil_div(c->plane, SHARE);
  for (int64_t i = begin; i < end; i++) {
    const int64_t part = i / shares, first = i % shares * SHARE; /* a group of an image */
    const int64_t n = cpu_min(SHARE, c->plane - first);
    for (int64_t channel = 0; channel < c->channels; channel++)
      widen_channel(c->x->dtype.code == kDLInt,
                    (const uint8_t *)c->x->data + (part * c->channels + channel) * c->plane + first,
                    n, c->x_zero, c->channels,
                    v->wide + (part * c->plane + first) * c->channels + channel);
  }
  return TN_OK;
}

/* The range counts the kernels of all groups. */
static tn_status weights_range(void *ctx, int64_t begin, int64_t end) {
  const wide_conv *v = ctx;
  const conv_integer *c = v->c;
  for (int64_t k = begin; k < end; k++) {
    const int32_t zero = integer_zero(c->w_zero, k);
    int16_t *to = v->weights + k * v->pitch;
    for (int64_t channel = 0; channel < c->channels; channel++)
      for (int64_t e = 0; e < c->window; e++)
        to[e * c->channels + channel] =
            (int16_t)(byte_at(c->w, k * v->terms + channel * c->window + e) - zero);
    memset(to + v->terms, 0, (size_t)(v->pitch - v->terms) * sizeof *to);
  }
  return TN_OK;
}

/* --- windows as rows --- */

static int16_t *put(const int16_t *from, int64_t n, int16_t *to) {
  if (from)
    memcpy(to, from, (size_t)n * sizeof *to);
  else
    memset(to, 0, (size_t)n * sizeof *to);
  return to + n;
}

/* One row of a kernel, whose first element stands at column `first` of a row of pixels. */
static int16_t *put_row(const conv_integer *c, const int16_t *row, int64_t first, int16_t *to) {
  const int64_t n = c->channels, dilation = c->at.dilation[2];
  if (row && dilation == 1 && first >= 0 && first + c->kernel[2] <= c->size[2])
    return put(row + first * n, c->kernel[2] * n, to);
  for (int64_t q = 0; q < c->kernel[2]; q++) {
    const int64_t at = first + q * dilation;
    to = put(row && at >= 0 && at < c->size[2] ? row + at * n : NULL, n, to);
  }
  return to;
}

/* What window `at` of y reads of a group's part of an image. */
static void put_window(const wide_conv *v, const int16_t *part, int64_t at, int16_t *to) {
  const conv_integer *c = v->c;
  const int64_t j = at % c->out[2], i = at / c->out[2] % c->out[1];
  const int64_t d = at / (c->out[2] * c->out[1]);
  int16_t *end = to + v->pitch;
  for (int64_t o = 0; o < c->kernel[0]; o++)
    for (int64_t p = 0; p < c->kernel[1]; p++) {
      const int64_t depth = d * c->at.stride[0] + o * c->at.dilation[0] - c->at.before[0];
      const int64_t line = i * c->at.stride[1] + p * c->at.dilation[1] - c->at.before[1];
      const bool inside = depth >= 0 && depth < c->size[0] && line >= 0 && line < c->size[1];
      const int16_t *row =
          inside ? part + (depth * c->size[1] + line) * c->size[2] * c->channels : NULL;
      to = put_row(c, row, j * c->at.stride[2] - c->at.before[2], to);
    }
  put(NULL, end - to, to);
}

/* The range counts the blocks of windows of all groups of all images. */
static tn_status product_range(void *ctx, int64_t begin, int64_t end) {
  const wide_conv *v = ctx;
  const conv_integer *c = v->c;
  int16_t *rows = c->host->alloc(c->host, (size_t)(v->block * v->pitch) * sizeof *rows, 64);
  if (!rows)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for windows of %lld elements",
                         (long long)v->pitch);
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t part = unit / v->blocks, first = unit % v->blocks * v->block;
    const int64_t n = cpu_min(v->block, c->windows - first), group = part % c->at.groups;
    const int16_t *x = v->wide + part * c->plane * c->channels;
    for (int64_t i = 0; i < n; i++) put_window(v, x, first + i, rows + i * v->pitch);
    const int64_t at = part * c->kernels * c->windows + first;
    const integer_block y = {(char *)c->y->data + at * c->sink.size, c->windows, 1,
                             group * c->kernels, 0};
    integer_products(&c->sink, v->pitch, v->weights + group * c->kernels * v->pitch, c->kernels,
                     rows, n, &y);
  }
  c->host->free(c->host, rows);
  return TN_OK;
}

/* --- calls --- */

static tn_status allocate(const conv_integer *c, int64_t elements, int16_t **to) {
  *to = c->host->alloc(c->host, (size_t)elements * sizeof **to, 64);
  if (*to) return TN_OK;
  return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to unpack %lld 8-bit elements",
                       (long long)elements);
}

static tn_status run_products(wide_conv *v) {
  const conv_integer *c = v->c;
  const int64_t parts = c->images * c->at.groups, kernels = c->kernels * c->at.groups;
  const int64_t shares = cpu_ceil_div(c->plane, SHARE);
  tn_status status = c->host->parallel_for(
      c->host, parts * shares, 1 + CPU_GRAIN_CHEAP / (SHARE * c->channels + 1), widen_range, v);
  if (!status)
    status =
        c->host->parallel_for(c->host, kernels, 1 + CPU_GRAIN_CHEAP / v->pitch, weights_range, v);
  if (status) return status;
  const double work = (double)c->kernels * (double)v->block * (double)v->pitch;
  return c->host->parallel_for(c->host, parts * v->blocks, 1 + (int64_t)(1e6 / work), product_range,
                               v);
}

static tn_status convolve(const conv_integer *c) {
  const int64_t terms = c->channels * c->window;
  if (c->images * c->kernels * c->at.groups * c->windows == 0) return TN_OK;
  if (c->kernels == 1 || terms < INTEGER_LANES / 2) return ISA(conv_integer_thin)(c);
  wide_conv v = {.c = c, .terms = terms, .pitch = integer_pitch(terms)};
  v.block = cpu_max(INTEGER_TILE, BLOCK_BYTES / 2 / v.pitch / INTEGER_TILE * INTEGER_TILE);
  v.block = cpu_min(cpu_min(v.block, MOST_WINDOWS), c->windows);
  v.blocks = cpu_ceil_div(c->windows, v.block);
  tn_status status = allocate(c, c->images * c->at.groups * c->channels * c->plane, &v.wide);
  if (!status) status = allocate(c, c->kernels * c->at.groups * v.pitch, &v.weights);
  if (!status) status = run_products(&v);
  c->host->free(c->host, v.wide);
  c->host->free(c->host, v.weights);
  return status;
}

static conv_integer conv_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                            const DLTensor *x_zero, const DLTensor *w_zero) {
  conv_integer c = {.host = args->host, .x = x, .w = w, .w_zero = w_zero, .y = args->out[0]};
  const window_shape xs = window_shape_of(x), ws = window_shape_of(w), ys = window_shape_of(c.y);
  c.x_zero = integer_zero(x_zero, 0);
  c.at = quant_conv_of(args->attrs, window_axes(x));
  c.images = xs.size[0];
  c.channels = ws.size[1];
  c.kernels = ws.size[0] / c.at.groups;
  c.plane = c.window = c.windows = 1;
  for (int d = 0; d < 3; d++) {
    c.plane *= c.size[d] = xs.size[2 + d];
    c.window *= c.kernel[d] = ws.size[2 + d];
    c.windows *= c.out[d] = ys.size[2 + d];
  }
  return c;
}

tn_status ISA(conv_integer_any)(const tn_kernel_args *args) {
  conv_integer c = conv_of(args, args->in[0], args->in[1], args->in[2], args->in[3]);
  c.sink = integer_sums();
  return convolve(&c);
}

tn_status ISA(qlinear_conv_any)(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  conv_integer c = conv_of(args, in[QUANT_A], in[QUANT_B], in[QUANT_A_ZERO], in[QUANT_B_ZERO]);
  c.sink = integer_requantised(args);
  /* y = round(sum ((x_scale w_scale) / y_scale)): a product of floats, in either order. */
  c.sink.row = integer_scale_of(in[QUANT_B_SCALE]);
  c.sink.column = integer_scale_of(in[QUANT_A_SCALE]);
  c.sink.bias = in[QUANT_BIAS] ? in[QUANT_BIAS]->data : NULL;
  return convolve(&c);
}
