/*
 * How a convolution is cut for threads and caches: by images and, where there are few of them, by
 * channels of what is written or, of images with channels last, by bands of rows, which lie dense
 * in memory. It depends on shapes alone, so that the bits do not depend on the threads.
 */
#include "conv.h"

/* Multiplications that make a piece worth its handling; pieces wanted; and windows that make
 * adding up a piece's weights worth while. */
static const double LEAST_WORK = 2e6;
enum { PIECES = 16, SUM_PIECES = 4, SUM_WINDOWS = 512 };

/* Numbers of a band that stay in cache until the activation, and weights that do until the next
 * band; rows that a band has at least. */
enum { BAND_NUMBERS = 64 * 1024, BAND_WEIGHTS = 128 * 1024, BAND_ROWS = 2 };

conv_rows conv_rows_read(const conv_shape *s, int64_t first, int64_t end) {
  const int64_t begin = first * s->stride[0] - s->padding[0];
  const int64_t behind =
      (end - 1) * s->stride[0] - s->padding[0] + (s->window[0] - 1) * s->dilation[0] + 1;
  return (conv_rows){max_of(begin, 0), min_of(behind, s->in[0])};
}

conv_shape conv_band(const conv_shape *s, int64_t band) {
  const int64_t first = band * s->rows, end = min_of(first + s->rows, s->out[0]);
  const conv_rows read = conv_rows_read(s, first, end);
  conv_shape b = *s;
  b.n = b.images = 1;
  b.whole[0] = s->in[0], b.whole[1] = s->out[0];
  b.before = s->padding[0];
  b.in[0] = read.end - read.begin;
  b.out[0] = end - first;
  b.padding[0] = read.begin - (first * s->stride[0] - s->padding[0]);
  return b;
}

/* Whether all bands but the first and the last read as many rows, none of them padding, and those
 * two read some. */
static bool are_alike(const conv_shape *s) {
  const int64_t bands = conv_bands(s), last = (bands - 1) * s->rows;
  const conv_rows before = conv_rows_read(s, 0, s->rows),
                  behind = conv_rows_read(s, last, last + 1);
  const int64_t middle =
      last * s->stride[0] - s->stride[0] - s->padding[0] + (s->window[0] - 1) * s->dilation[0] + 1;
  return before.begin < before.end && behind.begin < behind.end &&
         s->rows * s->stride[0] >= s->padding[0] && (bands == 2 || middle <= s->in[0]);
}

static bool takes_bands(const conv_shape *s) {
  const int64_t weights = s->k * (s->c / s->g) * count_of(s->window, s->axes);
  return is_last(s) && s->role == CONV_FORWARD && s->images == 1 && weights <= BAND_WEIGHTS &&
         s->out[0] >= 2 * BAND_ROWS;
}

/* Bands of one image that are worth while, with work or memory enough for each. */
static void cut_bands(conv_shape *s) {
  const double work = work_of(s) / (double)s->n;
  const int64_t numbers = s->c * count_of(s->in, s->axes) + s->k * count_of(s->out, s->axes);
  const int64_t most = max_of((int64_t)(work / LEAST_WORK), numbers / BAND_NUMBERS);
  const int64_t bands = min_of(min_of(most, PIECES), s->out[0] / BAND_ROWS);
  if (bands < 2) return;
  s->rows = (s->out[0] + bands - 1) / bands;
  if (!are_alike(s)) s->rows = 0;
}

void conv_cut(conv_shape *s) {
  const double image = work_of(s) / (double)s->n;
  const bool sums = s->role == CONV_BACKWARD_WEIGHTS;
  const int64_t least =
      max_of(1 + (int64_t)(LEAST_WORK / image), sums ? SUM_WINDOWS / count_of(s->out, s->axes) : 1);
  const int64_t pieces = sums ? SUM_PIECES : PIECES;
  const int64_t written = s->role == CONV_BACKWARD_DATA ? s->c : s->k;
  s->images = divisor(s->n, max_of(least, s->n / pieces));
  s->parts = 1;
  if (takes_bands(s)) cut_bands(s);
  if (s->rows) return;
  while (s->g == 1 && s->n / s->images * s->parts < PIECES / 2 && written % (64 * s->parts) == 0 &&
         image * (double)s->images / (double)s->parts > 2 * LEAST_WORK)
    s->parts *= 2;
}
