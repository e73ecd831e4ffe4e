/*
 * conv_integer and qlinear_conv: images are laid out channels last, and weights in the same order,
 * so that what a window reads is a few dense runs; these of a panel of windows are put behind one
 * another and multiplied with all kernels of their group (integer.h):
 *
 *   pixels  [images, groups, d, h, w, channels of a group]
 *   weights panels of [kernels of a group, (kd, kh, kw, channels)], group after group
 */
#include "kernels/cpu/window/conv_integer.h"

/* Fewer terms of a kernel are summed without products. */
enum { LEAST_TERMS = 16 };

typedef struct byte_conv {
  const conv_integer *c;
  uint8_t *pixels;
  char *weights;
  integer_vectors w, x; /* kernels and windows, without their data */
  integer_words words;
  int64_t terms, group; /* of a window; bytes of a group's weights */
  int64_t blocks;       /* panels of windows of one group of one image */
} byte_conv;

/* --- orders --- */

/* The range counts shares of SHARE pixels of the planes of all groups of all images. */
enum { SHARE = 1024 };
static tn_status pixels_range(void *ctx, int64_t begin, int64_t end) {
  const byte_conv *v = ctx;
  const conv_integer *c = v->c;
  const int64_t shares = cpu_ceil_div(c->plane, SHARE);
  for (int64_t i = begin; i < end; i++) {
    const int64_t part = i / shares, first = i % shares * SHARE; /* a group of an image */
    const int64_t n = cpu_min(SHARE, c->plane - first), step = c->channels;
    for (int64_t channel = 0; channel < c->channels; channel++) {
      const uint8_t *x =
          (const uint8_t *)c->x->data + (part * c->channels + channel) * c->plane + first;
      uint8_t *to = v->pixels + (part * c->plane + first) * step + channel;
      for (int64_t p = 0; p < n; p++) to[p * step] = x[p];
    }
  }
  return TN_OK;
}

/* `rows` kernels from `kernel` on, their terms in the order of pixels. */
static void turn_weights(const byte_conv *v, int64_t kernel, int64_t rows, uint8_t *to) {
  const conv_integer *c = v->c;
  const uint8_t *w = (const uint8_t *)c->w->data + kernel * v->terms;
  for (int64_t i = 0; i < rows; i++, w += v->terms, to += v->terms)
    for (int64_t channel = 0; channel < c->channels; channel++)
      for (int64_t e = 0; e < c->window; e++)
        to[e * c->channels + channel] = w[channel * c->window + e];
}

/* The range counts the panels of the kernels of all groups. */
static tn_status weights_range(void *ctx, int64_t begin, int64_t end) {
  const byte_conv *v = ctx;
  const conv_integer *c = v->c;
  const int64_t panels = cpu_ceil_div(c->kernels, TILE_ROWS);
  uint8_t *turned = c->host->alloc(c->host, (size_t)(TILE_ROWS * v->terms), 64);
  if (!turned)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for kernels of %lld elements",
                         (long long)v->terms);
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t group = unit / panels, panel = unit % panels, first = panel * TILE_ROWS;
    const int64_t kernel = group * c->kernels + first,
                  rows = cpu_min(TILE_ROWS, c->kernels - first);
    turn_weights(v, kernel, rows, turned);
    integer_vectors x = v->w;
    x.data = turned;
    x.zero_first = kernel;
    const integer_panel to =
        integer_rows_at(&v->words, c->kernels, panel, v->weights + group * v->group);
    ISA(integer_pack)(&v->words, &x, 0, rows, &to);
  }
  c->host->free(c->host, turned);
  return TN_OK;
}

/* --- windows as rows --- */

/* NULL: what padding is, which is the zero point. */
static uint8_t *put(const conv_integer *c, const uint8_t *from, int64_t n, uint8_t *to) {
  if (from)
    memcpy(to, from, (size_t)n);
  else
    memset(to, (uint8_t)c->x_zero, (size_t)n);
  return to + n;
}

/* One row of a kernel, whose first element stands at column `first` of a row of pixels. */
static uint8_t *put_row(const conv_integer *c, const uint8_t *row, int64_t first, uint8_t *to) {
  const int64_t n = c->channels, dilation = c->at.dilation[2];
  if (row && dilation == 1 && first >= 0 && first + c->kernel[2] <= c->size[2])
    return put(c, row + first * n, c->kernel[2] * n, to);
  for (int64_t q = 0; q < c->kernel[2]; q++) {
    const int64_t at = first + q * dilation;
    to = put(c, row && at >= 0 && at < c->size[2] ? row + at * n : NULL, n, to);
  }
  return to;
}

/* What window `at` of y reads of a group's part of an image. */
static void put_window(const conv_integer *c, const uint8_t *part, int64_t at, uint8_t *to) {
  const int64_t j = at % c->out[2], i = at / c->out[2] % c->out[1];
  const int64_t d = at / (c->out[2] * c->out[1]);
  for (int64_t o = 0; o < c->kernel[0]; o++)
    for (int64_t p = 0; p < c->kernel[1]; p++) {
      const int64_t depth = d * c->at.stride[0] + o * c->at.dilation[0] - c->at.before[0];
      const int64_t line = i * c->at.stride[1] + p * c->at.dilation[1] - c->at.before[1];
      const bool inside = depth >= 0 && depth < c->size[0] && line >= 0 && line < c->size[1];
      const uint8_t *row =
          inside ? part + (depth * c->size[1] + line) * c->size[2] * c->channels : NULL;
      to = put_row(c, row, j * c->at.stride[2] - c->at.before[2], to);
    }
}

/* Unit: a panel of windows of a group of an image, by all kernels of the group. */
static void multiply_unit(const byte_conv *v, int64_t unit, uint8_t *rows, void *memory) {
  const conv_integer *c = v->c;
  const int64_t part = unit / v->blocks, first = unit % v->blocks * TILE_WIDTH;
  const int64_t n = cpu_min(TILE_WIDTH, c->windows - first), group = part % c->at.groups;
  const uint8_t *pixels = v->pixels + part * c->plane * c->channels;
  for (int64_t i = 0; i < n; i++) put_window(c, pixels, first + i, rows + i * v->terms);
  integer_vectors x = v->x;
  x.data = rows;
  const integer_panel b = integer_panel_at(&v->words, tile_width(n), memory);
  ISA(integer_pack)(&v->words, &x, 0, n, &b);
  const int64_t at = part * c->kernels * c->windows + first;
  const integer_block y = {(char *)c->y->data + at * c->sink.size, c->windows, 1,
                           group * c->kernels, 0};
  ISA(integer_products)
  (&v->words, &c->sink, v->weights + group * v->group, c->kernels, 0, c->kernels, &b, n, &y);
}

static tn_status product_range(void *ctx, int64_t begin, int64_t end) {
  const byte_conv *v = ctx;
  const conv_integer *c = v->c;
  const int64_t panel = integer_panel_bytes(&v->words, TILE_WIDTH);
  char *memory = c->host->alloc(c->host, (size_t)(panel + TILE_WIDTH * v->terms), 64);
  if (!memory)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for windows of %lld elements",
                         (long long)v->terms);
  for (int64_t unit = begin; unit < end; unit++)
    multiply_unit(v, unit, (uint8_t *)memory + panel, memory);
  c->host->free(c->host, memory);
  return TN_OK;
}

/* --- calls --- */

static tn_status allocate(const conv_integer *c, int64_t bytes, void **to) {
  *to = c->host->alloc(c->host, (size_t)bytes, 64);
  if (*to) return TN_OK;
  return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld bytes of 8-bit images",
                       (long long)bytes);
}

static tn_status run_products(byte_conv *v) {
  const conv_integer *c = v->c;
  const int64_t parts = c->images * c->at.groups;
  const int64_t panels = c->at.groups * cpu_ceil_div(c->kernels, TILE_ROWS);
  const int64_t shares = cpu_ceil_div(c->plane, SHARE);
  tn_status status = c->host->parallel_for(
      c->host, parts * shares, 1 + CPU_GRAIN_CHEAP / (SHARE * c->channels + 1), pixels_range, v);
  if (!status)
    status = c->host->parallel_for(c->host, panels, 1 + CPU_GRAIN_CHEAP / (TILE_ROWS * v->terms),
                                   weights_range, v);
  if (status) return status;
  const double work = (double)(c->kernels + 16) * TILE_WIDTH * (double)v->terms;
  return c->host->parallel_for(c->host, parts * v->blocks, 1 + (int64_t)(1e6 / work), product_range,
                               v);
}

static tn_status convolve(const conv_integer *c) {
  const int64_t terms = c->channels * c->window;
  void *pixels, *weights = NULL;
  if (c->images * c->kernels * c->at.groups * c->windows == 0) return TN_OK;
  if (c->kernels == 1 || terms < LEAST_TERMS) return ISA(conv_integer_thin)(c);
  byte_conv v = {.c = c, .terms = terms};
  v.w = (integer_vectors){NULL, terms, 1, c->w->dtype.code == kDLInt, false, c->w_zero, 0};
  v.x = (integer_vectors){NULL, terms, 1, c->x->dtype.code == kDLInt, true, c->x_zeros, 0};
  v.words = ISA(integer_words_of)(terms, &v.w, &v.x);
  v.blocks = cpu_ceil_div(c->windows, TILE_WIDTH);
  v.group = integer_rows_bytes(&v.words, c->kernels);
  tn_status status = allocate(c, c->images * c->at.groups * c->channels * c->plane, &pixels);
  if (!status) status = allocate(c, c->at.groups * v.group, &weights);
  v.pixels = pixels;
  v.weights = weights;
  if (!status) status = run_products(&v);
  c->host->free(c->host, pixels);
  c->host->free(c->host, weights);
  return status;
}

static conv_integer conv_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                            const DLTensor *x_zero, const DLTensor *w_zero) {
  conv_integer c = {.host = args->host, .x = x, .w = w, .w_zero = w_zero, .y = args->out[0]};
  const window_shape xs = window_shape_of(x), ws = window_shape_of(w), ys = window_shape_of(c.y);
  c.x_zeros = x_zero;
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
