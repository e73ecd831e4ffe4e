/*
 * Products of integers in their own type, and convolutions of 8-bit ones: an image's part and the
 * weights of one kernel are gathered into doubles, which hold their sums exactly, and every row of
 * windows is summed tap by tap.
 */
#include <string.h>

#include "iterate.h"
#include "kernels.h"
#include "kernels/common/window.h"
#include "requantise.h"

/* --- matmul_int --- */

typedef struct int_call {
  const tn_host *host;
  view a, b, y;
  int64_t m, n, k;
} int_call;

/* Offset of batch item `item` of y in a view whose batch axes broadcast to y's. */
static int64_t item_offset(const view *v, const view *y, int64_t item) {
  int64_t offset = 0;
  for (int d = y->ndim - 3; d >= 0; --d) {
    const int own = d - (y->ndim - v->ndim);
    const int64_t i = item % y->shape[d];
    item /= y->shape[d];
    if (own >= 0 && v->shape[own] != 1) offset += i * v->stride[own];
  }
  return offset;
}

/* One row of y, in shares of its columns. */
static void int_row(const int_call *c, int64_t item, int64_t row) {
  int64_t b[WALK_RUN], sums[WALK_RUN];
  const int64_t row_a = item_offset(&c->a, &c->y, item) + row * c->a.stride[c->a.ndim - 2];
  const int64_t first_b = item_offset(&c->b, &c->y, item);
  const int64_t row_y = item_offset(&c->y, &c->y, item) + row * c->y.stride[c->y.ndim - 2];
  const int64_t step_b = c->b.stride[c->b.ndim - 1], step_y = c->y.stride[c->y.ndim - 1];
  for (int64_t j = 0; j < c->n; j += WALK_RUN) {
    const int64_t count = c->n - j < WALK_RUN ? c->n - j : WALK_RUN;
    memset(sums, 0, sizeof sums);
    for (int64_t p = 0; p < c->k; ++p) {
      int64_t a;
      load_i64(c->a.dtype, view_at(&c->a, row_a + p * c->a.stride[c->a.ndim - 1]), 1, 1, &a);
      load_i64(c->b.dtype, view_at(&c->b, first_b + p * c->b.stride[c->b.ndim - 2] + j * step_b),
               step_b, count, b);
      for (int64_t i = 0; i < count; ++i)
        sums[i] = (int64_t)((uint64_t)sums[i] + (uint64_t)a * (uint64_t)b[i]);
    }
    store_i64(c->y.dtype, view_at(&c->y, row_y + j * step_y), step_y, count, sums);
  }
}

static tn_status int_rows(void *ctx, int64_t begin, int64_t end) {
  const int_call *c = ctx;
  for (int64_t row = begin; row < end; ++row) int_row(c, row / c->m, row % c->m);
  return TN_OK;
}

tn_status reference_matmul_int(const tn_kernel_args *args) {
  int_call c = {args->host, view_of(args->in[0]), view_of(args->in[1]), view_of(args->out[0]), 0, 0,
                0};
  c.m = c.y.shape[c.y.ndim - 2];
  c.n = c.y.shape[c.y.ndim - 1];
  c.k = c.a.shape[c.a.ndim - 1];
  const int64_t count = view_count(&c.y);
  return count ? c.host->parallel_for(c.host, count / c.n, 1, int_rows, &c) : TN_OK;
}

/* --- convolutions --- */

typedef struct conv_call {
  const tn_host *host;
  view x, w, y;               /* [n, c, d, h, w] each, by forward names */
  view w_zero, w_scale, bias; /* the last two without data where the call has none */
  double x_zero, x_scale;
  quant_conv at;
  requantisation to;
  int64_t channels, kernels, window; /* of one group; elements of a kernel's channel */
} conv_call;

static view five_axes(const DLTensor *t) {
  window_shape s = window_shape_of(t);
  view v = view_of(t);
  v.ndim = 5;
  memcpy(v.shape, s.size, sizeof s.size);
  memcpy(v.stride, s.stride, sizeof s.stride);
  return v;
}

static conv_call conv_call_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w) {
  conv_call c = {.host = args->host, .at = quant_conv_of(args->attrs, x->ndim - 2)};
  c.x = five_axes(x);
  c.w = five_axes(w);
  c.y = five_axes(args->out[0]);
  c.channels = c.w.shape[1];
  c.kernels = c.w.shape[0] / c.at.groups;
  c.window = c.w.shape[2] * c.w.shape[3] * c.w.shape[4];
  return c;
}

/* The number of kernel k in a view of one or of all; `otherwise` where there is none. */
static double kernel_number(view v, int64_t k, double otherwise) {
  if (v.data) gather(view_count(&v) == 1 ? v : view_slice(v, v.ndim - 1, k, 1), &otherwise);
  return otherwise;
}

/* Adds one element of the kernel times what row (d, h) of windows reads through it. */
static void add_tap(const conv_call *c, const double *x, int64_t element, double weight, int64_t d,
                    int64_t h, double *sums) {
  const int64_t *size = c->x.shape + 2, *kernel = c->w.shape + 2;
  const int64_t q = element % kernel[2], p = element / kernel[2] % kernel[1];
  const int64_t o = element / (kernel[2] * kernel[1]);
  const int64_t depth = d * c->at.stride[0] + o * c->at.dilation[0] - c->at.before[0];
  const int64_t row = h * c->at.stride[1] + p * c->at.dilation[1] - c->at.before[1];
  if (depth < 0 || depth >= size[0] || row < 0 || row >= size[1]) return;
  const double *line = x + (depth * size[1] + row) * size[2];
  for (int64_t j = 0; j < c->y.shape[4]; ++j) {
    const int64_t at = j * c->at.stride[2] + q * c->at.dilation[2] - c->at.before[2];
    if (at >= 0 && at < size[2]) sums[j] += weight * line[at];
  }
}

static void finish_row(const conv_call *c, int64_t k, double *sums) {
  const double bias = kernel_number(c->bias, k, 0), scale = kernel_number(c->w_scale, k, 1);
  for (int64_t j = 0; j < c->y.shape[4]; ++j) {
    sums[j] = wrapped(sums[j] + bias);
    if (c->to.wanted) sums[j] = requantised(&c->to, sums[j], c->x_scale, scale);
  }
}

/* Channel k of image n of y. The room holds the group's part of the image, one kernel, one row. */
static void conv_plane(const conv_call *c, int64_t n, int64_t k, double *room) {
  const int64_t plane = c->x.shape[2] * c->x.shape[3] * c->x.shape[4];
  const int64_t group = k / c->kernels, terms = c->channels * c->window;
  double *x = room, *w = x + c->channels * plane, *sums = w + terms;
  const double w_zero = kernel_number(c->w_zero, k, 0);
  gather(view_slice(view_slice(c->x, 0, n, 1), 1, group * c->channels, c->channels), x);
  gather(view_slice(c->w, 0, k, 1), w);
  for (int64_t i = 0; i < c->channels * plane; ++i) x[i] -= c->x_zero;
  for (int64_t i = 0; i < terms; ++i) w[i] -= w_zero;
  view y = view_slice(view_slice(c->y, 0, n, 1), 1, k, 1);
  for (int64_t d = 0; d < c->y.shape[2]; ++d)
    for (int64_t h = 0; h < c->y.shape[3]; ++h) {
      memset(sums, 0, (size_t)c->y.shape[4] * sizeof *sums);
      for (int64_t i = 0; i < terms; ++i)
        add_tap(c, x + i / c->window * plane, i % c->window, w[i], d, h, sums);
      finish_row(c, k, sums);
      scatter(view_slice(view_slice(y, 2, d, 1), 3, h, 1), sums);
    }
}

/* The range counts the channels of all images of y. */
static tn_status conv_planes(void *ctx, int64_t begin, int64_t end) {
  const conv_call *c = ctx;
  const int64_t plane = c->x.shape[2] * c->x.shape[3] * c->x.shape[4];
  double *room = scratch_alloc(c->host, c->channels * (plane + c->window) + c->y.shape[4]);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t i = begin; i < end; ++i) conv_plane(c, i / c->y.shape[1], i % c->y.shape[1], room);
  c->host->free(c->host, room);
  return TN_OK;
}

static tn_status convolve(const conv_call *c) {
  if (view_count(&c->y) == 0) return TN_OK;
  return c->host->parallel_for(c->host, c->y.shape[0] * c->y.shape[1], 1, conv_planes,
                               (void *)(uintptr_t)c);
}

tn_status reference_conv_integer(const tn_kernel_args *args) {
  conv_call c = conv_call_of(args, args->in[0], args->in[1]);
  if (args->in[2]) gather(view_of(args->in[2]), &c.x_zero);
  if (args->in[3]) c.w_zero = view_of(args->in[3]);
  return convolve(&c);
}

tn_status reference_qlinear_conv(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  conv_call c = conv_call_of(args, in[QUANT_A], in[QUANT_B]);
  c.to = requantisation_of(args);
  gather(view_of(in[QUANT_A_SCALE]), &c.x_scale);
  gather(view_of(in[QUANT_A_ZERO]), &c.x_zero);
  c.w_scale = view_of(in[QUANT_B_SCALE]);
  c.w_zero = view_of(in[QUANT_B_ZERO]);
  if (in[QUANT_BIAS]) c.bias = view_of(in[QUANT_BIAS]);
  return convolve(&c);
}
