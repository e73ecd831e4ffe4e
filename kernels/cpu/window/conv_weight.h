/*
 * Gradients of weights without patches, in two ways. With many channels to a group, pieces of
 * images are laid out with a strip of channels last, padded, so that what a tap of the kernel reads
 * of a window is a row of channels; their products with dy, which lies in panels by windows, are
 * tiles (tile.h) of the gradient, [kernels, window, channels]. With few channels, each tap and
 * kernel is a scalar product of a row of dy and of a line of x, as direct convolutions read it
 * (conv_direct.h).
 */
#ifndef TENON_CPU_CONV_WEIGHT_H
#define TENON_CPU_CONV_WEIGHT_H

/* Channels of a group at the least: half a row of a tile. */
#define LAST_CHANNELS 8
/* Windows of a piece at the most, so that dy's panel stays in the first cache, and at the least,
 * for what a tile reads and writes; bytes of x that are worth having, and at the most. */
#define LAST_WINDOWS 512
#define LAST_WINDOWS_LEAST 8
#define LAST_BYTES (256 * 1024)
#define LAST_BYTES_MOST (1024 * 1024)

/* A piece: some rows of one slice of y, or all of several images', and the lines of x that these
 * read, in elements but for the counts. */
typedef struct conv_last {
  int64_t strips, width, height; /* of channels; their width, and kernels in whole panels */
  int64_t images, rows, blocks;  /* of y in a piece; pieces of a slice */
  int64_t columns, lines;        /* of x, padded; of one slice that a piece reads */
  int64_t image, windows;        /* of x in a piece, of one image; of all */
  int64_t count;                 /* of a strip's gradient in this order */
} conv_last;

static inline void conv_last_rows(const conv_call *call, int64_t rows, conv_last *l) {
  l->rows = rows;
  l->blocks = cpu_ceil_div(call->out[1], rows);
  l->lines = (rows - 1) * call->at.stride[1] + (call->kernel[1] - 1) * call->at.dilation[1] + 1;
  l->image = call->kernel[0] * l->lines * l->columns * l->width;
  l->windows = rows * call->out[2];
}

static bool conv_is_last(const conv_call *call, conv_last *l) {
  const int64_t most = LAST_BYTES / (int64_t)sizeof(float);
  *l = (conv_last){.images = 1, .strips = cpu_ceil_div(call->c, TILE_WIDTH)};
  if (call->c < LAST_CHANNELS || call->window == 1 || call->n * call->image < LAST_WINDOWS_LEAST)
    return false;
  l->width = tile_width(call->c);
  l->height = cpu_ceil_div(call->k, TILE_ROWS) * TILE_ROWS;
  l->columns = call->in[2] + 2 * call->at.padding[2];
  l->count = l->height * call->window * l->width;
  const double least = (double)call->kernel[0] * (double)l->columns * (double)l->width;
  if (least * (double)sizeof(float) > LAST_BYTES_MOST) return false;
  int64_t rows = 1;
  for (conv_last_rows(call, 2, l);
       rows < call->out[1] && l->windows <= LAST_WINDOWS && l->image <= most;
       conv_last_rows(call, rows + 1, l))
    rows++;
  conv_last_rows(call, cpu_ceil_div(call->out[1], cpu_ceil_div(call->out[1], rows)), l);
  if (call->out[0] == 1 && l->blocks == 1)
    l->images = cpu_max(
        1, cpu_min(call->n, cpu_min(LAST_WINDOWS / cpu_max(1, l->windows), most / l->image)));
  l->windows *= l->images;
  return l->image * (int64_t)sizeof(float) <= LAST_BYTES_MOST;
}

/* Where windows of a piece read, and how far behind these the taps of a kernel. */
static void conv_last_places(const conv_call *call, const conv_last *l, int64_t *windows,
                             int64_t *taps) {
  for (int64_t n = 0; n < l->images; n++)
    for (int64_t r = 0; r < l->rows; r++)
      for (int64_t j = 0; j < call->out[2]; j++)
        *windows++ = n * l->image +
                     (r * call->at.stride[1] * l->columns + j * call->at.stride[2]) * l->width;
  for (int64_t t = 0; t < call->window; t++) {
    const conv_tap tap = conv_tap_at(call, t);
    const int64_t line = tap.o * l->lines + tap.p * call->at.dilation[1];
    *taps++ = (line * l->columns + tap.q * call->at.dilation[2]) * l->width;
  }
}

/* Lanes of a scalar product of rows, the registers that hold them, and how many are summed
 * together: what there are registers for. Kernels to a group at the most: with more the product of
 * patches is faster. */
#define DOT_LANES TILE_SIDE
#define DOT_PARTS (DOT_LANES * (int)sizeof(float) / (int)sizeof(FLOATS))
#define DOT_TOGETHER (DOT_PARTS > 2 ? 3 : 6)
#define DOT_KERNELS 8

/* Adds to the lanes of so many taps those of rows of dy, filled up with zeros to whole lanes, by
 * lines of x, `step` apart. What lies behind the n windows of a row is left out: it may be
 * infinite. */
__attribute__((always_inline)) static inline void conv_dots(const int count, int64_t rows,
                                                            int64_t n, const float *dy,
                                                            const float *x, int64_t step,
                                                            const int64_t *taps, float *lanes) {
  enum { LANES = DOT_LANES / DOT_PARTS, PARTS = DOT_PARTS };
  static const int32_t kept[2 * DOT_LANES] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                              -1, -1, -1, -1, -1, -1, -1, -1};
  const float *mask = (const float *)(const void *)(kept + DOT_LANES - n % DOT_LANES);
  FLOATS sum[DOT_TOGETHER][PARTS];
  FLOATS_UNROLL for (int t = 0; t < count; t++) {
    FLOATS_UNROLL for (int p = 0; p < PARTS; p++) sum[t][p] =
        FLOATS_LOAD(lanes + t * DOT_LANES + p * LANES);
  }
  for (int64_t r = 0; r < rows; r++, x += step) {
    int64_t j = 0;
    for (; j + DOT_LANES <= n; j += DOT_LANES, dy += DOT_LANES)
      FLOATS_UNROLL for (int p = 0; p < PARTS; p++) {
        const FLOATS one = FLOATS_LOAD(dy + p * LANES);
        FLOATS_UNROLL for (int t = 0; t < count; t++) sum[t][p] =
            FLOATS_DOT(sum[t][p], one, FLOATS_LOAD(x + taps[t] + j + p * LANES));
      }
    if (j == n) continue;
    FLOATS_UNROLL for (int p = 0; p < PARTS; p++) {
      const FLOATS one = FLOATS_LOAD(dy + p * LANES), in = FLOATS_LOAD(mask + p * LANES);
      FLOATS_UNROLL for (int t = 0; t < count; t++) {
        const FLOATS value = FLOATS_AND(in, FLOATS_LOAD(x + taps[t] + j + p * LANES));
        sum[t][p] = FLOATS_DOT(sum[t][p], one, value);
      }
    }
    dy += DOT_LANES;
  }
  FLOATS_UNROLL for (int t = 0; t < count; t++) {
    FLOATS_UNROLL for (int p = 0; p < PARTS; p++)
        FLOATS_KEEP(lanes + t * DOT_LANES + p * LANES, sum[t][p]);
  }
}

static void conv_dots_one(int64_t rows, int64_t n, const float *dy, const float *x, int64_t step,
                          const int64_t *taps, float *lanes) {
  conv_dots(1, rows, n, dy, x, step, taps, lanes);
}

static void conv_dots_some(int64_t rows, int64_t n, const float *dy, const float *x, int64_t step,
                           const int64_t *taps, float *lanes) {
  conv_dots(DOT_TOGETHER, rows, n, dy, x, step, taps, lanes);
}

/* Whether channels are few enough for scalar products: the others' tiles, or patches, are faster.
 */
static bool conv_is_dots(const conv_call *call, conv_lines *lines) {
  const int64_t lanes = DIRECT_SUMS * DIRECT_VECTOR / (int64_t)sizeof(float);
  const int64_t wide = cpu_ceil_div(call->out[2], DOT_LANES) * DOT_LANES;
  if (call->c >= LAST_CHANNELS || call->k > DOT_KERNELS || call->window == 1 ||
      2 * call->out[2] < wide)
    return false;
  *lines = conv_lines_in(call, DIRECT_BYTES, lanes, sizeof(float));
  return lines->room * (int64_t)sizeof(float) <= DIRECT_BYTES_MOST;
}

#endif
