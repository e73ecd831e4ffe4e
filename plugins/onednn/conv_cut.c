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
/* Channels of a part, which are a multiple of these. */
enum { PART_CHANNELS = 64 };

/* Multiplications, in groups of few channels fewer by GROUP_COST, or numbers read and written, that
 * are worth a band; weights that stay in cache until the next one; places of results that are worth
 * reading the weights for; rows at least. */
static const double BAND_WORK = 1e6, GROUP_COST = 3;
enum {
  BAND_NUMBERS = 32 * 1024,
  BAND_WEIGHTS = 128 * 1024,
  BAND_PLACES = 24,
  BAND_ROWS = 2,
  LANES = 16
};

conv_rows conv_rows_read(const conv_shape *s, int64_t first, int64_t end) {
  const int64_t begin = first * s->stride[0] - s->padding[0];
  const int64_t behind =
      (end - 1) * s->stride[0] - s->padding[0] + (s->window[0] - 1) * s->dilation[0] + 1;
  return (conv_rows){max_of(begin, 0), min_of(behind, s->in[0])};
}

conv_shape conv_band(const conv_shape *s, int64_t band) {
  const int64_t first = conv_band_begin(s, band), end = conv_band_begin(s, band + 1);
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

/* Whether all bands but the first and the last read no padding, and those two read some rows. */
static bool are_alike(const conv_shape *s) {
  const int64_t second = conv_band_begin(s, 1), last = conv_band_begin(s, s->bands - 1);
  const conv_rows before = conv_rows_read(s, 0, second),
                  behind = conv_rows_read(s, last, s->out[0]);
  const int64_t middle =
      (last - 1) * s->stride[0] - s->padding[0] + (s->window[0] - 1) * s->dilation[0] + 1;
  return before.begin < before.end && behind.begin < behind.end &&
         (s->bands == 2 || (second * s->stride[0] >= s->padding[0] && middle <= s->in[0]));
}

static bool takes_parts(const conv_shape *s) { return s->g == 1 && s->k % 128 == 0; }

static bool takes_bands(const conv_shape *s) {
  const int64_t weights = s->k * (s->c / s->g) * count_of(s->window, s->axes);
  return is_last(s) && s->role == CONV_FORWARD && s->images == 1 &&
         (weights <= BAND_WEIGHTS || !takes_parts(s));
}

/* As many bands of one image as are worth while, by powers of two, so that threads have as many
 * each. */
static void cut_bands(conv_shape *s) {
  const double work = work_of(s) / (double)s->n * (s->c / s->g < LANES ? GROUP_COST : 1);
  const int64_t places = count_of(s->out, s->axes);
  const int64_t numbers = s->c * count_of(s->in, s->axes) + s->k * places;
  int64_t most = max_of((int64_t)(work / BAND_WORK), numbers / BAND_NUMBERS);
  most = min_of(most, min_of(s->out[0] / BAND_ROWS, places / BAND_PLACES));
  for (s->bands = PIECES; s->bands > most;) s->bands /= 2;
  if (s->bands < 2 || !are_alike(s)) s->bands = 0;
}

bool conv_cut_fewer(conv_shape *s) {
  do s->bands /= 2;
  while (s->bands > 1 && !are_alike(s));
  return s->bands > 1;
}

/* Weights that outweigh the images of a piece would be read from memory for each: so there are more
 * images in a piece, and as many more parts of the channels, which also reorder weights by turns.
 */
static void cut_weights(conv_shape *s, int64_t written) {
  const int64_t weights = s->k * s->c * count_of(s->window, s->axes);
  const int64_t numbers = s->c * count_of(s->in, s->axes) + s->k * count_of(s->out, s->axes);
  while (s->n % (2 * s->images) == 0 && written % (PART_CHANNELS * 2 * s->parts) == 0 &&
         weights / s->parts > numbers * s->images)
    s->images *= 2, s->parts *= 2;
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
  if (s->bands) return;
  while (s->g == 1 && s->n / s->images * s->parts < PIECES / 2 &&
         written % (PART_CHANNELS * s->parts) == 0 &&
         image * (double)s->images / (double)s->parts > 2 * LEAST_WORK)
    s->parts *= 2;
  if (s->g == 1 && !sums && !is_last(s)) cut_weights(s, written);
}
