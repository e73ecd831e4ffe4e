/*
 * Lines of x, as direct convolutions read them: how many rows of y are made of some, and where one
 * stands behind the other.
 */
#ifndef TENON_CPU_CONV_LINES_H
#define TENON_CPU_CONV_LINES_H

/* Bytes of a vector register, and how many of them sum at a time: enough that none waits. */
#if defined(__AVX512F__)
#define DIRECT_VECTOR 64
#elif defined(__AVX__)
#define DIRECT_VECTOR 32
#else
#define DIRECT_VECTOR 16
#endif
#define DIRECT_SUMS 8
/* Bytes of lines that are worth having at a time, and at the most; tiles read them from the second
 * cache. */
#define DIRECT_BYTES (24 * 1024)
#define TILED_BYTES (448 * 1024)
#define DIRECT_BYTES_MOST (1024 * 1024)
/* Windows that tiles are summed for by all channels of y while what they read, of so many bytes at
 * the most with the weights, stays in the first cache. */
#define TILED_STRIP                                                                                \
  cpu_max(TILE_SIDE, FLOATS_BESIDE *(int64_t)sizeof(FLOATS) / (int64_t)sizeof(float))
#define TILED_NEAR (24 * 1024)
/* Panels of a turned weight that are made at a time. */
#define TILED_TURNED 8
/* Of every 16 windows that are summed so many are wanted at the least; channels of y. */
#define TILED_WANTED 12
#define TILED_CHANNELS 4

/* Lines for `rows` rows of y. */
static conv_lines conv_lines_of(const conv_call *call, int64_t rows, int64_t lanes) {
  const window_conv *at = &call->at;
  conv_lines l = {.rows = rows, .images = 1};
  l.flat = at->stride[1] == 1 && at->stride[2] == 1;
  /* Side by side, what is left of a line is right of the one before. */
  const int64_t wide = call->in[2] + (l.flat ? 1 : 2) * at->padding[2];
  l.phase = cpu_ceil_div(wide, at->stride[2]);
  l.line = l.phase * at->stride[2];
  l.lines = (rows - 1) * at->stride[1] + (call->kernel[1] - 1) * at->dilation[1] + 1;
  l.runs = l.flat ? 1 : rows;
  l.run = l.flat ? (rows - 1) * l.line + call->out[2] : call->out[2];
  /* The last line is followed by what is right of it, and by what its last vectors read. */
  l.each = call->c * call->kernel[0] * l.lines * l.line;
  l.room = l.each + (l.flat ? at->padding[2] : 0) + lanes;
  return l;
}

/* Equally many rows of y at a time, of which the lines have so many bytes. */
static conv_lines conv_lines_in(const conv_call *call, int64_t bytes, int64_t lanes,
                                size_t element) {
  int64_t rows = 1;
  while (rows < call->out[1] &&
         conv_lines_of(call, rows + 1, lanes).room * (int64_t)element <= bytes)
    rows++;
  rows = cpu_ceil_div(call->out[1], cpu_ceil_div(call->out[1], rows));
  return conv_lines_of(call, rows, lanes);
}

#endif
