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

/* [parts, n, 2 parts' bins]: what a row of n numbers (real, then imaginary ones) is multiplied by
 * to become `bins` pairs. */
static tn_tensor *fourier(onnx_node *c, tn_dtype dtype, int64_t n, int64_t length, int64_t bins,
                          int64_t parts, bool inverse) {
  int64_t shape[] = {parts * n, bins * 2};
  double *numbers = calloc((size_t)(shape[0] * shape[1]) + 1, sizeof *numbers);
  if (!numbers) return node_check(c, TN_ERR_OUT_OF_MEMORY), NULL;
  for (int64_t i = 0; i < n && i < length; i++)
    for (int64_t k = 0; k < bins; k++) {
      double angle = TAU * (double)(i * k % length) / (double)length * (inverse ? 1 : -1);
      double re = cos(angle), im = sin(angle), scale = inverse ? 1.0 / (double)length : 1;
      double *real = numbers + i * parts * shape[1] + 2 * k;
      real[0] = re * scale, real[1] = im * scale;
      if (parts == 2) real[shape[1]] = -im * scale, real[shape[1] + 1] = re * scale;
    }
  tn_tensor *y = table(c, dtype, 2, shape, numbers);
  free(numbers);
  return y;
}

enum { LONGEST = 8192 }; /* a transform is a product with its matrix */

static tn_tensor *product(onnx_node *c, tn_tensor *a, tn_tensor *b) {
  if (!a || !b) return NULL;
  op_call k = call_begin(c, "matmul");
  call_in(&k, a);
  call_in(&k, b);
  call_in(&k, NULL);
  return node_made(&k);
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
  if (length < 1 || length > LONGEST || n > LONGEST)
    return node_cannot(c, "a transform of %lld numbers; up to %d are served", (long long)length,
                       LONGEST);
  for (int32_t i = 0, k = 0; i < x->rank; i++)
    if (i != at && i != last) order[k++] = i;
  order[last - 1] = at, order[last] = last;
  int64_t shape[TN_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]], back[order[i]] = i;
  tn_tensor *flat =
      node_reshape(c, node_permute(c, c->x[0], order), 2, (int64_t[]){rows, n * parts});
  tn_tensor *y = product(c, flat, fourier(c, x->dtype, n, length, bins, parts, inverse));
  shape[last - 1] = bins, shape[last] = 2;
  y = node_permute(c, node_reshape(c, y, x->rank, shape), back);
  return node_give(c, 0, node_rows(c, y));
}

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
  y = product(c, y, fourier(c, x->dtype, length, length, bins, 1, false));
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
