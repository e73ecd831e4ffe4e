/*
 * Quantising and back: elements by rows whose scales lie in a row. Quotients are those of float32
 * (of float64 where the elements are), as the operators say.
 */
#include <math.h>
#include <string.h>

#include "iterate.h"
#include "kernels.h"
#include "kernels/common/quant.h"
#include "requantise.h"

typedef struct quant_call {
  const tn_host *host;
  view x, y;
  quant_place place;
  quant_range range;
  double *scale, *zero; /* as many as there are scales */
  bool wide;            /* computed in float64 */
  bool unsaturated;     /* to 8-bit floats, of which what is too large is none */
} quant_call;

static double quotient(const quant_call *c, double x, double scale) {
  return c->wide ? x / scale : (double)((float)x / (float)scale);
}

static void quantize_run(const quant_call *c, int64_t first, int64_t n, double *x) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t s = quant_run_at(&c->place, first + i, INT64_MAX).scale;
    x[i] = saturated(quotient(c, x[i], c->scale[s]), c->zero[s], c->range);
  }
}

/* To 8-bit floats: the sum, each operation rounded once. */
static void quantize_f8_run(const quant_call *c, int64_t first, int64_t n, double *x) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t s = quant_run_at(&c->place, first + i, INT64_MAX).scale;
    const double q = quotient(c, x[i], c->scale[s]) + c->zero[s];
    x[i] = c->wide ? q : (double)(float)q;
  }
}

static void dequantize_run(const quant_call *c, int64_t first, int64_t n, double *x) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t s = quant_run_at(&c->place, first + i, INT64_MAX).scale;
    x[i] = (x[i] - c->zero[s]) * c->scale[s];
  }
}

static void walk_quant(const quant_call *c, int64_t begin, int64_t end,
                       void (*fn)(const quant_call *c, int64_t first, int64_t n, double *x)) {
  double x[WALK_RUN];
  view views[2] = {c->x, c->y};
  walk w = walk_over(views, 2, begin, end);
  while (walk_next(&w)) {
    load_f64(c->x.dtype, w.at[0], w.step[0], w.n, x);
    fn(c, w.first, w.n, x);
    if (c->unsaturated)
      store_f8_unsaturated(c->y.dtype, w.at[1], w.step[1], w.n, x);
    else
      store_f64(c->y.dtype, w.at[1], w.step[1], w.n, x);
  }
}

static tn_status quantize_range(void *ctx, int64_t begin, int64_t end) {
  const quant_call *c = ctx;
  walk_quant(c, begin, end, TN_SET(c->y.dtype) & TN_SET_F8 ? quantize_f8_run : quantize_run);
  return TN_OK;
}

static tn_status dequantize_range(void *ctx, int64_t begin, int64_t end) {
  walk_quant(ctx, begin, end, dequantize_run);
  return TN_OK;
}

/* quantize_linear and dequantize_linear: the attributes' beginnings are the same. */
static tn_status run_places(const tn_kernel_args *args, tn_range_fn fn, bool unsaturated) {
  const tn_dequantize_linear_attrs *attrs = args->attrs;
  quant_call c = {.host = args->host,
                  .x = view_of(args->in[0]),
                  .y = view_of(args->out[0]),
                  .unsaturated = unsaturated};
  view scale = view_of(args->in[1]);
  int64_t count = view_count(&c.x), scales = view_count(&scale);
  if (count == 0) return TN_OK;
  c.place =
      quant_place_of(args->in[0], args->in[1], axis_index(attrs->axis, c.x.ndim), attrs->block);
  c.range = quant_range_of(c.y.dtype);
  c.wide = c.x.dtype == TN_F64;
  c.scale = scratch_alloc(c.host, 2 * scales);
  if (!c.scale) return TN_ERR_OUT_OF_MEMORY;
  c.zero = c.scale + scales;
  gather(scale, c.scale);
  memset(c.zero, 0, (size_t)scales * sizeof *c.zero);
  if (args->in[2]) gather(view_of(args->in[2]), c.zero);
  tn_status status = c.host->parallel_for(c.host, count, 4096, fn, &c);
  c.host->free(c.host, c.scale);
  return status;
}

tn_status reference_quantize_linear(const tn_kernel_args *args) {
  const tn_quantize_linear_attrs *attrs = args->attrs;
  const bool f8 = TN_SET(attrs->dtype) & TN_SET_F8;
  return run_places(args, quantize_range,
                    f8 && TN_FIELD_OR(attrs, tn_quantize_linear_attrs, overflow, 0));
}

tn_status reference_dequantize_linear(const tn_kernel_args *args) {
  return run_places(args, dequantize_range, false);
}

/* The scale that holds low..high in 255 steps, and the zero point. */
static void choose(quant_call *c, double low, double high) {
  if (c->wide)
    *c->scale = (high - low) / 255;
  else
    *c->scale = (double)(((float)high - (float)low) / 255.0f);
  if (high == low) *c->scale = 1;
  *c->zero = saturated(quotient(c, -low, *c->scale), 0, c->range);
}

tn_status reference_dynamic_quantize_linear(const tn_kernel_args *args) {
  double scale, zero, low = 0, high = 0, x[WALK_RUN];
  quant_call c = {.host = args->host,
                  .x = view_of(args->in[0]),
                  .y = view_of(args->out[0]),
                  .range = quant_range_of(TN_U8),
                  .scale = &scale,
                  .zero = &zero};
  const int64_t count = view_count(&c.x);
  c.wide = c.x.dtype == TN_F64;
  c.place = (quant_place){1, count ? count : 1, 1, {0, 0, 0}};
  walk w = walk_over(&c.x, 1, 0, count);
  while (walk_next(&w)) {
    load_f64(c.x.dtype, w.at[0], w.step[0], w.n, x);
    for (int64_t i = 0; i < w.n; ++i) {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
  }
  choose(&c, low, high);
  scatter(view_of(args->out[1]), &scale);
  scatter(view_of(args->out[2]), &zero);
  return count ? c.host->parallel_for(c.host, count, 4096, quantize_range, &c) : TN_OK;
}
