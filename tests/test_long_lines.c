/*
 * Operators that share a long line among threads: scans, sorting, permutations, lists of
 * gradients. The reference says what comes out, whatever the number of threads is; results that
 * are rounded have the same bits for each. Lines are a little longer than so many parts, or
 * cross the sizes from which on they are shared.
 */
#include <float.h>

#include "compared.h"

enum { LONG = 70003, BUCKETS = (1 << 19) + 3, PARTS = 3 * 16384 + 5 };
static const uint32_t threads[] = {1, 3, 2, 8}; /* the first two against the reference */
enum { COUNTS = sizeof threads / sizeof *threads, COMPARED = 2 };
static const tn_dtype types[] = {TN_F32, TN_F16, TN_F64, TN_I32};
enum { TYPES = sizeof types / sizeof *types };

static double near_one(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return 0.95 + (double)(*seed >> 8) * 0.1 / (1 << 24);
}

static double spread(uint32_t *seed) { return ldexp(near_one(seed) - 1, (int)(*seed % 100) - 40); }

START_TEST(orders_are_the_references) {
  world w = open_world(threads[_i]);
  const int64_t n = LONG;
  for (int k = 0; k < TYPES; ++k)
    for (int falling = 0; falling < 2; ++falling) {
      orders found[2];
      tn_tensor *best[2] = {0}; /* many of them */
      tn_topk_attrs many = TN_TOPK_DEFAULTS;
      many.largest = falling;
      many.k = 5001;
      for (int d = 0; d < 2; ++d) {
        tn_tensor *x = drawn(d ? w.reference : w.cpu, types[k], 1, &n, special), *at = NULL;
        found[d] = orders_of(x, -1, falling, 13);
        ok(tn_topk(NULL, x, &many, &best[d], &at));
        tn_tensor_release(at);
        tn_tensor_release(x);
      }
      same_orders(found[0], found[1]);
      same(best[0], best[1], 0, "many of topk");
    }
  tn_runtime_close(w.runtime);
}
END_TEST

/* A few far from each other, and many that differ in their last bits alone. */
static double crowded(uint32_t *seed) {
  const double far = spread(seed);
  return *seed >> 8 & 63 ? 1 + (*seed >> 14 & 0x3ff) * 0x1p-23 : far;
}

/* As `crowded`, as close as a double can be. */
static double very_crowded(uint32_t *seed) {
  const double far = spread(seed);
  return *seed >> 8 & 63 ? 1 + (*seed >> 14) * 0x1p-52 : far;
}

static double all_over(uint32_t *seed) { return ldexp(spread(seed), (int)(*seed >> 20) % 80); }

static double mostly_one(uint32_t *seed) {
  const double other = spread(seed);
  return *seed >> 8 & 7 ? 1 : other;
}

/* What is dealt into buckets, whatever the distribution, and where one of them gets nearly all. */
START_TEST(distributions_are_sorted_as_the_references) {
  static const value_fn fns[] = {crowded, very_crowded, all_over, mostly_one, special};
  static const tn_dtype kinds[] = {TN_F32, TN_F64, TN_I32, TN_I64};
  world w = open_world(threads[_i]);
  for (size_t f = 0; f < sizeof fns / sizeof *fns; ++f)
    for (size_t k = f < 4 ? 0 : 2; k < (f < 3 ? 2 : 4); ++k) {
      const int64_t shape[] = {1, k % 2 ? LONG : BUCKETS};
      tn_tensor *y[2] = {0}, *from[2] = {0};
      tn_sort_attrs attrs = TN_SORT_DEFAULTS;
      attrs.descending = (int32_t)(f + k) % 2;
      for (int d = 0; d < 2; ++d) {
        tn_tensor *x = drawn(d ? w.reference : w.cpu, kinds[k], 2, shape, fns[f]);
        ok(tn_sort(NULL, x, &attrs, &y[d], &from[d]));
        tn_tensor_release(x);
      }
      same(y[0], y[1], 0, "sort");
      same(from[0], from[1], 0, "sort's index");
    }
  tn_runtime_close(w.runtime);
}
END_TEST

/* Long lines side by side, and one that steps. */
START_TEST(long_rows_are_sorted_as_the_references) {
  static const int64_t shapes[][2] = {{5, LONG}, {LONG, 3}, {3, (1 << 14) - 1}, {3, 1 << 14}};
  world w = open_world(threads[_i]);
  for (int s = 0; s < 4; ++s) {
    orders found[2];
    for (int d = 0; d < 2; ++d) {
      tn_tensor *x = drawn(d ? w.reference : w.cpu, TN_F64, 2, shapes[s], all_over);
      found[d] = orders_of(x, s == 1 ? 0 : 1, s % 2, 13);
      tn_tensor_release(x);
    }
    same_orders(found[0], found[1]);
  }
  tn_runtime_close(w.runtime);
}
END_TEST

static double few(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 28) - 7;
}

static int64_t drawn_place(uint32_t *seed, int64_t places) {
  *seed = *seed * 1664525u + 1013904223u;
  const int64_t at =
      (int64_t)((uint64_t)*seed * (uint64_t)(places + 4) >> 32) - 2; /* some outside */
  return *seed & 32 ? at - places : at;
}

/* Updates of a long vector, each place's in their order. */
static tn_tensor *scattered(tn_device *device, tn_dtype type, int kind, int64_t places, bool wide) {
  const int64_t count = places > LONG ? places + 9000 : LONG;
  uint32_t seed = 77;
  int64_t *at = malloc((size_t)count * sizeof *at);
  int32_t *narrow = malloc((size_t)count * sizeof *narrow);
  for (int64_t i = 0; i < count; ++i) narrow[i] = (int32_t)(at[i] = drawn_place(&seed, places));
  tn_tensor *index = NULL, *y = drawn(device, type, 1, &places, few);
  tn_tensor *updates = drawn(device, type, 1, &count, few);
  ok(tn_tensor_from_host(device, wide ? TN_I64 : TN_I32, 1, &count, wide ? (void *)at : narrow,
                         &index));
  const tn_scatter_add_attrs add = {sizeof add, 0};
  const tn_scatter_attrs set = {sizeof set, 0};
  const tn_scatter_max_attrs most = {sizeof most, 0};
  const tn_index_add_attrs rows = {sizeof rows, 0};
  if (kind == 0) ok(tn_scatter_add(NULL, updates, index, y, &add));
  if (kind == 1) ok(tn_scatter(NULL, updates, index, y, &set));
  if (kind == 2) ok(tn_scatter_max(NULL, updates, index, y, &most));
  if (kind == 3) ok(tn_index_add(NULL, updates, index, y, &rows));
  tn_tensor_release(index);
  tn_tensor_release(updates);
  free(at);
  free(narrow);
  return y;
}

START_TEST(vectors_are_scattered_to_as_the_references) {
  static const char *const names[] = {"scatter_add", "scatter", "scatter_max", "index_add"};
  static const tn_dtype kinds[] = {TN_F32, TN_F16, TN_F64, TN_I32, TN_I8};
  static const int64_t places[] = {5, 1000, 8 * LONG, 2 * LONG};
  static const uint32_t counts[] = {1, 16, 3};
  world w = open_world(counts[_i]);
  for (int kind = 0; kind < 4; ++kind)
    for (int k = 0; k < 5; ++k)
      for (int p = (kind + k) % 2; p < 4; p += 2)
        same(scattered(w.cpu, kinds[k], kind, places[p], (k + p) % 3),
             scattered(w.reference, kinds[k], kind, places[p], (k + p) % 3),
             places[p] < LONG ? 1e-6 : 0, names[kind]);
  tn_runtime_close(w.runtime);
}
END_TEST

START_TEST(different_elements_are_the_references) {
  world w = open_world(threads[_i]);
  const int64_t n = LONG;
  for (int k = 0; k < TYPES; ++k) {
    tn_tensor *y[2] = {0}, *counts[2] = {0}, *count[2] = {0};
    for (int d = 0; d < 2; ++d) {
      tn_tensor *x = drawn(d ? w.reference : w.cpu, types[k], 1, &n, special);
      ok(tn_unique(NULL, x, &y[d], &counts[d], &count[d]));
      tn_tensor_release(x);
    }
    same(y[0], y[1], 0, "unique");
    same(counts[0], counts[1], 0, "unique's counts");
    same(count[0], count[1], 0, "unique's count");
  }
  tn_runtime_close(w.runtime);
}
END_TEST

START_TEST(permutations_are_the_references) {
  static const int64_t sizes[] = {0, 1, 2, 47, 1000, 8193, 70001};
  world w = open_world(threads[_i]);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (int wide = 0; wide < 2; ++wide) {
      tn_randperm_attrs attrs = TN_RANDPERM_DEFAULTS;
      attrs.seed = 5 + (int64_t)s;
      tn_tensor *y[2];
      for (int d = 0; d < 2; ++d) {
        y[d] = shaped(d ? w.reference : w.cpu, wide ? TN_I64 : TN_I32, 1, &sizes[s]);
        ok(tn_randperm(NULL, y[d], &attrs));
      }
      same(y[0], y[1], 0, "randperm");
    }
  tn_runtime_close(w.runtime);
}
END_TEST

static const struct {
  int rank;
  int64_t shape[3], axis;
} lines[] = {{1, {PARTS}, 0}, {2, {2, 20009}, 1}, {3, {2, 6001, 3}, 1}, {2, {30, 1033}, 0}};

typedef tn_status (*scan_fn)(tn_device *device, int line, tn_dtype type, bool reverse,
                             tn_tensor **y);

static tn_status sum_scan(tn_device *device, int line, tn_dtype type, bool reverse, tn_tensor **y) {
  tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
  attrs.axis = lines[line].axis, attrs.reverse = reverse, attrs.exclusive = line % 2;
  tn_tensor *x = drawn(device, type, lines[line].rank, lines[line].shape, near_one);
  const tn_status status = tn_cumsum(NULL, x, &attrs, y);
  tn_tensor_release(x);
  return status;
}

static tn_status product(tn_device *device, int line, tn_dtype type, bool reverse, tn_tensor **y,
                         value_fn fn) {
  tn_cumprod_attrs attrs = TN_CUMPROD_DEFAULTS;
  attrs.axis = lines[line].axis, attrs.reverse = reverse, attrs.exclusive = line % 2;
  tn_tensor *x = drawn(device, type, lines[line].rank, lines[line].shape, fn);
  const tn_status status = tn_cumprod(NULL, x, &attrs, y);
  tn_tensor_release(x);
  return status;
}

static tn_status product_scan(tn_device *device, int line, tn_dtype type, bool reverse,
                              tn_tensor **y) {
  return product(device, line, type, reverse, y, near_one);
}

/* What parts come to leaves the range of a double though the running product need not. */
static tn_status wild_scan(tn_device *device, int line, tn_dtype type, bool reverse,
                           tn_tensor **y) {
  return product(device, line, type, reverse, y, spread);
}

static tn_status most_scan(tn_device *device, int line, tn_dtype type, bool reverse,
                           tn_tensor **y) {
  tn_cummax_attrs attrs = TN_CUMMAX_DEFAULTS;
  attrs.axis = lines[line].axis, attrs.reverse = reverse;
  tn_tensor *x = drawn(device, type, lines[line].rank, lines[line].shape, special), *most = NULL;
  const tn_status status = tn_cummax(NULL, x, &attrs, &most, y); /* the places tell the values */
  tn_tensor_release(most);
  tn_tensor_release(x);
  return status;
}

static const struct {
  const char *name;
  scan_fn fn;
  bool exact;
} scans[] = {{"cumsum", sum_scan, false},
             {"cumprod", product_scan, false},
             {"cumprod of any numbers", wild_scan, false},
             {"cummax", most_scan, true}};

START_TEST(scans_are_the_references) {
  world w = open_world(threads[_i]);
  static const double bounds[] = {2e-7, 1e-3, 1e-11, 0};
  for (size_t s = 0; s < sizeof scans / sizeof *scans; ++s)
    for (int line = 0; line < (int)(sizeof lines / sizeof *lines); ++line)
      for (int k = 0; k < TYPES; ++k) {
        tn_tensor *y[2] = {0};
        for (int d = 0; d < 2; ++d)
          ok(scans[s].fn(d ? w.reference : w.cpu, line, types[k], (line + k) % 2, &y[d]));
        same(y[0], y[1], scans[s].exact ? 0 : bounds[k], scans[s].name);
      }
  tn_runtime_close(w.runtime);
}
END_TEST

/* Sums that stay within a double though those of some elements, or of every fourth, do not. */
START_TEST(sums_of_huge_numbers_are_the_references) {
  world w = open_world(threads[_i]);
  const int64_t shape[] = {PARTS};
  const double most[] = {DBL_MAX, 0x1p1010};
  double *values = malloc(PARTS * sizeof *values);
  for (int m = 0; m < 2; ++m)
    for (int reverse = 0; reverse < 2; ++reverse) {
      tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
      tn_tensor *y[2] = {0};
      attrs.reverse = reverse;
      for (int64_t i = 0; i < PARTS; ++i) values[i] = i % 4 < 2 ? -most[m] : most[m];
      values[0] = values[PARTS - 1] = 0;
      for (int d = 0; d < 2; ++d) {
        tn_tensor *x = numbers(d ? w.reference : w.cpu, TN_F64, 1, shape, values);
        ok(tn_cumsum(NULL, x, &attrs, &y[d]));
        tn_tensor_release(x);
      }
      same(y[0], y[1], 0, "cumsum of huge numbers");
    }
  free(values);
  tn_runtime_close(w.runtime);
}
END_TEST

static double *dipping; /* what `dips` gives, one after the other */
static double dips(uint32_t *seed) {
  (void)seed;
  return *dipping++;
}

/* A running product that is 0 by the middle of a part stays so, though the part's factors come to
 * 1 in another order. At `at` of each line's factors so many halves begin, and as many twos. */
static void check_dip(world w, tn_dtype type, int64_t inner, int64_t at, int64_t halves) {
  const int64_t shape[] = {LONG / inner, inner};
  const int64_t length = shape[0], n = length * inner;
  double *values = malloc((size_t)n * sizeof *values);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t step = i / inner - at;
    const bool dip = i % inner == inner / 2;
    values[i] = !dip || step < 0 || step >= 2 * halves ? 1 : step < halves ? 0.5 : 2;
  }
  for (int reverse = 0; reverse < 2; ++reverse) {
    tn_cumprod_attrs attrs = TN_CUMPROD_DEFAULTS;
    tn_tensor *y[2] = {0};
    attrs.axis = 0, attrs.reverse = reverse;
    for (int d = 0; d < 2; ++d) {
      dipping = values;
      tn_tensor *x = drawn(d ? w.reference : w.cpu, type, 2, shape, dips);
      ok(tn_cumprod(NULL, x, &attrs, &y[d]));
      tn_tensor_release(x);
    }
    same(y[0], y[1], 1e-6, "cumprod");
  }
  free(values);
}

START_TEST(products_that_fall_to_nothing_stay_there) {
  world w = open_world(threads[_i]);
  check_dip(w, TN_F32, 1, 0, 1100);
  check_dip(w, TN_F64, 1, 20000, 1100);
  check_dip(w, TN_F32, 7, 100, 1100);
  check_dip(w, TN_F64, 1, 16384 - 600, 1060); /* from part to part, and to subnormal numbers */
  check_dip(w, TN_F64, 3, LONG / 3 - 2200, 1100);
  check_dip(w, TN_F32, 1, 40000, 900); /* nothing is lost */
  tn_runtime_close(w.runtime);
}
END_TEST

START_TEST(scans_have_the_same_bits_for_any_threads) {
  static const tn_dtype rounded[] = {TN_F32, TN_F64};
  for (int s = 0; s < 2; ++s)
    for (int line = 0; line < 3; ++line)
      for (int k = 0; k < 2; ++k) {
        char *first = NULL;
        for (int c = 0; c < COUNTS; ++c) {
          world w = open_world(threads[c]);
          tn_tensor *y = NULL;
          ok(scans[s].fn(w.cpu, line, rounded[k], false, &y));
          const size_t bytes = tn_tensor_bytes(y);
          char *bits = malloc(bytes);
          ok(tn_tensor_to_host(y, bits, bytes));
          tn_tensor_release(y);
          tn_runtime_close(w.runtime);
          if (!first) {
            first = bits;
            continue;
          }
          ck_assert_msg(!memcmp(first, bits, bytes), "%s by %u threads", scans[s].name, threads[c]);
          free(bits);
        }
        free(first);
      }
}
END_TEST

/* Gradients with and without what is not finite, empty ones among them. */
START_TEST(gradients_are_the_references) {
  static const int64_t sizes[] = {5, 0, 40001, 1, 16384, 33333};
  enum { LIST = sizeof sizes / sizeof *sizes };
  static const double bounds[] = {1e-6, 1e-3, 1e-12};
  world w = open_world(threads[_i]);
  for (int k = 0; k < 3; ++k)
    for (int broken = 0; broken < 2; ++broken) {
      tn_tensor *grads[2][LIST], *norm[2] = {0}, *found[2], *scale[2];
      const float factor = 96;
      for (int d = 0; d < 2; ++d) {
        tn_device *device = d ? w.reference : w.cpu;
        const uint8_t no = 0;
        for (int i = 0; i < LIST; ++i)
          grads[d][i] =
              drawn(device, types[k], 1, &sizes[i], broken && i == LIST - 1 ? special : near_one);
        ok(tn_tensor_from_host(device, TN_BOOL, 0, NULL, &no, &found[d]));
        ok(tn_tensor_from_host(device, TN_F32, 0, NULL, &factor, &scale[d]));
        ok(tn_unscale_grads(NULL, scale[d], grads[d], LIST, found[d]));
        ok(tn_clip_grad_norm(NULL, grads[d], LIST, NULL, &norm[d]));
        tn_tensor_release(scale[d]);
      }
      uint8_t seen;
      ok(tn_tensor_to_host(found[0], &seen, 1));
      ck_assert_int_eq(seen, broken);
      same(found[0], found[1], 0, "found_inf");
      same(norm[0], norm[1], 1e-6, "norm");
      for (int i = 0; i < LIST; ++i) same(grads[0][i], grads[1][i], bounds[k], "gradients");
    }
  tn_runtime_close(w.runtime);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, orders_are_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, distributions_are_sorted_as_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, long_rows_are_sorted_as_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, vectors_are_scattered_to_as_the_references, 0, 3);
  tcase_add_loop_test(tcase, different_elements_are_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, permutations_are_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, scans_are_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, sums_of_huge_numbers_are_the_references, 0, COMPARED);
  tcase_add_loop_test(tcase, products_that_fall_to_nothing_stay_there, 0, COMPARED);
  tcase_add_test(tcase, scans_have_the_same_bits_for_any_threads);
  tcase_add_loop_test(tcase, gradients_are_the_references, 0, COMPARED);
}

int main(void) { return run_suite("long_lines", add_tests); }
