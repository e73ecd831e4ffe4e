/*
 * Short products (kernels/cuda/matmul/short.cu) against those of the same numbers in float64: every
 * shape of tile, sums that blocks share and sums in parts, operands that lie either way, with rows
 * that lie apart, batches, bias and activations; and floats that are rounded to TF32. Skipped where
 * no GPU is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/gpu.h"

static tn_runtime *rt;
static tn_device *gpu;
static int math = TN_MATH_IEEE;
static const char *kernel; /* that is tested */
static bool
    hopper; /* what the times of tiles were measured on, which have kernels of their own there */

static void setup(void) {
  kernel = "cuda.matmul.short";
  math = TN_MATH_IEEE;
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
  hopper = is_hopper(gpu);
}
static void setup_tf32(void) {
  kernel = "cuda.matmul.short";
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cuda,reference",
                                .device = "cuda",
                                .math = TN_MATH_TF32 + 1};
  math = TN_MATH_TF32;
  ok(tn_runtime_open(&options, &rt));
  gpu = tn_runtime_device(rt);
  hopper = is_hopper(gpu);
}
static void teardown(void) { tn_runtime_close(rt); }

typedef struct product {
  int64_t items_a, items_b, m, n, k;
  int apart; /* elements between rows */
} product;

static const product products[] = {
    {1, 1, 16, 264, 136, 0},   {1, 1, 3, 4096, 1032, 8},     {1, 1, 16, 1024, 4160, 0},
    {1, 1, 264, 16, 200, 0},   {1, 1, 1024, 11, 4160, 64},   {1, 1, 128, 128, 128, 0},
    {1, 1, 129, 136, 264, 16}, {1, 1, 40, 72, 5128, 0},      {1, 1, 264, 512, 64, 0},
    {1, 1, 512, 512, 512, 0},  {1, 1, 520, 504, 520, 8},     {1, 1, 640, 648, 640, 0},
    {80, 80, 64, 64, 72, 0},   {80, 80, 64, 128, 328, 0},    {1, 1, 1024, 1024, 1024, 0},
    {1, 1, 500, 968, 776, 8},  {1, 1, 2048, 512, 520, 0},    {1, 1, 8200, 64, 64, 0},
    {3, 1, 72, 80, 136, 0},    {1, 3, 72, 80, 136, 0},       {5, 1, 1, 256, 264, 0},
    {3, 3, 200, 24, 1096, 8},  {1, 1, 65, 65 * 8, 65 * 8, 0}};

static unsigned seed;

/* Numbers from -1 to 1 on the device, those of one tensor in a view of it: [items, rows, columns],
 * turned where `turned`. */
static tn_tensor *matrices(tn_dtype dtype, int64_t items, int64_t rows, int64_t columns, int apart,
                           bool turned) {
  const int64_t lines = turned ? columns : rows, line = (turned ? rows : columns) + apart;
  float *values = malloc((size_t)(items * lines * line) * sizeof *values);
  tn_tensor *wide = NULL, *t = NULL, *view = NULL, *swapped = NULL;
  ck_assert_ptr_nonnull(values);
  for (int64_t i = 0; i < items * lines * line; i++)
    values[i] = (float)(int32_t)(seed = seed * 1664525 + 1013904223) * 0x1p-31f;
  ok(tn_tensor_from_host(gpu, TN_F32, 3, SHAPE(items, lines, line), values, &wide));
  free(values);
  tn_cast_attrs to = TN_CAST_DEFAULTS;
  to.dtype = dtype;
  ok(tn_cast(NULL, wide, &to, &t));
  tn_tensor_release(wide);
  ok(tn_tensor_slice(t, 2, 0, line - apart, 1, &view));
  tn_tensor_release(t);
  if (!turned) return view;
  ok(tn_tensor_permute(view, (const int32_t[]){0, 2, 1}, &swapped));
  tn_tensor_release(view);
  return swapped;
}

static tn_tensor *in_double(const tn_tensor *x, bool positive) {
  tn_cast_attrs to = TN_CAST_DEFAULTS;
  tn_tensor *wide = NULL, *y = NULL;
  to.dtype = TN_F64;
  ok(tn_cast(NULL, x, &to, &wide));
  if (!positive) return wide;
  ok(tn_abs(NULL, wide, &y));
  tn_tensor_release(wide);
  return y;
}

static double *numbers(const tn_tensor *t, int64_t *count) {
  tn_tensor *wide = in_double(t, false);
  *count = (int64_t)tn_tensor_bytes(wide) / (int64_t)sizeof(double);
  double *values = malloc(tn_tensor_bytes(wide));
  ck_assert_ptr_nonnull(values);
  ok(tn_tensor_to_host(wide, values, tn_tensor_bytes(wide)));
  tn_tensor_release(wide);
  return values;
}

/* In double, of numbers or of their distances from 0. */
static double *truth(const tn_tensor *a, const tn_tensor *b, const tn_tensor *bias, bool positive) {
  tn_tensor *left = in_double(a, positive), *right = in_double(b, positive), *y = NULL;
  tn_tensor *more = bias ? in_double(bias, positive) : NULL;
  int64_t count;
  ok(tn_matmul(NULL, left, right, more, NULL, &y));
  double *values = numbers(y, &count);
  tn_tensor_release(left), tn_tensor_release(right), tn_tensor_release(y);
  tn_tensor_release(more);
  return values;
}

/* y, the caller's; whether `kernel` made it. */
static tn_tensor *multiply(const tn_tensor *a, const tn_tensor *b, const tn_tensor *bias,
                           const tn_matmul_attrs *attrs, bool *is_short) {
  const tn_tensor *in[] = {a, b, bias};
  tn_tensor *out[] = {NULL};
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_MATMUL};
  call.in = in, call.num_in = 3;
  call.out = out, call.num_out = 1;
  call.attrs = attrs;
  *is_short = runs_by(&call, kernel);
  return out[0];
}

/* False, with nothing looked at, where another kernel takes it. `slack`: of each product's size,
 * what its rounding may take away. */
static bool compare(const product *p, tn_dtype dtype, unsigned ways, double slack) {
  const double half_unit = dtype == TN_F32 ? 0x1p-24 : dtype == TN_F16 ? 0x1p-11 : 0x1p-8;
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  seed = 7 + ways;
  tn_tensor *a = matrices(dtype, p->items_a, p->m, p->k, p->apart, ways & 1);
  tn_tensor *b = matrices(dtype, p->items_b, p->k, p->n, p->apart, ways & 2);
  tn_tensor *rows = ways & 4 ? matrices(dtype, 1, 1, p->n, 0, false) : NULL, *bias = NULL;
  bool is_short;
  if (rows) ok(tn_tensor_reshape(rows, 1, SHAPE(p->n), &bias));
  attrs.activation = ways & 8 ? TN_ACTIVATION_RELU : TN_ACTIVATION_NONE;
  tn_tensor *y = multiply(a, b, bias, &attrs, &is_short);
  int64_t count;
  double *got = numbers(y, &count), *sums = truth(a, b, bias, false);
  double *sizes = truth(a, b, bias, true);
  for (int64_t i = 0; i < count && is_short; i++) {
    const double wanted = ways & 8 ? fmax(sums[i], 0) : sums[i];
    const double bound = half_unit * fabs(wanted) + (slack + 0x1p-20) * sizes[i];
    if (!(fabs(got[i] - wanted) <= bound))
      ck_abort_msg("%lld x %lld x %lld, ways %u: element %lld is %g, not %g", (long long)p->m,
                   (long long)p->n, (long long)p->k, ways, (long long)i, got[i], wanted);
  }
  free(got), free(sums), free(sizes);
  tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
  tn_tensor_release(rows), tn_tensor_release(bias);
  return is_short;
}

START_TEST(products_are_those_of_doubles) {
  unsigned taken = 0;
  for (unsigned ways = 0; ways < 16; ways++)
    taken += compare(&products[_i], (ways ^ (unsigned)_i) & 1 ? TN_F16 : TN_BF16, ways, 0);
  if (hopper) ck_assert_uint_ge(taken, 4);
}
END_TEST

START_TEST(products_of_floats_are_those_of_doubles) {
  const product *p = &products[_i];
  unsigned taken = 0;
  for (unsigned ways = 0; ways < 16; ways++) taken += compare(p, TN_F32, ways, 0);
  if (hopper && p->m * p->n * p->k * p->items_a <= 1 << 23 && p->k <= 2048)
    ck_assert_uint_ge(taken, 4);
}
END_TEST

/* More tiles than a grid has room for are left to others, as are long sums of few tiles, which go
 * in parts. */
START_TEST(others_are_left) {
  static const product others[] = {{70000, 70000, 8, 16, 8, 0},
                                   {1, 1, 4200000, 8, 8, 0},
                                   {1, 1, 16, 16, 131072, 0},
                                   {1, 1, 2048, 2048, 1024, 0}};
  ck_assert(!compare(&others[_i], TN_BF16, 0, 0));
}
END_TEST

static tn_tensor *multiply_shortly(const tn_tensor *a, const tn_tensor *b) {
  static const tn_matmul_attrs plain = TN_MATMUL_DEFAULTS;
  bool is_short;
  tn_tensor *y = multiply(a, b, NULL, &plain, &is_short);
  if (hopper) ck_assert(is_short);
  return y;
}

typedef struct long_sums {
  product p;
  unsigned types; /* bits: that must be summed in parts, of F16, BF16, F32, and F32 rounded */
} long_sums;

enum { HALVES = 1 | 2, FLOATS = 4, ROUNDED = 8, ALL = HALVES | FLOATS | ROUNDED };
static const long_sums longs[] = {{{1, 1, 64, 64, 16384, 0}, ALL},
                                  {{1, 1, 64, 128, 32776, 8}, HALVES},
                                  {{1, 1, 24, 40, 4104, 0}, FLOATS | ROUNDED},
                                  {{1, 1, 16, 42, 60008, 0}, ALL},
                                  {{1, 1, 72, 136, 8200, 0}, HALVES},
                                  {{1, 1, 40, 42, 16392, 0}, ALL},
                                  {{8, 1, 1, 64, 8200, 0}, ALL},
                                  {{4, 4, 64, 64, 8192, 0}, ALL},
                                  {{6, 1, 40, 64, 9224, 8}, ALL},
                                  {{1, 5, 64, 56, 8208, 0}, ALL}};
enum { LONGS = sizeof longs / sizeof *longs };

/* Sums in parts, of one product and of batches; some are left to others. */
START_TEST(sums_in_parts_are_those_of_doubles) {
  static const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32};
  const long_sums *l = &longs[_i / 3];
  const bool rounded = _i % 3 == 2 && math != TN_MATH_IEEE;
  unsigned taken = 0;
  kernel = "cuda.matmul.parts";
  for (unsigned ways = 0; ways < 16; ways++)
    taken += compare(&l->p, types[_i % 3], ways, rounded ? 0x1p-10 : 0);
  if (hopper && l->types & (rounded ? ROUNDED : 1u << _i % 3)) ck_assert_uint_ge(taken, 4);
}
END_TEST

/* Into rows that lie apart, from an odd element on; what lies between stays. */
START_TEST(results_may_lie_apart) {
  enum { m = 70, n = 136, wide = n + 9 };
  const int k = _i ? 16392 : 264;
  if (_i) kernel = "cuda.matmul.parts";
  for (int begin = 0; begin < 3; begin++) {
    tn_tensor *a = matrices(TN_F16, 1, m, k, 0, false), *b = matrices(TN_F16, 1, k, n, 0, false);
    tn_tensor *all = NULL, *y = NULL, *dense = multiply_shortly(a, b);
    tn_tensor *written = NULL;
    int64_t count, others;
    tn_fill_attrs nine = TN_FILL_DEFAULTS;
    nine.value = 9;
    ok(tn_tensor_empty(gpu, TN_F16, 3, SHAPE(1, m, wide), &all));
    ok(tn_fill(NULL, all, &nine));
    ok(tn_tensor_slice(all, 2, begin, begin + n, 1, &y));
    written = y;
    ok(tn_matmul(NULL, a, b, NULL, NULL, &written));
    double *got = numbers(all, &others), *wanted = numbers(dense, &count);
    for (int64_t i = 0; i < others; i++) {
      const int64_t row = i / wide, column = i % wide - begin;
      ck_assert_double_eq(got[i], column < 0 || column >= n ? 9 : wanted[row * n + column]);
    }
    free(got), free(wanted);
    tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(all), tn_tensor_release(y);
    tn_tensor_release(dense);
  }
}
END_TEST

/* The same call gives the same bits, by blocks that share sums and in parts, too. */
START_TEST(bits_are_the_same_every_time) {
  const int k = _i ? 16392 : 5128, m = _i ? 64 : 40;
  tn_tensor *a = matrices(TN_BF16, 1, m, k, 0, false);
  tn_tensor *b = matrices(TN_BF16, 1, k, 72, 0, false);
  unsigned short *first = NULL;
  if (_i) kernel = "cuda.matmul.parts";
  for (int run = 0; run < 50; run++) {
    tn_tensor *y = multiply_shortly(a, b);
    const size_t bytes = tn_tensor_bytes(y);
    unsigned short *bits = malloc(bytes);
    ck_assert_ptr_nonnull(bits);
    ok(tn_tensor_to_host(y, bits, bytes));
    if (first) ck_assert_mem_eq(bits, first, bytes);
    if (first)
      free(bits);
    else
      first = bits;
    tn_tensor_release(y);
  }
  free(first);
  tn_tensor_release(a), tn_tensor_release(b);
}
END_TEST

/* Two runtimes have a kernel take as much shared memory as either wants, in whatever order. */
START_TEST(runtimes_share_a_kernel) {
  static const int64_t sums[] = {512, 192, 512, 192};
  tn_runtime *other = NULL;
  ok(open_cuda(NULL, &other));
  for (int i = 0; i < 4; i++) {
    tn_device *first = gpu;
    if (i % 2) gpu = tn_runtime_device(other);
    tn_tensor *a = matrices(TN_BF16, 1, 640, sums[i], 0, false);
    tn_tensor *b = matrices(TN_BF16, 1, sums[i], 640, 0, false);
    tn_tensor *y = multiply_shortly(a, b);
    int64_t count;
    free(numbers(y, &count));
    tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
    gpu = first;
  }
  tn_runtime_close(other);
}
END_TEST

/* A product behind another, which starts before that one has ended, reads what that one wrote. */
START_TEST(chains_are_in_order) {
  enum { side = 256, links = 200 };
  float *values = calloc(side * side, sizeof *values);
  tn_tensor *turn32 = NULL, *turn = NULL, *x32 = NULL, *x = NULL;
  tn_cast_attrs to = TN_CAST_DEFAULTS;
  ck_assert_ptr_nonnull(values);
  to.dtype = TN_F16;
  for (int i = 0; i < side; i++) values[i * side + (i + 1) % side] = 1; /* turns rows by one */
  ok(tn_tensor_from_host(gpu, TN_F32, 2, SHAPE(side, side), values, &turn32));
  for (int i = 0; i < side * side; i++) values[i] = (float)(i % 2039);
  ok(tn_tensor_from_host(gpu, TN_F32, 2, SHAPE(side, side), values, &x32));
  ok(tn_cast(NULL, turn32, &to, &turn));
  ok(tn_cast(NULL, x32, &to, &x));
  tn_tensor_release(multiply_shortly(turn, x));
  for (int link = 0; link < links; link++) {
    tn_tensor *y = NULL;
    ok(tn_matmul(NULL, turn, x, NULL, NULL, &y));
    tn_tensor_release(x);
    x = y;
  }
  int64_t count;
  double *got = numbers(x, &count);
  for (int i = 0; i < side * side; i++)
    ck_assert_double_eq(got[i], values[(i + links * side) % (side * side)]);
  free(got), free(values);
  tn_tensor_release(turn32), tn_tensor_release(turn), tn_tensor_release(x32), tn_tensor_release(x);
}
END_TEST

/* Both numbers of a product lose at most 2^-11 of it when they are rounded to 10 bits of mantissa.
 */
START_TEST(products_by_tf32_are_near_those_of_doubles) {
  const product *p = &products[_i];
  unsigned taken = 0;
  for (unsigned ways = 0; ways < 16; ways++) taken += compare(p, TN_F32, ways, 0x1p-10);
  if (hopper && p->m * p->n * p->k * p->items_a <= 1 << 23 && p->k <= 2048)
    ck_assert_uint_ge(taken, 4);
}
END_TEST

/* Not cut: the nearest number of 10 bits of mantissa is taken, the one away from 0 of two that are
 * as near; what has 10 bits stays, as do Inf and NaN. Each number is multiplied with 1, from either
 * side, from lines of either kind. */
START_TEST(tf32_is_the_nearest) {
  enum { side = 72 }; /* more than small products have */
  static const float given[][2] = {
      {0x1.001p0f, 1},
      {0x1.002p0f, 0x1.004p0f},
      {0x1.001ffep0f, 1},
      {-0x1.002p0f, -0x1.004p0f},
      {0x1.006p0f, 0x1.008p0f},
      {0x1.ffep0f, 2},
      {-0x1.ffcp0f, -0x1.ffcp0f},
      {0x1.23c002p-100f, 0x1.23cp-100f},
      {0x1.006p-126f, 0x1.008p-126f},
      {0x1.ffdffep127f, 0x1.ffcp127f},
      {-0x1.fffffep127f, -INFINITY},
      {INFINITY, INFINITY},
      {-INFINITY, -INFINITY},
      {NAN, NAN},
  };
  enum { count = sizeof given / sizeof *given };
  static const uint32_t last_nan = 0x7fffffff; /* to whose bits nothing can be added */
  static float numbered[side][side], ones[side][side], got[side][side];
  const bool from_left = _i & 1, turned = _i & 2;
  float wanted[side];
  for (int i = 0; i < side; i++) {
    for (int j = 0; j < side; j++) numbered[i][j] = 0, ones[i][j] = 1;
    numbered[i][i] = i < count ? given[i][0] : -3;
    wanted[i] = i < count ? given[i][1] : -3;
  }
  memcpy(&numbered[side - 1][side - 1], &last_nan, sizeof last_nan);
  wanted[side - 1] = NAN;
  tn_tensor *x = NULL, *one = NULL, *x_lies = NULL, *one_lies = NULL;
  ok(tn_tensor_from_host(gpu, TN_F32, 2, SHAPE(side, side), numbered, &x));
  ok(tn_tensor_from_host(gpu, TN_F32, 2, SHAPE(side, side), ones, &one));
  ok(tn_tensor_permute(x, turned ? (const int32_t[]){1, 0} : (const int32_t[]){0, 1}, &x_lies));
  ok(tn_tensor_permute(one, turned ? (const int32_t[]){1, 0} : (const int32_t[]){0, 1}, &one_lies));
  tn_tensor *y =
      from_left ? multiply_shortly(x_lies, one_lies) : multiply_shortly(one_lies, x_lies);
  ok(tn_tensor_to_host(y, got, sizeof got));
  for (int i = 0; i < side; i++)
    for (int j = 0; j < side; j++) {
      const int number = from_left ? i : j;
      if (isnan(wanted[number]))
        ck_assert_msg(isnan(got[i][j]), "NaN became %g", (double)got[i][j]);
      else if (hopper || wanted[number] == -3)
        ck_assert_double_eq((double)got[i][j], (double)wanted[number]);
    }
  tn_tensor_release(x), tn_tensor_release(one), tn_tensor_release(x_lies);
  tn_tensor_release(one_lies), tn_tensor_release(y);
}
END_TEST

static void add_tests_of_tf32(TCase *t) {
  tcase_add_checked_fixture(t, setup_tf32, teardown);
  tcase_add_loop_test(t, products_by_tf32_are_near_those_of_doubles, 0,
                      sizeof products / sizeof *products);
  tcase_add_loop_test(t, sums_in_parts_are_those_of_doubles, 0, 3 * LONGS);
  tcase_add_loop_test(t, tf32_is_the_nearest, 0, 4);
}

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, products_are_those_of_doubles, 0, sizeof products / sizeof *products);
  tcase_add_loop_test(t, products_of_floats_are_those_of_doubles, 0,
                      sizeof products / sizeof *products);
  tcase_add_loop_test(t, others_are_left, 0, 4);
  tcase_add_loop_test(t, results_may_lie_apart, 0, 2);
  tcase_add_test(t, runtimes_share_a_kernel);
  tcase_add_loop_test(t, sums_in_parts_are_those_of_doubles, 0, 3 * LONGS);
  tcase_add_loop_test(t, bits_are_the_same_every_time, 0, 2);
  tcase_add_test(t, chains_are_in_order);
}

int main(void) {
  const int status = run_suite_on_gpu("cuda-short", add_tests);
  return status ? status : run_suite("cuda-short-tf32", add_tests_of_tf32); /* with a GPU, then */
}
