/*
 * Shared by tests that compare the processor's kernels with the reference's: a runtime of both
 * with as many threads as a test wants, tensors of drawn numbers, and whether two are the same.
 */
#ifndef TENON_TESTS_COMPARED_H
#define TENON_TESTS_COMPARED_H

#include "numeric.h"

typedef struct world {
  tn_runtime *runtime;
  tn_device *cpu, *reference;
} world;

static inline world open_world(uint32_t count) {
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference,cpu"};
  world w = {NULL, NULL, NULL};
  options.num_threads = count;
  w.runtime = open_runtime(&options);
  ok(tn_device_find(w.runtime, "cpu", &w.cpu));
  ok(tn_device_find(w.runtime, "reference", &w.reference));
  return w;
}

/* What sorting and extremes must heed: ties, both zeros, infinities, NaN. */
static inline double special(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  const uint32_t r = *seed >> 12;
  if (r % 1001 == 0) return -INFINITY;
  if (r % 1003 == 0) return INFINITY;
  if (r % 1009 == 0) return NAN;
  return r % 5 == 0 ? r % 2 ? -0.0 : 0.0 : (double)(r % 2003) / 16 - 60;
}

typedef double (*value_fn)(uint32_t *seed);

static inline tn_tensor *drawn(tn_device *device, tn_dtype type, int rank, const int64_t *shape,
                               value_fn fn) {
  uint32_t seed = 7;
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= shape[d];
  double *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) {
    values[i] = fn(&seed);
    if (type < TN_F16 && !(fabs(values[i]) < 127)) values[i] = 3;
  }
  tn_tensor *t = numbers(device, type, rank, shape, values);
  free(values);
  return t;
}

/* Equal within `bound` of the larger, or of the least normal number of its type; NaN equals
 * NaN. Releases both. */
static inline void same(tn_tensor *got, tn_tensor *want, double bound, const char *what) {
  const tn_dtype type = tn_tensor_dtype(got);
  const double least = type == TN_F16 ? 0x1p-14 : type == TN_F32 ? 0x1p-126 : 0x1p-1022;
  const int64_t n = tn_tensor_elements(got);
  ck_assert_int_eq(n, tn_tensor_elements(want));
  double *a = values_of(got), *b = values_of(want);
  for (int64_t i = 0; i < n; ++i) {
    const bool equal = a[i] == b[i] || (isnan(a[i]) && isnan(b[i])) ||
                       fabs(a[i] - b[i]) <= bound * fmax(fmax(fabs(a[i]), fabs(b[i])), least);
    if (!equal) ck_abort_msg("%s [%lld]: %.17g, not %.17g", what, (long long)i, a[i], b[i]);
  }
  free(a);
  free(b);
  tn_tensor_release(got);
  tn_tensor_release(want);
}

/* What sort, argsort and topk make of a tensor. */
typedef struct orders {
  tn_tensor *sorted, *from, *order, *best, *most;
} orders;

/* argsort the other way round than sort. */
static inline orders orders_of(const tn_tensor *x, int32_t axis, bool descending, int64_t k) {
  orders o = {0};
  tn_sort_attrs sort = TN_SORT_DEFAULTS;
  tn_argsort_attrs argsort = TN_ARGSORT_DEFAULTS;
  tn_topk_attrs topk = TN_TOPK_DEFAULTS;
  sort.axis = argsort.axis = topk.axis = axis;
  sort.descending = topk.largest = descending;
  argsort.descending = !descending;
  topk.k = k;
  ok(tn_sort(NULL, x, &sort, &o.sorted, &o.from));
  ok(tn_argsort(NULL, x, &argsort, &o.order));
  ok(tn_topk(NULL, x, &topk, &o.best, &o.most));
  return o;
}

/* Releases both. */
static inline void same_orders(orders got, orders want) {
  same(got.sorted, want.sorted, 0, "sort");
  same(got.from, want.from, 0, "sort's index");
  same(got.order, want.order, 0, "argsort");
  same(got.best, want.best, 0, "topk");
  same(got.most, want.most, 0, "topk's index");
}

#endif
