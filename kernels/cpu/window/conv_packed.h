/*
 * Convolutions in tiles whose windows are packed: each tap's elements of some windows are copied
 * from the lines (conv_direct.h) to a row of a panel, the last of one row of y beside the first of
 * the next, also of the next image. Nothing is summed for padding between lines or for what rows
 * lack to whole registers, which small images and strides have much of, and windows side by side
 * in the panel are so in y. Each element is copied once for every tap, and used by all channels.
 */
#ifndef TENON_CPU_CONV_PACKED_H
#define TENON_CPU_CONV_PACKED_H

/* Bytes of the sums of a unit where steps are cut, and with AVX-512 of its panels: each stays in
 * the second cache. Else a strip of windows is packed at a time, which stays in the first. */
#define PACKED_BYTES (256 * 1024)
/* Channels of y at the least, and what copying takes, in sums of a panel of channels. */
#define PACKED_CHANNELS 12
#define PACKED_COST 1.2
/* Channels of x that are worth having in a panel. */
#define PACKED_TOGETHER 8

/* Windows that are summed for n. */
static inline int64_t packed_windows(int64_t n) { return cpu_ceil_div(n, TILE_SIDE) * TILE_SIDE; }

/* Windows that are summed for each that is wanted where they stay in lines `l`. */
static double conv_line_waste(const conv_call *call, const conv_lines *l) {
  if (!l->flat) return (double)packed_windows(call->out[2]) / (double)call->out[2];
  const int64_t blocks = cpu_ceil_div(call->out[1], l->rows);
  return (double)(blocks * packed_windows(l->run)) / (double)(call->out[1] * call->out[2]);
}

/* The same of packed windows in units of `rows` rows of so many images, and a little for units of
 * few. */
static double packed_waste(const conv_call *call, int64_t rows, int64_t images) {
  const int64_t wanted = images * call->out[1] * call->out[2], unit = images * rows * call->out[2];
  const int64_t whole = call->out[1] / rows, rest = images * (call->out[1] % rows) * call->out[2];
  return (double)(whole * packed_windows(unit) + packed_windows(rest)) / (double)wanted +
         1 / (double)unit;
}

/* Lines for units of `rows` rows of so many images. */
static conv_lines packed_lines(const conv_call *call, int64_t rows, int64_t images, int64_t lanes) {
  const int64_t tiles = cpu_ceil_div(images * rows * call->out[2], TILE_WIDTH);
  conv_lines l = conv_lines_of(call, rows, lanes);
  const int64_t channel = l.each / call->c, rest = l.room - l.each;
  l.beside = TILE_PUTS_LANES ? tiles * TILE_WIDTH : TILED_STRIP;
  const int64_t panel = l.beside * call->window * (int64_t)sizeof(float);
  const int64_t weights = TILE_ROWS * call->window * (int64_t)sizeof(float);
  l.images = images;
  l.block =
      cpu_min(TILE_PUTS_LANES ? PACKED_BYTES / panel : cpu_max(1, TILED_NEAR / (panel + weights)),
              TILED_BYTES / (int64_t)sizeof(float) / cpu_max(1, channel * images));
  l.block = cpu_min(call->c, l.block);
  if (l.block > 0) l.block = cpu_ceil_div(call->c, cpu_ceil_div(call->c, l.block));
  l.each = l.block * channel;
  l.room = images * l.each + rest;
  l.tiled = l.packed = true;
  return l;
}

/* Whether windows are packed, and then by what units. `waste` is what tiles of windows that stay in
 * lines sum for each that is wanted, 0 where they cannot. */
static bool conv_is_packed(const conv_call *call, size_t element, double waste, conv_lines *lines) {
  const double panels = (double)cpu_ceil_div(call->k, TILE_ROWS);
  const int64_t lanes = DIRECT_SUMS * DIRECT_VECTOR / (int64_t)element;
  /* Sums or panels of a unit, and panels of PACKED_TOGETHER channels of x, have room for so many.
   */
  const int64_t few = call->window * cpu_min(call->c, PACKED_TOGETHER);
  const int64_t most =
      PACKED_BYTES / (int64_t)element / cpu_max(few, cpu_min(call->k, call->patch) / 2);
  double best = waste > 0 ? waste - PACKED_COST / panels : 16. / TILED_WANTED;
  if (element != sizeof(float) || call->window == 1 || call->k < PACKED_CHANNELS) return false;
  int64_t rows = 0, images = 0;
  for (int64_t r = cpu_min(call->out[1], cpu_max(1, most / call->out[2])); r > 0; r--) {
    /* Images are side by side as a whole. */
    const int64_t fit = cpu_min(cpu_min(call->n, TILE_WIDTH), cpu_max(1, most / call->image));
    const int64_t beside = r == call->out[1] && call->out[0] == 1 ? fit : 1;
    for (int64_t m = 1; m <= beside; m++) {
      const double more = packed_waste(call, r, m);
      if (more < best && m == cpu_ceil_div(call->n, cpu_ceil_div(call->n, m))) /* dealt evenly */
        best = more, rows = r, images = m;
    }
  }
  if (!rows) return false;
  const conv_lines l = packed_lines(call, rows, images, lanes);
  if (l.block < 1) return false;
  *lines = l;
  return true;
}

/* Windows side by side, in the lines and in a tile. */
typedef struct conv_segment {
  int64_t from, to, n;
} conv_segment;

/* The segments of windows first <= i < first + n of a unit, of TILE_WIDTH at the most. */
static int64_t conv_segments(const conv_call *call, int64_t first, int64_t n, conv_segment *to) {
  const conv_lines *l = &call->lines;
  const int64_t row = call->out[2], image = l->rows * row;
  int64_t count = 0;
  for (int64_t at = 0; at < n; count++) {
    const int64_t i = (first + at) % image, j = i % row;
    to[count].from = (first + at) / image * l->each + i / row * call->at.stride[1] * l->line + j;
    to[count].to = at;
    to[count].n = cpu_min(row - j, n - at);
    at += to[count].n;
  }
  return count;
}

#endif
