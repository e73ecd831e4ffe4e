/*
 * Elementwise functions and sums that go by blocks and registers, by the instructions of each
 * instruction set: gelu and its gradient on either side of where their pieces end, at lengths about
 * a register and a block, however elements lie; exponentials likewise; sums, extremes, softmax,
 * its gradients, losses, argmax and running maxima at lengths about a row of lanes or a block; and
 * results that go past the caches.
 */
#include <float.h>
#include <unistd.h>

#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

enum { LENGTHS = 14, MOST = 1100 };
static const int lengths[LENGTHS] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 511, 512, 513, 1024, 1087};

static double gelu_of(double x) { return 0.5 * x * erfc(-x * 0.7071067811865476); }
static double slope_of(double x) {
  if (isinf(x)) return x > 0;
  return 0.5 * erfc(-x * 0.7071067811865476) + x * 0.3989422804014327 * exp(-0.5 * x * x);
}

/* From 0 out to both sides, then numbers about the pieces' end, and those that are none. */
static double drawn(int i) {
  static const double odd[] = {-5.9, 5.9, -0.0, 0.0, 1e-40, -1e-40, -14.4, 20, NAN, INFINITY};
  if (i % 11 == 10) return (double)(float)odd[i / 11 % 10];
  if (i % 7 == 6) return (double)(float)(-5.9 + 1e-6 * (i - MOST / 2));
  return (double)(float)((i % 2 ? 1 : -1) * 0.0171 * (i % 433));
}

/* Of type T the largest step that results may be off by: units of `want`, times `units`. */
static double slack(tn_dtype dtype, double want, double units) {
  const double unit = dtype == TN_F32 ? 0x1p-23 : dtype == TN_F16 ? 0x1p-10 : 0x1p-7;
  const double least = dtype == TN_F16 ? 0x1p-24 : dtype == TN_F32 ? 0x1p-149 : 0x1p-133;
  return fmax(units * unit * fabs(want), units * least);
}

static void must_be_near(const char *what, tn_dtype dtype, int n, int i, double x, double got,
                         double want, double most) {
  if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= most) return;
  ck_abort_msg("%s of type %d, %d elements: element %d, of %.9g, is %.9g, not %.9g", what,
               (int)dtype, n, i, x, got, want);
}

/* x as it is, or every second element of twice as many. */
static tn_tensor *laid(tn_dtype dtype, int n, int step, double (*f)(int i)) {
  double *values = calloc((size_t)(n * step), sizeof *values);
  for (int i = 0; i < n; ++i) values[i * step] = f(i);
  tn_tensor *all = numbers(b.devices[1], dtype, 1, SHAPE(n * step), values), *part = NULL;
  free(values);
  ok(tn_tensor_slice(all, 0, 0, n * step, step, &part));
  tn_tensor_release(all);
  return part;
}

static double of_one(int i) { return i % 3 == 1 ? -1.5 : 0.75; }

static void check_gelu(tn_dtype dtype, int n, int step) {
  tn_tensor *x = laid(dtype, n, step, drawn), *dy = laid(dtype, n, 1, of_one), *y = NULL,
            *dx = NULL;
  double *in = values_of(x);
  ok(tn_gelu(NULL, x, NULL, &y));
  ok(tn_gelu_grad(NULL, dy, x, NULL, &dx));
  double *got = values_of(y), *slopes = values_of(dx);
  for (int i = 0; i < n; ++i) {
    const double want = isinf(in[i]) ? fmax(in[i], 0) : gelu_of(in[i]);
    must_be_near("gelu", dtype, n, i, in[i], got[i], want, slack(dtype, want, 2));
    ck_assert_int_eq(in[i] == 0 && signbit(got[i]) != signbit(in[i]), 0);
    const double rise = of_one(i) * slope_of(in[i]);
    must_be_near("gelu_grad", dtype, n, i, in[i], slopes[i], rise,
                 fmax(slack(dtype, rise, 1), 2e-7));
  }
  free(in), free(got), free(slopes);
  tn_tensor_release(x), tn_tensor_release(dy), tn_tensor_release(y), tn_tensor_release(dx);
}

START_TEST(gelu_by_blocks) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  for (int t = 0; t < 3; ++t)
    for (int l = 0; l < LENGTHS; ++l)
      for (int step = 1; step < 3; ++step) check_gelu(types[t], lengths[l], step);
}
END_TEST

/* Relative to its own size, also where that is small: below the pieces' end it is left to others.
 */
START_TEST(slopes_far_below_zero) {
  double at[64];
  for (int i = 0; i < 64; ++i) at[i] = (double)(float)(-4.5 - 0.05 * i);
  tn_tensor *x = numbers(b.devices[1], TN_F32, 1, SHAPE(64), at), *dy = NULL, *dx = NULL;
  ok(tn_ones_like(NULL, x, &dy));
  ok(tn_gelu_grad(NULL, dy, x, NULL, &dx));
  double *got = values_of(dx);
  for (int i = 0; i < 64; ++i)
    must_be_near("gelu_grad", TN_F32, 64, i, at[i], got[i], slope_of(at[i]),
                 1e-6 * fabs(slope_of(at[i])));
  free(got);
  tn_tensor_release(x), tn_tensor_release(dy), tn_tensor_release(dx);
}
END_TEST

START_TEST(gelu_over_its_input) {
  tn_tensor *x = laid(TN_F32, 533, 1, drawn), *y = NULL;
  ok(tn_gelu(NULL, x, NULL, &y));
  double *want = values_of(y);
  tn_tensor *out = x;
  ok(tn_gelu(NULL, x, NULL, &out));
  must_be(&b, "gelu over its input", 1, out, 533, want, 0);
  free(want);
  tn_tensor_release(y);
}
END_TEST

/* About where results overflow and are subnormal, and between; and those that are no numbers. */
static double exponent(int i) {
  static const double odd[] = {88.72, 88.73, -87.4, -103.9, -104.1, 0, 3e38, -3e38, NAN, INFINITY};
  if (i % 13 == 12) return (double)(float)odd[i / 13 % 10];
  return (double)(float)(0.1931 * (i % 997) - 103);
}

static void check_exp(tn_dtype dtype, int n, int step) {
  tn_tensor *x = laid(dtype, n, step, exponent), *y = NULL, *two = NULL;
  double *in = values_of(x);
  ok(tn_exp(NULL, x, &y));
  ok(tn_exp2(NULL, x, &two));
  double *got = values_of(y), *powers = values_of(two);
  const double most = dtype == TN_F16 ? 65519 : (double)FLT_MAX;
  for (int i = 0; i < n; ++i) {
    const double e = exp(in[i]), p = exp2(in[i]);
    must_be_near("exp", dtype, n, i, in[i], got[i], e > most ? (double)INFINITY : e,
                 slack(dtype, e, 1));
    must_be_near("exp2", dtype, n, i, in[i], powers[i], p > most ? (double)INFINITY : p,
                 slack(dtype, p, 2));
  }
  free(in), free(got), free(powers);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(two);
}

START_TEST(exponentials_by_blocks) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  for (int t = 0; t < 3; ++t)
    for (int l = 0; l < LENGTHS; ++l)
      for (int step = 1; step < 3; ++step) check_exp(types[t], lengths[l], step);
}
END_TEST

/* As many elements as make results of floats go past the caches (kernels/cpu/base/stream.h). */
static int64_t more_than_caches(void) {
  const int64_t most = (int64_t)256 << 20;
  int64_t cache = 0, bytes;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (cache <= 0) cache = (int64_t)64 << 20;
  bytes = 4 * cache < most ? 4 * cache : most;
  if (bytes < cache / 2) bytes = cache / 2;
  return getenv("MESON_EXE_WRAPPER") ? 4099 : bytes / (2 * (int64_t)sizeof(float)) + 4099;
}

/* Of results that begin anywhere in a line, the elements about them are left as they are. */
static void check_streamed(const float *at, int64_t n, int behind) {
  tn_tensor *x = NULL, *all = NULL, *y = NULL;
  float *got = calloc((size_t)(n + 32), sizeof *got);
  ok(tn_tensor_from_host(b.devices[1], TN_F32, 1, SHAPE(n), at, &x));
  ok(tn_tensor_from_host(b.devices[1], TN_F32, 1, SHAPE(n + 32), got, &all));
  ok(tn_tensor_slice(all, 0, behind, behind + n, 1, &y));
  ok(tn_neg(NULL, x, &y));
  ok(tn_tensor_to_host(all, got, (size_t)(n + 32) * sizeof *got));
  for (int64_t i = 0; i < n + 32; ++i) {
    const bool is_inside = i >= behind && i < behind + n;
    if (got[i] != (is_inside ? -at[i - behind] : 0))
      ck_abort_msg("of %lld elements behind %d, element %lld is %.9g", (long long)n, behind,
                   (long long)i, (double)got[i]);
  }
  free(got);
  tn_tensor_release(x), tn_tensor_release(all), tn_tensor_release(y);
}

START_TEST(results_past_the_caches) {
  const int64_t n = more_than_caches();
  float *at = malloc((size_t)n * sizeof *at);
  for (int64_t i = 0; i < n; ++i) at[i] = (float)(1 + i % 8388593);
  check_streamed(at, n, 0);
  check_streamed(at, n, 5);
  check_streamed(at, n, 16);
  free(at);
}
END_TEST

/* Whole numbers of 24 bits: doubles hold their sums and floats none on the way. */
static double whole(int i) { return (double)((uint32_t)i * 2654435761u >> 8) - 0x1p23; }

START_TEST(sums_are_those_of_doubles) {
  static const int counts[] = {1,  7,   8,   9,   15,   16,   17,   33,   48,     63,     64,
                               65, 127, 128, 191, 2047, 2048, 2049, 4160, 140000, 2200017};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
    const int n = counts[c];
    double *at = malloc((size_t)n * sizeof *at), sum = 0, size = 0, squares = 0;
    for (int i = 0; i < n; ++i)
      at[i] = whole(i), sum += at[i], size += fabs(at[i]), squares += at[i] * at[i];
    tn_tensor *x = numbers(b.devices[1], TN_F32, 1, SHAPE(n), at), *y[4] = {NULL};
    const tn_norm_attrs one = {.struct_size = sizeof one, .ord = 1},
                        two = {.struct_size = sizeof two, .ord = 2};
    ok(tn_sum(NULL, x, NULL, &y[0]));
    ok(tn_mean(NULL, x, NULL, &y[1]));
    ok(tn_norm(NULL, x, &one, &y[2]));
    ok(tn_norm(NULL, x, &two, &y[3]));
    /* Volatile: of two numbers side by side GCC 12 leaves the way to float and back out. */
    const volatile float rounded[] = {(float)sum, (float)(sum / n), (float)size,
                                      (float)sqrt(squares)};
    double want[4];
    for (int k = 0; k < 4; ++k) want[k] = (double)rounded[k];
    for (int k = 0; k < 4; ++k) must_be(&b, "a sum", 1, y[k], 1, &want[k], k == 3 ? 1e-7 : 0);
    tn_tensor_release(x);
    free(at);
  }
}
END_TEST

/* The extremes of n elements, of which the one at `at` is the largest, or NaN. */
static void check_extremes(tn_dtype type, int n, int at, bool is_nan) {
  double *x = malloc((size_t)n * sizeof *x);
  for (int i = 0; i < n; ++i) x[i] = i == at ? is_nan ? (double)NAN : 1000 : i % 613 - 300;
  tn_tensor *t = numbers(b.devices[1], type, 1, SHAPE(n), x), *y = NULL, *most = NULL;
  const tn_norm_attrs largest = {.struct_size = sizeof largest, .ord = (double)INFINITY};
  ok(tn_max(NULL, t, NULL, &y));
  must_be(&b, "max", 1, y, 1, &x[at], 0);
  ok(tn_norm(NULL, t, &largest, &most));
  must_be(&b, "norm", 1, most, 1, &x[at], 0);
  tn_tensor_release(t);
  for (int i = 0; i < n; ++i) x[i] = -x[i];
  t = numbers(b.devices[1], type, 1, SHAPE(n), x), y = NULL;
  ok(tn_min(NULL, t, NULL, &y));
  must_be(&b, "min", 1, y, 1, &x[at], 0);
  tn_tensor_release(t);
  free(x);
}

START_TEST(extremes_of_rows) {
  static const int counts[] = {1, 16, 63, 64, 65, 130, 1000, 4160, 140000};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
    for (int at = 0; at < counts[c]; at += 1 + counts[c] / 17)
      for (int is_nan = 0; is_nan < 2; ++is_nan) check_extremes(TN_F32, counts[c], at, is_nan);
  for (int at = 7; at < 2200017; at += 700001) check_extremes(TN_F32, 2200017, at, at % 2);
  check_extremes(TN_F32, 2200017, 2200016, false);
}
END_TEST

/* Rows of 16 bits go by blocks of 512, as floats: a NaN of one is not lost in those behind, and
 * sums are of all elements. */
START_TEST(rows_of_sixteen_bits) {
  static const int counts[] = {63, 64, 127, 511, 512, 513, 575, 576, 577, 1100, 70001};
  static const tn_dtype types[] = {TN_F16, TN_BF16};
  const tn_sum_attrs wide = {.struct_size = sizeof wide, .dtype = TN_F32};
  for (int k = 0; k < 2; ++k)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c) {
      const int n = counts[c];
      double *x = malloc((size_t)n * sizeof *x), sum = 0, running = 0;
      for (int at = 0; at < n; at += 1 + n / 13)
        for (int is_nan = 0; is_nan < 2; ++is_nan) check_extremes(types[k], n, at, is_nan);
      for (int i = 0; i < n; ++i) sum += x[i] = i * 7 % 5 - 2 + (i % 97 == 0);
      tn_tensor *t = numbers(b.devices[1], types[k], 1, SHAPE(n), x), *y = NULL, *total = NULL;
      ok(tn_sum(NULL, t, &wide, &y));
      must_be(&b, "sum", 1, y, 1, &sum, 0);
      tn_tensor_release(t);
      for (int i = 0; i < n; ++i) x[i] = i % 200 < 100 ? 1 : -1;
      t = numbers(b.devices[1], types[k], 1, SHAPE(n), x);
      for (int i = 0; i < n; ++i) x[i] = running += x[i];
      ok(tn_cumsum(NULL, t, NULL, &total));
      must_be(&b, "cumsum", 1, total, n, x, 0);
      tn_tensor_release(t);
      free(x);
    }
}
END_TEST

/* What overflows on the way in float does not in double; NaN and infinities stay. */
START_TEST(sums_of_the_largest_floats) {
  enum { N = 256 };
  const double most = (double)FLT_MAX;
  double at[N];
  for (int i = 0; i < N; ++i) at[i] = i < N / 2 ? most : -most;
  at[N - 1] = 0;
  for (int k = 0; k < 4; ++k) {
    if (k == 1) at[70] = INFINITY;
    if (k == 2) at[200] = -INFINITY;
    if (k == 3) at[200] = 0, at[3] = NAN;
    tn_tensor *x = numbers(b.devices[1], TN_F32, 1, SHAPE(N), at), *y = NULL;
    const double want = k == 0 ? most : k == 1 ? (double)INFINITY : (double)NAN;
    ok(tn_sum(NULL, x, NULL, &y));
    must_be(&b, "sum", 1, y, 1, &want, 0);
    tn_tensor_release(x);
  }
}
END_TEST

/* Rows of every length about a register and four of them, one after the other. */
static void check_softmax(int n, const double *row) {
  tn_tensor *x = numbers(b.devices[1], TN_F32, 2, SHAPE(1, n), row), *y = NULL, *logs = NULL;
  double *got = calloc((size_t)n, sizeof *got), sum = 0, top = -(double)INFINITY;
  for (int i = 0; i < n; ++i) top = row[i] > top || isnan(row[i]) ? row[i] : top;
  for (int i = 0; i < n; ++i) sum += exp((double)(float)row[i] - (double)(float)top);
  ok(tn_softmax(NULL, x, NULL, &y));
  ok(tn_log_softmax(NULL, x, NULL, &logs));
  for (int i = 0; i < n; ++i) got[i] = exp((double)(float)row[i] - (double)(float)top) / sum;
  must_be(&b, "softmax", 1, y, n, got, 3e-7);
  for (int i = 0; i < n; ++i) got[i] = (double)(float)row[i] - (double)(float)top - log(sum);
  must_be(&b, "log_softmax", 1, logs, n, got, 3e-7);
  free(got);
  tn_tensor_release(x);
}

static double logit(int i) { return (double)(float)(0.37 * (i * 7919 % 241) - 60); }

START_TEST(softmax_by_blocks) {
  double row[MOST];
  for (int n = 1; n < 200; ++n) {
    for (int i = 0; i < n; ++i) row[i] = logit(i + n);
    check_softmax(n, row);
    row[n / 2] = -(double)INFINITY;
    if (n > 1) check_softmax(n, row);
    row[n - 1] = NAN;
    check_softmax(n, row);
    row[n - 1] = INFINITY;
    check_softmax(n, row);
  }
}
END_TEST

/* Gradients of rows and the loss of their class n / 2, by what softmax is of them. */
static void check_row_slopes(int n, const double *row) {
  const double target = n / 2, one = 1;
  double dy[MOST], want[MOST], p[MOST], sum = 0, along = 0, all = 0;
  for (int i = 0; i < n; ++i) dy[i] = of_one(i), all += dy[i], sum += exp(row[i]);
  for (int i = 0; i < n; ++i) p[i] = exp(row[i]) / sum, along += dy[i] * p[i];
  tn_tensor *x = numbers(b.devices[1], TN_F32, 2, SHAPE(1, n), row), *y = NULL, *logs = NULL;
  tn_tensor *slopes = numbers(b.devices[1], TN_F32, 2, SHAPE(1, n), dy), *dx[3] = {NULL};
  tn_tensor *class = numbers(b.devices[1], TN_I64, 1, SHAPE(1), &target), *loss = NULL;
  tn_tensor *unit = numbers(b.devices[1], TN_F32, 0, NULL, &one);
  ok(tn_softmax(NULL, x, NULL, &y));
  ok(tn_log_softmax(NULL, x, NULL, &logs));
  ok(tn_softmax_grad(NULL, slopes, y, NULL, &dx[0]));
  ok(tn_log_softmax_grad(NULL, slopes, logs, NULL, &dx[1]));
  ok(tn_cross_entropy(NULL, x, class, NULL, &loss));
  ok(tn_cross_entropy_grad(NULL, unit, x, class, NULL, &dx[2]));
  for (int i = 0; i < n; ++i) want[i] = p[i] * (dy[i] - along);
  must_be(&b, "softmax_grad", 1, dx[0], n, want, 1e-6);
  for (int i = 0; i < n; ++i) want[i] = dy[i] - p[i] * all;
  must_be(&b, "log_softmax_grad", 1, dx[1], n, want, 1e-6);
  for (int i = 0; i < n; ++i) want[i] = p[i] - (i == n / 2);
  must_be(&b, "cross_entropy_grad", 1, dx[2], n, want, 1e-6);
  const double lost = log(sum) - row[n / 2];
  must_be(&b, "cross_entropy", 1, loss, 1, &lost, 1e-6);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(logs);
  tn_tensor_release(slopes), tn_tensor_release(class), tn_tensor_release(unit);
}

START_TEST(slopes_of_rows) {
  double row[MOST];
  for (int n = 1; n < 200; ++n) {
    for (int i = 0; i < n; ++i) row[i] = (double)(float)(logit(i + n) / 16);
    check_row_slopes(n, row);
  }
}
END_TEST

/* Of rows whose first extreme stands anywhere, and of columns; a NaN wins. */
static void check_argmax(int n, int apart, int at, double top) {
  double *x = calloc((size_t)(n * apart), sizeof *x), *want = calloc((size_t)apart, sizeof *want);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < apart; ++j) x[i * apart + j] = i < at ? i % 5 : i == at ? top : i % 7;
  for (int j = 0; j < apart; ++j) want[j] = at;
  tn_tensor *t = numbers(b.devices[1], TN_F32, 2, SHAPE(n, apart), x), *y = NULL;
  const tn_argmax_attrs attrs = {.struct_size = sizeof attrs, .axis = 0};
  ok(tn_argmax(NULL, t, &attrs, &y));
  must_be(&b, "argmax", 1, y, apart, want, 0);
  free(x), free(want);
  tn_tensor_release(t);
}

START_TEST(argmax_by_blocks) {
  for (int n = 1; n < 700; n += n < 140 ? 1 : 61)
    for (int at = 0; at < n; at += 1 + n / 9) {
      check_argmax(n, 1, at, 9);
      check_argmax(n, 1, at, NAN);
      if (n % 10 == 0) check_argmax(n, 300, at, at % 2 ? NAN : 9);
    }
}
END_TEST

/* Numbers that now and then exceed all before them, by themselves or in a row; NaN from `nan` on.
 */
static double record(int i, int nan) {
  if (i == nan) return NAN;
  return i % 37 == 36 || i % 53 > 47 ? i : (i * 7919 % 23) - 30;
}

/* The maxima of n elements beside each other or `apart`, of which other lines hold the same. */
static void check_cummax(tn_dtype dtype, int n, int apart, int nan, bool reverse) {
  double *at = malloc((size_t)(n * apart) * sizeof *at), *best = malloc((size_t)n * sizeof *best);
  double *place = malloc((size_t)n * sizeof *place);
  for (int i = 0; i < n * apart; ++i) at[i] = record(i / apart, nan);
  for (int k = 0; k < n; ++k) {
    const int i = reverse ? n - 1 - k : k, before = reverse ? i + 1 : i - 1;
    const double v = record(i, nan);
    const bool take = k == 0 || (!isnan(best[before]) && !(v <= best[before]));
    best[i] = take ? v : best[before];
    place[i] = take ? i : place[before];
  }
  const tn_cummax_attrs attrs = {.struct_size = sizeof attrs, .axis = 0, .reverse = reverse};
  tn_tensor *x = numbers(b.devices[1], dtype, 2, SHAPE(n, apart), at), *y = NULL, *index = NULL;
  ok(tn_cummax(NULL, x, &attrs, &y, &index));
  double *got = values_of(y), *found = values_of(index);
  for (int i = 0; i < n * apart; ++i) {
    must_be_near("cummax", dtype, n, i, at[i], got[i], best[i / apart], 0);
    must_be_near("place of cummax", dtype, n, i, at[i], found[i], place[i / apart], 0);
  }
  free(at), free(best), free(place), free(got), free(found);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(index);
}

START_TEST(cummax_by_blocks) {
  static const tn_dtype types[] = {TN_F32, TN_BF16, TN_I32, TN_F64};
  for (int t = 0; t < 4; ++t)
    for (int n = 1; n < 140; ++n)
      for (int reverse = 0; reverse < 2; ++reverse) {
        check_cummax(types[t], n, 1, -1, reverse);
        if (types[t] != TN_I32) check_cummax(types[t], n, 1, n / 2, reverse);
        if (n % 13 == 0) check_cummax(types[t], n, 17, -1, reverse);
      }
  check_cummax(TN_F32, 70000, 1, -1, false);
  check_cummax(TN_F32, 70000, 1, 50000, true);
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, gelu_by_blocks);
  tcase_add_test(c, slopes_far_below_zero);
  tcase_add_test(c, gelu_over_its_input);
  tcase_add_test(c, exponentials_by_blocks);
  tcase_add_test(c, results_past_the_caches);
  tcase_add_test(c, sums_are_those_of_doubles);
  tcase_add_test(c, sums_of_the_largest_floats);
  tcase_add_test(c, extremes_of_rows);
  tcase_add_test(c, rows_of_sixteen_bits);
  tcase_add_test(c, softmax_by_blocks);
  tcase_add_test(c, slopes_of_rows);
  tcase_add_test(c, argmax_by_blocks);
  tcase_add_test(c, cummax_by_blocks);
}

int main(void) { return run_suite("element_blocks", add_tests); }
