/*
 * Convolutions of 8-bit integers with few terms or a kernel for each channel: where products of
 * matrices would mostly multiply zeros, a row of windows is summed tap by tap.
 */
#include "kernels/cpu/window/conv_integer.h"

/* What a row of windows reads through column q of a kernel: windows begin <= j < end read element
 * first + j stride of a row of x. */
typedef struct span {
  int64_t first, begin, end;
} span;

static span span_of(const conv_integer *c, int64_t q) {
  const int64_t step = c->at.stride[2], size = c->size[2];
  span s = {q * c->at.dilation[2] - c->at.before[2], 0, 0};
  s.begin = s.first >= 0 ? 0 : cpu_min(cpu_ceil_div(-s.first, step), c->out[2]);
  s.end = s.first >= size ? 0 : cpu_min(cpu_ceil_div(size - s.first, step), c->out[2]);
  if (s.end < s.begin) s.end = s.begin;
  return s;
}

#define ADD_TAP(name, B)                                                                           \
  static void name(int64_t n, const B *restrict x, int64_t step, int32_t zero, int32_t weight,     \
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

/* What a thread sums a row of windows with. */
typedef struct thin_row {
  const conv_integer *c;
  const span *spans; /* of the kernel's columns */
  int32_t *sums;
} thin_row;

/* Adds row (o, p) of a kernel's channel, which reads a row of x. */
static void add_kernel_row(const thin_row *r, const uint8_t *w, int32_t zero, const uint8_t *x) {
  const conv_integer *c = r->c;
  const bool x_signed = c->x->dtype.code == kDLInt, w_signed = c->w->dtype.code == kDLInt;
  const int64_t step = c->at.stride[2];
  for (int64_t q = 0; q < c->kernel[2]; q++) {
    const span s = r->spans[q];
    const int32_t weight = (w_signed ? (int32_t)(int8_t)w[q] : (int32_t)w[q]) - zero;
    const uint8_t *from = x + s.first + s.begin * step;
    if (s.begin == s.end) continue;
    if (x_signed)
      add_signed(s.end - s.begin, (const int8_t *)from, step, c->x_zero, weight, r->sums + s.begin);
    else
      add_unsigned(s.end - s.begin, from, step, c->x_zero, weight, r->sums + s.begin);
  }
}

/* Row (d, h) of kernel k over its channels, which begin at x. */
static void sum_row(const thin_row *r, int64_t k, const uint8_t *x, int64_t d, int64_t h) {
  const conv_integer *c = r->c;
  const uint8_t *w = (const uint8_t *)c->w->data + k * c->channels * c->window;
  const int32_t zero = integer_zero(c->w_zero, k);
  memset(r->sums, 0, (size_t)c->out[2] * sizeof *r->sums);
  for (int64_t channel = 0; channel < c->channels; channel++, x += c->plane)
    for (int64_t o = 0; o < c->kernel[0]; o++)
      for (int64_t p = 0; p < c->kernel[1]; p++, w += c->kernel[2]) {
        const int64_t depth = d * c->at.stride[0] + o * c->at.dilation[0] - c->at.before[0];
        const int64_t line = h * c->at.stride[1] + p * c->at.dilation[1] - c->at.before[1];
        if (depth < 0 || depth >= c->size[0] || line < 0 || line >= c->size[1]) continue;
        add_kernel_row(r, w, zero, x + (depth * c->size[1] + line) * c->size[2]);
      }
}

/* The range counts the rows of y. */
static tn_status thin_range(void *ctx, int64_t begin, int64_t end) {
  const conv_integer *c = ctx;
  const int64_t kernels = c->kernels * c->at.groups, channels = c->channels * c->at.groups;
  const size_t spans_bytes = (size_t)c->kernel[2] * sizeof(span);
  span *spans = c->host->alloc(c->host, spans_bytes + (size_t)c->out[2] * sizeof(int32_t), 64);
  if (!spans)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for the sums of %lld windows",
                         (long long)c->out[2]);
  const thin_row r = {c, spans, (int32_t *)(void *)(spans + c->kernel[2])};
  for (int64_t q = 0; q < c->kernel[2]; q++) spans[q] = span_of(c, q);
  for (int64_t row = begin; row < end; row++) {
    const int64_t h = row % c->out[1], d = row / c->out[1] % c->out[0];
    const int64_t k = row / (c->out[1] * c->out[0]) % kernels;
    const int64_t n = row / (c->out[1] * c->out[0] * kernels);
    const int64_t first = (n * channels + k / c->kernels * c->channels) * c->plane;
    sum_row(&r, k, (const uint8_t *)c->x->data + first, d, h);
    integer_store(&c->sink, k, 0, c->out[2], r.sums,
                  (char *)c->y->data + row * c->out[2] * c->sink.size, 1);
  }
  c->host->free(c->host, spans);
  return TN_OK;
}

tn_status ISA(conv_integer_thin)(const conv_integer *c) {
  const int64_t rows = c->images * c->kernels * c->at.groups * c->out[0] * c->out[1];
  const double work = (double)c->channels * (double)c->window * (double)c->out[2];
  return c->host->parallel_for(c->host, rows, 1 + (int64_t)(CPU_GRAIN_CHEAP / (work + 1)),
                               thin_range, (void *)(uintptr_t)c);
}
