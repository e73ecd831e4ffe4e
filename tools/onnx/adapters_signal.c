/* ONNX's windows and Fourier transforms, whose tables are computed here. */
#include "adapters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TAU = 6.283185307179586476925286766559;

/* A table of doubles as a tensor of a type. */
static tn_tensor *table(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape,
                        const double *numbers) {
  return node_cast(c, node_from_host(c, TN_F64, rank, shape, numbers), dtype);
}

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N); the text names the window. */
static tn_status window_of(onnx_node *c, const char *op) {
  int64_t size = node_value(c, 0, 0);
  bool periodic = node_int(c, "periodic", 1);
  tn_dtype dtype = onnx_dtype((int32_t)node_int(c, "output_datatype", 1));
  double a[3] = {0.5, 0.5, 0};
  if (!strcmp(op, "hamming")) a[0] = 25.0 / 46, a[1] = 21.0 / 46;
  if (!strcmp(op, "blackman")) a[0] = 0.42, a[2] = 0.08;
  if (*c->cannot) return TN_OK;
  if (!dtype || size < 0 || size > 1 << 24)
    return node_cannot(c, "a window of %lld", (long long)size);
  double *numbers = malloc(((size_t)size + 1) * sizeof *numbers);
  double whole = (double)(periodic ? size : size - 1);
  if (!numbers) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t n = 0; n < size; n++)
    numbers[n] =
        a[0] - a[1] * cos(TAU * (double)n / whole) + a[2] * cos(2 * TAU * (double)n / whole);
  tn_tensor *y = table(c, dtype, 1, &size, numbers);
  free(numbers);
  return node_give(c, 0, y);
}

/*
 * A transform is a product with its table; a long one is two products with the tables of its
 * factors, whose sizes are bounded.
 */
enum { LONGEST = 8192, LARGEST_TABLE = 1 << 23 };

typedef struct transform {
  onnx_node *c;
  tn_dtype dtype;
  int64_t n, length, bins; /* numbers of a row, which are cut or filled up to `length` */
  int64_t parts;           /* of a number: 1 if it is real, else 2 */
  bool inverse;
} transform;

/* What the parts of a number, in rows of the table, add to a pair at `at`. */
static void put_pair(const transform *t, double *at, int64_t row, int64_t parts, int64_t turn,
                     int64_t length, double scale) {
  double angle = TAU * (double)(turn % length) / (double)length * (t->inverse ? 1 : -1);
  double re = cos(angle) * scale, im = sin(angle) * scale;
  at[0] = re, at[1] = im;
  if (parts == 2) at[row] = -im, at[row + 1] = re;
}

static double *table_room(onnx_node *c, int64_t elements) {
  double *numbers = calloc((size_t)elements + 1, sizeof *numbers);
  if (!numbers) node_check(c, TN_ERR_OUT_OF_MEMORY);
  return numbers;
}

/* [n parts, bins 2] of a transform of `length` numbers: what a row of n (real, then imaginary
 * ones) is multiplied by to become `bins` pairs. */
static tn_tensor *fourier(const transform *t, int64_t n, int64_t length, int64_t bins) {
  const int64_t shape[] = {t->parts * n, bins * 2};
  double *numbers = table_room(t->c, shape[0] * shape[1]);
  if (!numbers) return NULL;
  for (int64_t i = 0; i < n && i < length; i++)
    for (int64_t k = 0; k < bins; k++)
      put_pair(t, numbers + i * t->parts * shape[1] + 2 * k, shape[1], t->parts, i * k, length,
               t->inverse ? 1.0 / (double)length : 1);
  tn_tensor *y = table(t->c, t->dtype, 2, shape, numbers);
  free(numbers);
  return y;
}

/* [a, b 2, b 2]: for each bin of a shorter transform of a = length / b numbers, what `b` of these
 * become, turned to where they stand. */
static tn_tensor *fourier_rest(const transform *t, int64_t a, int64_t b) {
  const int64_t shape[] = {a, 2 * b, 2 * b};
  double *numbers = table_room(t->c, 4 * t->length * b);
  if (!numbers) return NULL;
  for (int64_t k = 0; k < a; k++)
    for (int64_t i = 0; i < b; i++)
      for (int64_t j = 0; j < b; j++)
        put_pair(t, numbers + (k * b + i) * 4 * b + 2 * j, 2 * b, 2, i * (k + a * j), t->length,
                 t->inverse ? 1.0 / (double)b : 1);
  tn_tensor *y = table(t->c, t->dtype, 3, shape, numbers);
  free(numbers);
  return y;
}

static tn_tensor *product(onnx_node *c, tn_tensor *a, tn_tensor *b) {
  if (!a || !b) return NULL;
  op_call k = call_begin(c, "matmul");
  call_in(&k, a);
  call_in(&k, b);
  call_in(&k, NULL);
  return node_made(&k);
}

/* Rows of `from` numbers cut, or filled up with zeros, to `to`. */
static tn_tensor *fit_rows(onnx_node *c, tn_tensor *x, int64_t from, int64_t to) {
  if (from >= to) return node_slice(c, x, 1, 0, to);
  op_call k = call_begin(c, "pad");
  call_in(&k, x);
  for (int axis = 0; axis < 2; axis++) {
    call_set(&k, "before", axis, 0);
    call_set(&k, "after", axis, axis ? (double)(to - from) : 0);
  }
  return node_made(&k);
}

/* X[k + a l] is the sum over j < b of W^(j (k + a l)) times number k of the transform of x[j],
 * x[b + j], ..., W being the root of the whole length (Cooley and Tukey 1965). */
static tn_tensor *transform_in_two(const transform *t, tn_tensor *x, int64_t rows, int64_t b) {
  onnx_node *c = t->c;
  const int64_t a = t->length / b, parts = t->parts;
  x = fit_rows(c, x, t->n * parts, t->length * parts);
  x = node_reshape(c, x, 4, (int64_t[]){rows, a, b, parts});
  x = node_permute(c, x, (int32_t[]){0, 2, 1, 3});
  x = node_reshape(c, x, 2, (int64_t[]){rows * b, a * parts});
  x = product(c, x, fourier(t, a, a, a));
  x = node_reshape(c, x, 4, (int64_t[]){rows, b, a, 2});
  x = node_permute(c, x, (int32_t[]){2, 0, 1, 3});
  x = node_reshape(c, x, 3, (int64_t[]){a, rows, b * 2});
  x = product(c, x, fourier_rest(t, a, b));
  x = node_reshape(c, x, 4, (int64_t[]){a, rows, b, 2});
  x = node_permute(c, x, (int32_t[]){1, 2, 0, 3});
  return node_slice(c, node_reshape(c, x, 2, (int64_t[]){rows, t->length * 2}), 1, 0, t->bins * 2);
}

/* The largest factor of the length that is no larger than the other. */
static int64_t small_factor(int64_t length) {
  int64_t b = 1;
  for (int64_t i = 2; i * i <= length; i++)
    if (length % i == 0) b = i;
  return b;
}

/* x [rows, n parts] becomes [rows, bins 2]. */
static tn_tensor *transform_rows(const transform *t, tn_tensor *x, int64_t rows) {
  if (t->length < 1 || t->length > LONGEST || t->n > LONGEST)
    return node_cannot(t->c, "a transform of %lld numbers; up to %d are served",
                       (long long)(t->length > LONGEST ? t->length : t->n), LONGEST),
           NULL;
  if (t->n * t->parts * t->bins * 2 <= LARGEST_TABLE)
    return product(t->c, x, fourier(t, t->n, t->length, t->bins));
  const int64_t b = small_factor(t->length), a = t->length / b;
  if (2 * a * a * t->parts > LARGEST_TABLE)
    return node_cannot(t->c,
                       "a transform of %lld numbers, which have a prime factor too large for a "
                       "table; powers of 2 are served",
                       (long long)t->length),
           NULL;
  return transform_in_two(t, x, rows, b);
}

/* x: [..., n, ..., parts], the last axis being 1 (real) or 2 (complex). */
static tn_status dft(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  int64_t axis =
      c->opset >= 20 ? (node_given(c, 2) ? node_value(c, 2, 0) : -2) : node_int(c, "axis", 1);
  bool inverse = node_int(c, "inverse", 0), onesided = node_int(c, "onesided", 0);
  int32_t last = x->rank - 1, order[TN_MAX_RANK], back[TN_MAX_RANK];
  (void)op;
  int32_t at = node_axis(c, axis, x->rank);
  if (*c->cannot) return TN_OK;
  if (at == last || (x->shape[last] != 1 && x->shape[last] != 2))
    return node_cannot(c, "a transform of what is neither real nor complex");
  int64_t n = x->shape[at], parts = x->shape[last];
  int64_t length = node_given(c, 1) ? node_value(c, 1, 0) : n;
  int64_t bins = onesided ? length / 2 + 1 : length, rows = n ? x->elements / (n * parts) : 0;
  for (int32_t i = 0, k = 0; i < x->rank; i++)
    if (i != at && i != last) order[k++] = i;
  order[last - 1] = at, order[last] = last;
  int64_t shape[TN_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]], back[order[i]] = i;
  tn_tensor *flat =
      node_reshape(c, node_permute(c, c->x[0], order), 2, (int64_t[]){rows, n * parts});
  const transform t = {c, x->dtype, n, length, bins, parts, inverse};
  tn_tensor *y = transform_rows(&t, flat, rows);
  shape[last - 1] = bins, shape[last] = 2;
  y = node_permute(c, node_reshape(c, y, x->rank, shape), back);
  return node_give(c, 0, node_rows(c, y));
}

enum { MOST_FRAMED = 1 << 25 }; /* places that frames have in all, overlapping ones too */

/* signal [batch, length, 1], in frames of the window's length, every `step`. */
static tn_status stft(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  bool onesided = node_int(c, "onesided", 1);
  (void)op;
  int64_t step = node_value(c, 1, 0);
  int64_t length = node_given(c, 3)   ? node_value(c, 3, 0)
                   : node_given(c, 2) ? c->in[2].elements
                                      : 0;
  if (*c->cannot) return TN_OK;
  int64_t parts = x->rank == 3 ? x->shape[2] : 1;
  if (x->rank < 2 || parts != 1) return node_cannot(c, "a short transform of complex signals");
  if (step < 1 || length < 1 || length > LONGEST || length > x->shape[1])
    return node_cannot(c, "frames of %lld numbers", (long long)length);
  int64_t frames = (x->shape[1] - length) / step + 1, bins = onesided ? length / 2 + 1 : length;
  if (frames > MOST_FRAMED / length)
    return node_cannot(c, "a short transform of %lld frames of %lld numbers", (long long)frames,
                       (long long)length);
  tn_tensor *rows = node_reshape(c, c->x[0], 2, (int64_t[]){x->shape[0], x->shape[1]});
  int64_t *index = malloc(((size_t)(frames * length) + 1) * sizeof *index);
  if (!index) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t i = 0; i < frames * length; i++) index[i] = i / length * step + i % length;
  op_call k = call_begin(c, "gather");
  call_in(&k, rows);
  call_in(&k, node_from_host(c, TN_I64, 2, (int64_t[]){frames, length}, index));
  call_set(&k, "axis", 0, 1);
  free(index);
  tn_tensor *y = node_made(&k);
  if (node_given(c, 2)) y = node_do(c, "mul", y, c->x[2]);
  y = node_reshape(c, y, 2, (int64_t[]){x->shape[0] * frames, length});
  const transform t = {c, x->dtype, length, length, bins, 1, false};
  y = transform_rows(&t, y, x->shape[0] * frames);
  return node_give(c, 0, node_reshape(c, y, 4, (int64_t[]){x->shape[0], frames, bins, 2}));
}

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* Triangles over the bins of a spectrum, as ONNX's reference makes them. */
static void mel_triangles(int64_t bands, int64_t dft, int64_t rate, double low, double high,
                          double *numbers) {
  int64_t bins = dft / 2 + 1;
  double from = mel_of(low), step = (mel_of(high) - from) / (double)(bands + 2);
  for (int64_t b = 0; b < bands; b++) {
    int64_t edge[3];
    for (int i = 0; i < 3; i++) {
      double hertz = 700 * (pow(10, (from + step * (double)(b + i)) / 2595) - 1);
      edge[i] = (int64_t)floor((double)(dft + 1) * hertz / (double)rate);
    }
    for (int64_t j = 0; j < bins; j++) {
      double up = (double)(edge[1] - edge[0]), down = (double)(edge[2] - edge[1]);
      double *n = &numbers[j * bands + b];
      if (up == 0 && j == edge[1]) *n = 1;
      if (up > 0 && j >= edge[0] && j <= edge[1]) *n = (double)(j - edge[0]) / up;
      if (down > 0 && j >= edge[1] && j < edge[2]) *n = (double)(edge[2] - j) / down;
    }
  }
}

static tn_status mel_weights(onnx_node *c, const char *op) {
  int64_t bands = node_value(c, 0, 0), length = node_value(c, 1, 0), rate = node_value(c, 2, 0);
  double low = node_number(c, 3, 0), high = node_number(c, 4, 0);
  tn_dtype dtype = onnx_dtype((int32_t)node_int(c, "output_datatype", 1));
  (void)op;
  if (*c->cannot) return TN_OK;
  if (!dtype || bands < 1 || bands > 4096 || length < 1 || length > 1 << 16 || rate < 1)
    return node_cannot(c, "a table of %lld bands", (long long)bands);
  int64_t shape[] = {length / 2 + 1, bands};
  double *numbers = calloc((size_t)(shape[0] * bands) + 1, sizeof *numbers);
  if (!numbers) return TN_ERR_OUT_OF_MEMORY;
  mel_triangles(bands, length, rate, low, high, numbers);
  tn_tensor *y = table(c, dtype, 2, shape, numbers);
  free(numbers);
  return node_give(c, 0, y);
}

const adapter_row adapters_signal[] = {
    {"BlackmanWindow", window_of, "blackman", 17, 0, NULL},
    {"DFT", dft, NULL, 17, 0, NULL},
    {"HammingWindow", window_of, "hamming", 17, 0, NULL},
    {"HannWindow", window_of, "hann", 17, 0, NULL},
    {"MelWeightMatrix", mel_weights, NULL, 17, 0, NULL},
    {"STFT", stft, NULL, 17, 0, NULL},
    {0},
};
