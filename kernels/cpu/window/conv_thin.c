/*
 * Convolutions of 8-bit integers with few terms or a kernel for each channel: where products of
 * matrices would mostly multiply zeros, a row of windows is summed tap by tap.
 */
#include "kernels/cpu/window/conv_integer.h"

/* What row (d, h) of windows reads through element (o, p, q) of a kernel: windows begin <= j < end
 * read element first + j stride of row `row` of x; none where the row lies outside. */
typedef struct tap {
  int64_t row, first, begin, end;
} tap;

static tap tap_of(const conv_integer *c, int64_t element, int64_t d, int64_t h) {
  const int64_t q = element % c->kernel[2], p = element / c->kernel[2] % c->kernel[1];
  const int64_t o = element / (c->kernel[2] * c->kernel[1]), step = c->at.stride[2];
  const int64_t depth = d * c->at.stride[0] + o * c->at.dilation[0] - c->at.before[0];
  const int64_t line = h * c->at.stride[1] + p * c->at.dilation[1] - c->at.before[1];
  tap t = {0, q * c->at.dilation[2] - c->at.before[2], 0, 0};
  if (depth < 0 || depth >= c->size[0] || line < 0 || line >= c->size[1]) return t;
  t.row = depth * c->size[1] + line;
  t.begin = t.first >= 0 ? 0 : cpu_min(cpu_ceil_div(-t.first, step), c->out[2]);
  t.end = t.first >= c->size[2] ? 0 : cpu_min(cpu_ceil_div(c->size[2] - t.first, step), c->out[2]);
  if (t.end < t.begin) t.end = t.begin;
  return t;
}

#define ADD_TAP(name, B)                                                                           \
  static void name(int64_t n, const B *x, int64_t step, int32_t zero, int32_t weight,              \
                   int32_t *restrict sums) {                                                       \
    if (step == 1)                                                                                 \
      for (int64_t j = 0; j < n; j++)                                                              \
        sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(weight * (x[j] - zero)));               \
    else                                                                                           \
      for (int64_t j = 0; j < n; j++)                                                              \
        sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(weight * (x[j * step] - zero)));        \
  }
ADD_TAP(add_signed, int8_t)
ADD_TAP(add_unsigned, uint8_t)

/* Row (d, h) of channel k of image n. */
static void thin_row(const conv_integer *c, int64_t n, int64_t k, int64_t d, int64_t h,
                     int32_t *sums) {
  const bool x_signed = c->x->dtype.code == kDLInt, w_signed = c->w->dtype.code == kDLInt;
  const int64_t channels = c->channels * c->at.groups, terms = c->channels * c->window;
  const int64_t first = (n * channels + k / c->kernels * c->channels) * c->plane;
  const uint8_t *w = (const uint8_t *)c->w->data + k * terms;
  const int32_t zero = integer_zero(c->w_zero, k);
  memset(sums, 0, (size_t)c->out[2] * sizeof *sums);
  for (int64_t i = 0; i < terms; i++) {
    const int32_t weight = (w_signed ? (int32_t)(int8_t)w[i] : (int32_t)w[i]) - zero;
    const tap t = tap_of(c, i % c->window, d, h);
    if (t.begin == t.end) continue;
    const int64_t at =
        first + i / c->window * c->plane + t.row * c->size[2] + t.first + t.begin * c->at.stride[2];
    const uint8_t *x = (const uint8_t *)c->x->data + at;
    if (x_signed)
      add_signed(t.end - t.begin, (const int8_t *)x, c->at.stride[2], c->x_zero, weight,
                 sums + t.begin);
    else
      add_unsigned(t.end - t.begin, x, c->at.stride[2], c->x_zero, weight, sums + t.begin);
  }
}

/* The range counts the rows of y. */
static tn_status thin_range(void *ctx, int64_t begin, int64_t end) {
  const conv_integer *c = ctx;
  const int64_t kernels = c->kernels * c->at.groups;
  int32_t *sums = c->host->alloc(c->host, (size_t)c->out[2] * sizeof *sums, 64);
  if (!sums)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for the sums of %lld windows",
                         (long long)c->out[2]);
  for (int64_t row = begin; row < end; row++) {
    const int64_t h = row % c->out[1], d = row / c->out[1] % c->out[0];
    const int64_t k = row / (c->out[1] * c->out[0]) % kernels;
    thin_row(c, row / (c->out[1] * c->out[0] * kernels), k, d, h, sums);
    integer_store(&c->sink, k, 0, c->out[2], sums,
                  (char *)c->y->data + row * c->out[2] * c->sink.size, 1);
  }
  c->host->free(c->host, sums);
  return TN_OK;
}

tn_status ISA(conv_integer_thin)(const conv_integer *c) {
  const int64_t rows = c->images * c->kernels * c->at.groups * c->out[0] * c->out[1];
  const double work = (double)c->channels * (double)c->window * (double)c->out[2];
  return c->host->parallel_for(c->host, rows, 1 + (int64_t)(CPU_GRAIN_CHEAP / (work + 1)),
                               thin_range, (void *)(uintptr_t)c);
}
