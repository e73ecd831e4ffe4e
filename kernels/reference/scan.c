/* Running sums, products and maxima: one line along the axis at a time. */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

/* One line: n elements of x and their results, each `step` elements apart, in the order
 * of the scan. */
typedef struct line {
  const void *x;
  void *y, *index;
  int64_t n, step[3];     /* of x, y, index */
  tn_dtype dtype, result; /* of x, y */
  bool reverse, exclusive;
} line;

typedef void (*line_fn)(const line *l);

typedef struct scan_call {
  view kept[3]; /* x, y and index without the axis */
  int num_views;
  line line;
  line_fn fn;
} scan_call;

static void *element(const void *base, int64_t offset, size_t size) {
  return (char *)base + offset * (int64_t)size;
}

static tn_status scan_range(void *ctx, int64_t begin, int64_t end) {
  const scan_call *call = ctx;
  walk w = walk_over(call->kept, call->num_views, begin, end);
  while (walk_next(&w)) {
    for (int64_t i = 0; i < w.n; ++i) {
      line l = call->line;
      int64_t first = l.reverse ? l.n - 1 : 0, sign = l.reverse ? -1 : 1;
      size_t size = tn_dtype_size(l.dtype);
      l.x = element(walk_at(&w, 0, i), first * l.step[0], size);
      l.y = element(walk_at(&w, 1, i), first * l.step[1], tn_dtype_size(l.result));
      if (call->num_views == 3)
        l.index = element(walk_at(&w, 2, i), first * l.step[2], sizeof(int64_t));
      for (int v = 0; v < 3; ++v) l.step[v] *= sign;
      call->fn(&l);
    }
  }
  return TN_OK;
}

static tn_status scan(const tn_kernel_args *args, int64_t attr_axis, bool reverse, bool exclusive,
                      line_fn floats, line_fn integers) {
  scan_call call = {.num_views = 2};
  int axis = axis_index(attr_axis, args->in[0]->ndim);
  const DLTensor *tensors[3] = {args->in[0], args->out[0], args->num_out > 1 ? args->out[1] : NULL};
  if (tensors[2]) call.num_views = 3;
  for (int v = 0; v < call.num_views; ++v) {
    view whole = view_of(tensors[v]);
    call.line.n = whole.shape[axis];
    call.line.step[v] = whole.stride[axis];
    call.kept[v] = view_drop(whole, axis);
  }
  call.line.dtype = call.kept[0].dtype;
  call.line.result = call.kept[1].dtype;
  call.line.reverse = reverse;
  call.line.exclusive = exclusive;
  call.fn = dtype_is_float(call.line.dtype) ? floats : integers;
  int64_t count = call.line.n ? view_count(&call.kept[0]) : 0;
  int64_t grain = 1 + 4096 / (call.line.n + 1);
  return count ? args->host->parallel_for(args->host, count, grain, scan_range, &call) : TN_OK;
}

/* JOIN takes `total` and `x` of the type and gives the new total. */
#define SCAN(name, type, wide, suffix, zero, join)                                                 \
  static void name(const line *l) {                                                                \
    wide total = zero;                                                                             \
    size_t size = tn_dtype_size(l->dtype), result = tn_dtype_size(l->result);                      \
    for (int64_t i = 0; i < l->n; ++i) {                                                           \
      type x, y;                                                                                   \
      load_##suffix(l->dtype, element(l->x, i * l->step[0], size), 1, 1, &x);                      \
      y = (type)total;                                                                             \
      total = join;                                                                                \
      if (!l->exclusive) y = (type)total;                                                          \
      store_##suffix(l->result, element(l->y, i * l->step[1], result), 1, 1, &y);                  \
    }                                                                                              \
  }

SCAN(cumsum_f64, double, double, f64, 0, total + x)
SCAN(cumsum_i64, int64_t, uint64_t, i64, 0, total + (uint64_t)x)
SCAN(cumprod_f64, double, double, f64, 1, total *x)
SCAN(cumprod_i64, int64_t, uint64_t, i64, 1, total *(uint64_t)x)

#define SCAN_MAX(name, type, suffix, exceeds)                                                      \
  static void name(const line *l) {                                                                \
    type best = 0;                                                                                 \
    int64_t at = 0;                                                                                \
    size_t size = tn_dtype_size(l->dtype);                                                         \
    for (int64_t i = 0; i < l->n; ++i) {                                                           \
      type x;                                                                                      \
      load_##suffix(l->dtype, element(l->x, i * l->step[0], size), 1, 1, &x);                      \
      if (i == 0 || (exceeds)) {                                                                   \
        best = x;                                                                                  \
        at = l->reverse ? l->n - 1 - i : i;                                                        \
      }                                                                                            \
      store_##suffix(l->dtype, element(l->y, i * l->step[1], size), 1, 1, &best);                  \
      if (l->index) *(int64_t *)element(l->index, i * l->step[2], sizeof at) = at;                 \
    }                                                                                              \
  }

/* Nothing exceeds NaN, and NaN exceeds every number. */
SCAN_MAX(cummax_f64, double, f64, best == best && !(x <= best))
SCAN_MAX(cummax_i64, int64_t, i64, x > best)

tn_status reference_cumsum(const tn_kernel_args *args) {
  const tn_cumsum_attrs *a = args->attrs;
  return scan(args, a->axis, a->reverse, a->exclusive, cumsum_f64, cumsum_i64);
}

tn_status reference_cumprod(const tn_kernel_args *args) {
  const tn_cumprod_attrs *a = args->attrs;
  return scan(args, a->axis, a->reverse, a->exclusive, cumprod_f64, cumprod_i64);
}

tn_status reference_cummax(const tn_kernel_args *args) {
  const tn_cummax_attrs *a = args->attrs;
  return scan(args, a->axis, a->reverse, false, cummax_f64, cummax_i64);
}
