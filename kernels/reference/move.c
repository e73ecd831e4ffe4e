/* Copy (bit for bit), cast and fill. */
#include "bodies.h"
#include "kernels.h"

#define COPY_RUNS(type)                                                                            \
  while (walk_next(&w)) {                                                                          \
    const type *from = w.at[0];                                                                    \
    type *to = w.at[1];                                                                            \
    for (int64_t i = 0; i < w.n; ++i) to[i * w.step[1]] = from[i * w.step[0]];                     \
  }                                                                                                \
  return TN_OK;

/* Bits are moved, not values: a signalling NaN stays one. */
static tn_status copy_range(void *ctx, int64_t begin, int64_t end) {
  const view *views = ctx;
  walk w = walk_over(views, 2, begin, end);
  switch (tn_dtype_size(views[0].dtype)) {
  case 1:
    COPY_RUNS(uint8_t)
  case 2:
    COPY_RUNS(uint16_t)
  case 4:
    COPY_RUNS(uint32_t)
  default:
    COPY_RUNS(uint64_t)
  }
}

tn_status reference_copy(const tn_kernel_args *args) {
  view views[2] = {view_of(args->in[0]), view_of(args->out[0])};
  int64_t count = view_count(&views[0]);
  return count ? args->host->parallel_for(args->host, count, 16384, copy_range, views) : TN_OK;
}

BODY_ONE(cast_f64, double, x)
BODY_ONE(cast_i64, int64_t, x)

/* Integers that float64 rounds are far above all 8-bit floats. */
static tn_status unsaturated_range(void *ctx, int64_t begin, int64_t end) {
  const view *views = ctx;
  double x[WALK_RUN];
  walk w = walk_over(views, 2, begin, end);
  while (walk_next(&w)) {
    load_f64(views[0].dtype, w.at[0], w.step[0], w.n, x);
    store_f8_unsaturated(views[1].dtype, w.at[1], w.step[1], w.n, x);
  }
  return TN_OK;
}

tn_status reference_cast(const tn_kernel_args *args) {
  const tn_cast_attrs *attrs = args->attrs;
  view views[2] = {view_of(args->in[0]), view_of(args->out[0])};
  int64_t count = view_count(&views[0]);
  if (!TN_FIELD_OR(attrs, tn_cast_attrs, overflow, 0) || !(TN_SET(views[1].dtype) & TN_SET_F8))
    return map(args, cast_f64, cast_i64);
  return count ? args->host->parallel_for(args->host, count, 16384, unsaturated_range, views)
               : TN_OK;
}

static void fill_f64(const run *r, double *const *in, double *const *out) {
  const tn_fill_attrs *attrs = r->attrs;
  (void)in;
  for (int64_t i = 0; i < r->n; ++i) out[0][i] = attrs->value;
}
KERNEL_FLOAT(fill)
