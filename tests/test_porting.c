/*
 * What whoever ports a program from NumPy, PyTorch or ONNX meets: attributes that make operators
 * mean what they mean there, with what those say written out by hand, and the default beside it.
 */
#include <pthread.h>

#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* The elements of y, which is released, are near `want`, to a share of the largest. */
static void must_be(const char *what, int device, tn_tensor *y, int64_t n, const double *want,
                    double tolerance) {
  double most = 1, *got = values_of(y);
  ck_assert_int_eq(tn_tensor_elements(y), n);
  for (int64_t i = 0; i < n; ++i) most = fmax(most, fabs(want[i]));
  for (int64_t i = 0; i < n; ++i)
    if (isnan(want[i]) ? !isnan(got[i])
                       : !(got[i] == want[i] || fabs(got[i] - want[i]) <= tolerance * most))
      ck_abort_msg("%s on %s: element %d is %.17g, not %.17g", what, b.names[device], (int)i,
                   got[i], want[i]);
  free(got);
  tn_tensor_release(y);
}
#define MUST_BE(what, d, y, ...)                                                                   \
  must_be(what, d, y, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, 0)

/* ------------------------------------------------------------ causal attention --- */

typedef struct shape {
  int64_t s, t, d;
  tn_dtype dtype;
} shape;

/* The first and last keep to plain kernels, the others may go to those for tensor cores. */
static const shape shapes[] = {
    {3, 5, 2, TN_F32},    {5, 3, 2, TN_F64},     {70, 130, 64, TN_F16}, {130, 70, 64, TN_BF16},
    {64, 64, 64, TN_F16}, {90, 200, 32, TN_F32}, {1, 7, 8, TN_F16},     {7, 1, 8, TN_F32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Keys that query i sees, as PyTorch's is_causal or aligned to the last query. */
static int64_t keys_seen(const shape *x, int64_t i, bool upper_left) {
  int64_t seen = upper_left ? i + 1 : i + 1 + x->t - x->s;
  return seen < 0 ? 0 : seen < x->t ? seen : x->t;
}

/* Numbers that every type holds, of which no two neighbours are alike. */
static double *values(int64_t n) {
  double *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; ++i) v[i] = (double)(i * 5 % 17) / 8 - 1;
  return v;
}

static tn_tensor *vectors(int device, const shape *x, int64_t n, const double *v) {
  return numbers(b.devices[device], x->dtype, 4, SHAPE(1, 1, n, x->d), v);
}

/* All scores are 0 where q is 0: each query gets the mean of the values that it sees. */
static double *means(const shape *x, const double *v, bool upper_left) {
  double *y = calloc((size_t)(x->s * x->d), sizeof *y);
  for (int64_t i = 0; i < x->s; ++i)
    for (int64_t j = 0, n = keys_seen(x, i, upper_left); j < n; ++j)
      for (int64_t k = 0; k < x->d; ++k) y[i * x->d + k] += v[j * x->d + k] / (double)n;
  return y;
}

/* A value's gradient is the sum of its shares in those means. */
static double *value_grads(const shape *x, const double *dy, bool upper_left) {
  double *dv = calloc((size_t)(x->t * x->d), sizeof *dv);
  for (int64_t i = 0; i < x->s; ++i)
    for (int64_t j = 0, n = keys_seen(x, i, upper_left); j < n; ++j)
      for (int64_t k = 0; k < x->d; ++k) dv[j * x->d + k] += dy[i * x->d + k] / (double)n;
  return dv;
}

static void attend(int device, const shape *x, bool upper_left) {
  tn_scaled_dot_product_attention_attrs attrs = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  tn_scaled_dot_product_attention_grad_attrs back = TN_SCALED_DOT_PRODUCT_ATTENTION_GRAD_DEFAULTS;
  double *zero = calloc((size_t)(x->s * x->d), sizeof *zero), *v = values(x->t * x->d),
         *dy = values(x->s * x->d), *y = means(x, v, upper_left),
         *dv = value_grads(x, dy, upper_left);
  tn_tensor *tq = vectors(device, x, x->s, zero), *tv = vectors(device, x, x->t, v),
            *tdy = vectors(device, x, x->s, dy), *ty = NULL, *lse = NULL, *d[3] = {NULL};
  const double tolerance = x->dtype == TN_BF16 ? 0x1p-7 : x->dtype == TN_F16 ? 0x1p-9 : 1e-6;
  attrs.causal = back.causal = 1;
  attrs.causal_upper_left = back.causal_upper_left = upper_left;
  ok(tn_scaled_dot_product_attention(NULL, tq, tv, tv, NULL, NULL, &attrs, &ty, &lse));
  ok(tn_scaled_dot_product_attention_grad(NULL, tdy, tq, tv, tv, ty, lse, NULL, NULL, &back, &d[0],
                                          &d[1], &d[2]));
  must_be("attention", device, ty, x->s * x->d, y, tolerance);
  must_be("gradient by v", device, d[2], x->t * x->d, dv, tolerance);
  for (int i = 0; i < 2; ++i) tn_tensor_release(d[i]);
  tn_tensor *inputs[] = {tq, tv, tdy, lse};
  for (int i = 0; i < 4; ++i) tn_tensor_release(inputs[i]);
  free(zero), free(v), free(dy), free(y), free(dv);
}

START_TEST(causal_attention_is_aligned_to_the_first_query) {
  for (int d = 0; d < b.count; ++d) attend(d, &shapes[_i], true);
}
END_TEST

START_TEST(causal_attention_is_aligned_to_the_last_query_without_a_word) {
  for (int d = 0; d < b.count; ++d) attend(d, &shapes[_i], false);
}
END_TEST

START_TEST(the_upper_left_is_of_causal_calls) {
  tn_scaled_dot_product_attention_attrs attrs = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  attrs.causal_upper_left = 1;
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *q = numbers(b.devices[d], TN_F32, 4, SHAPE(1, 1, 1, 1), (double[]){0}), *y = NULL;
    tn_tensor *v = numbers(b.devices[d], TN_F32, 4, SHAPE(1, 1, 2, 1), (double[]){1, 2});
    attrs.causal_upper_left = 1;
    ok(tn_scaled_dot_product_attention(NULL, q, v, v, NULL, NULL, &attrs, &y, NULL));
    MUST_BE("all keys", d, y, 1.5);
    y = NULL, attrs.causal_upper_left = 2;
    refused(tn_scaled_dot_product_attention(NULL, q, v, v, NULL, NULL, &attrs, &y, NULL),
            TN_ERR_INVALID_ARGUMENT, "causal_upper_left");
    tn_tensor_release(q), tn_tensor_release(v);
  }
}
END_TEST

/* ---------------------------------------------------------------- wider results --- */

static tn_sum_attrs sum_as(tn_dtype dtype) {
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  attrs.dtype = (int32_t)dtype;
  return attrs;
}

static tn_tensor *sum_of(const tn_tensor *x, tn_dtype dtype) {
  const tn_sum_attrs attrs = sum_as(dtype);
  tn_tensor *y = NULL;
  ok(tn_sum(NULL, x, &attrs, &y));
  return y;
}

static tn_tensor *prod_of(const tn_tensor *x, tn_dtype dtype) {
  tn_prod_attrs attrs = TN_PROD_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = (int32_t)dtype;
  ok(tn_prod(NULL, x, &attrs, &y));
  return y;
}

static tn_tensor *scan_of(const tn_tensor *x, tn_dtype dtype, bool product, bool exclusive) {
  tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
  tn_cumprod_attrs other = TN_CUMPROD_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = other.dtype = (int32_t)dtype;
  attrs.exclusive = other.exclusive = exclusive;
  ok(product ? tn_cumprod(NULL, x, &other, &y) : tn_cumsum(NULL, x, &attrs, &y));
  return y;
}

START_TEST(small_integers_are_summed_in_64_bits) {
  static const tn_dtype types[] = {TN_I8, TN_U8};
  for (int d = 0; d < b.count; ++d)
    for (int k = 0; k < 2; ++k) {
      tn_tensor *x = numbers(b.devices[d], types[k], 1, SHAPE(3), (double[]){100, 120, 100});
      tn_tensor *y = sum_of(x, TN_I64);
      ck_assert_int_eq(tn_tensor_dtype(y), TN_I64);
      MUST_BE("sum", d, y, 320);
      MUST_BE("product", d, prod_of(x, TN_I64), 1200000);
      MUST_BE("running sum", d, scan_of(x, TN_I64, false, false), 100, 220, 320);
      MUST_BE("running product", d, scan_of(x, TN_I64, true, true), 1, 100, 12000);
      y = sum_of(x, TN_DTYPE_NONE);
      ck_assert_int_eq(tn_tensor_dtype(y), types[k]);
      MUST_BE("sum that wraps", d, y, 64);
      MUST_BE("running sum that wraps", d, scan_of(x, TN_DTYPE_NONE, false, false), 100,
              types[k] == TN_U8 ? 220 : -36, 64);
      tn_tensor_release(x);
    }
}
END_TEST

START_TEST(wider_integers_too) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I16, 1, SHAPE(2), (double[]){-32768, -32768});
    MUST_BE("i16", d, sum_of(x, TN_I64), -65536);
    MUST_BE("i16", d, prod_of(x, TN_I64), 1073741824);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_I32, 1, SHAPE(2), (double[]){2147483647, 2147483647});
    MUST_BE("i32", d, sum_of(x, TN_I64), 4294967294);
    MUST_BE("i32", d, scan_of(x, TN_I64, false, false), 2147483647, 4294967294);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){3, 4});
    MUST_BE("i64", d, sum_of(x, TN_I64), 7);
    tn_tensor_release(x);
  }
}
END_TEST

START_TEST(booleans_are_counted) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_BOOL, 2, SHAPE(2, 3), (double[]){1, 0, 1, 1, 1, 1});
    tn_sum_attrs rows = sum_as(TN_I64);
    tn_tensor *y = NULL;
    rows.axes = (tn_axes){1, {1}};
    ok(tn_sum(NULL, x, &rows, &y));
    MUST_BE("rows", d, y, 2, 3);
    y = NULL, rows.axes.axis[0] = 0;
    ok(tn_sum(NULL, x, &rows, &y));
    MUST_BE("columns", d, y, 2, 1, 2);
    MUST_BE("all", d, prod_of(x, TN_I64), 0);
    MUST_BE("running", d, scan_of(x, TN_I64, false, false), 1, 1, 2, 1, 2, 3);
    y = NULL;
    refused(tn_sum(NULL, x, NULL, &y), TN_ERR_INVALID_ARGUMENT, "set attrs->dtype to TN_I64");
    refused(tn_cumprod(NULL, x, NULL, &y), TN_ERR_INVALID_ARGUMENT, "set attrs->dtype to TN_I64");
    tn_tensor_release(x);
  }
}
END_TEST

/* 70,000 ones are more than float16 holds; bfloat16 stops counting at 256. */
START_TEST(narrow_floats_are_summed_in_wider_ones) {
  enum { ONES = 70000 };
  static double ones[ONES];
  for (int i = 0; i < ONES; ++i) ones[i] = 1;
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype from = TN_F16; from <= TN_BF16; ++from) {
      tn_tensor *x = numbers(b.devices[d], from, 1, SHAPE(ONES), ones);
      MUST_BE("f32", d, sum_of(x, TN_F32), ONES);
      MUST_BE("f64", d, sum_of(x, TN_F64), ONES);
      MUST_BE("own type", d, sum_of(x, TN_DTYPE_NONE), from == TN_F16 ? (double)INFINITY : 70144);
      tn_tensor_release(x);
      x = numbers(b.devices[d], from, 1, SHAPE(3), (double[]){256, 1, -0.5});
      MUST_BE("f32", d, scan_of(x, TN_F32, false, false), 256, 257, 256.5);
      MUST_BE("f64", d, scan_of(x, TN_F64, true, false), 256, 256, -128);
      MUST_BE("f32", d, prod_of(x, TN_F32), -128);
      tn_tensor_release(x);
    }
}
END_TEST

START_TEST(doubles_keep_what_floats_lose) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, 0x1p-40});
    MUST_BE("sum", d, sum_of(x, TN_F64), 1 + 0x1p-40);
    MUST_BE("running sum", d, scan_of(x, TN_F64, false, false), 1, 1 + 0x1p-40);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1 + 0x1p-20, 1 + 0x1p-20});
    MUST_BE("product", d, prod_of(x, TN_F64), 1 + 0x1p-19 + 0x1p-40);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F32, 2, SHAPE(0, 2), (double[]){0});
    MUST_BE("nothing", d, sum_of(x, TN_F64), 0);
    MUST_BE("nothing", d, prod_of(x, TN_F64), 1);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F16, 1, SHAPE(2), (double[]){NAN, 1});
    MUST_BE("NaN", d, sum_of(x, TN_F64), NAN);
    tn_tensor_release(x);
  }
}
END_TEST

/* Long enough, and across axes that are not the last, for several blocks and threads. */
START_TEST(large_sums_are_wide_everywhere) {
  enum { ROWS = 300, COLUMNS = 70 };
  double *v = malloc(ROWS * COLUMNS * sizeof *v), down[COLUMNS] = {0}, all = 0;
  for (int i = 0; i < ROWS * COLUMNS; ++i) v[i] = i % 251 % 128;
  for (int i = 0; i < ROWS * COLUMNS; ++i) down[i % COLUMNS] += v[i], all += v[i];
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I8, 2, SHAPE(ROWS, COLUMNS), v), *y = NULL, *turned;
    tn_sum_attrs columns = sum_as(TN_I64);
    columns.axes = (tn_axes){1, {0}};
    ok(tn_sum(NULL, x, &columns, &y));
    must_be("columns", d, y, COLUMNS, down, 0);
    y = NULL, columns.axes.axis[0] = 1;
    ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &turned));
    ok(tn_sum(NULL, turned, &columns, &y));
    must_be("rows of what was turned", d, y, COLUMNS, down, 0);
    MUST_BE("all", d, sum_of(x, TN_I64), all);
    tn_tensor_release(turned), tn_tensor_release(x);
  }
  free(v);
}
END_TEST

START_TEST(other_result_types_are_refused) {
  static const tn_dtype pairs[][2] = {{TN_I8, TN_I32},   {TN_I8, TN_F32},  {TN_I64, TN_F64},
                                      {TN_I64, TN_I32},  {TN_U8, TN_BOOL}, {TN_F32, TN_F16},
                                      {TN_F16, TN_BF16}, {TN_F64, TN_F32}, {TN_F32, TN_I64},
                                      {TN_F32, 17},      {TN_F32, 99}};
  tn_device *device = b.devices[1];
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    const tn_sum_attrs attrs = sum_as(pairs[i][1]);
    tn_tensor *x = shaped(device, pairs[i][0], 1, SHAPE(2)), *y = NULL;
    refused(tn_sum(NULL, x, &attrs, &y), TN_ERR_INVALID_ARGUMENT, "attrs->dtype is");
    ck_assert_ptr_null(y);
    tn_tensor_release(x);
  }
  const tn_sum_attrs wide = sum_as(TN_I64), own = sum_as(TN_DTYPE_NONE);
  tn_tensor *x = shaped(device, TN_I8, 1, SHAPE(2)), *y8 = shaped(device, TN_I8, 0, NULL),
            *y64 = shaped(device, TN_I64, 0, NULL);
  refused(tn_sum(NULL, x, &wide, &y8), TN_ERR_INVALID_ARGUMENT, "attrs->dtype makes it i64");
  refused(tn_sum(NULL, x, &own, &y64), TN_ERR_INVALID_ARGUMENT, "attrs->dtype makes it i8");
  ok(tn_sum(NULL, x, &wide, &y64));
  ok(tn_sum(NULL, x, &own, &y8));
  tn_tensor_release(x), tn_tensor_release(y8), tn_tensor_release(y64);
}
END_TEST

/* A program of before has a shorter struct, with anything behind it. */
START_TEST(programs_of_before_get_sums_in_their_own_type) {
  struct {
    tn_sum_attrs known;
    int32_t anything;
  } old = {.known = TN_SUM_DEFAULTS, .anything = -1};
  old.known.struct_size = offsetof(tn_sum_attrs, dtype);
  old.known.dtype = TN_I64;
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I8, 1, SHAPE(2), (double[]){100, 100}), *y = NULL;
    ok(tn_sum(NULL, x, &old.known, &y));
    ck_assert_int_eq(tn_tensor_dtype(y), TN_I8);
    MUST_BE("sum", d, y, -56);
    tn_tensor_release(x);
  }
}
END_TEST

/* Attributes of a prepared call change its kernel, not the type of its output. */
START_TEST(prepared_sums_keep_their_type) {
  for (int d = 0; d < b.count; ++d) {
    tn_sum_attrs attrs = sum_as(TN_I64);
    tn_tensor *x = numbers(b.devices[d], TN_I8, 1, SHAPE(2), (double[]){100, 100}), *y = NULL;
    tn_call call = {.struct_size = sizeof call,
                    .op = TN_OP_SUM,
                    .in = (const tn_tensor *[]){x},
                    .out = &y,
                    .attrs = &attrs,
                    .num_in = 1,
                    .num_out = 1};
    tn_prepared *prepared = NULL;
    ok(tn_prepare(&call, &prepared));
    ok(tn_run(prepared));
    attrs.dtype = TN_DTYPE_NONE;
    refused(tn_prepared_set_attrs(prepared, &attrs), TN_ERR_INVALID_ARGUMENT, "attrs->dtype");
    ok(tn_run(prepared));
    tn_prepared_release(prepared);
    MUST_BE("sum", d, y, 200);
    tn_tensor_release(x);
  }
}
END_TEST

/* ----------------------------------------------------------------- ignore_index --- */

/* PyTorch passes targets of -100 over unless told otherwise; here they are no class. */
START_TEST(a_target_of_minus_100_is_no_class) {
  const double x[] = {-1, -2, -3, -4, -5, -6};
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype index = TN_I32; index <= TN_I64; ++index) {
      tn_tensor *tx = numbers(b.devices[d], TN_F32, 2, SHAPE(2, 3), x), *y = NULL;
      tn_tensor *target = numbers(b.devices[d], index, 1, SHAPE(2), (double[]){1, -100});
      tn_nll_loss_attrs attrs = TN_NLL_LOSS_DEFAULTS;
      tn_nll_loss_grad_attrs back = TN_NLL_LOSS_GRAD_DEFAULTS;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("mean", d, y, NAN);
      y = NULL, attrs.reduction = TN_REDUCTION_NONE;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("each", d, y, 2, NAN);
      y = NULL;
      ok(tn_cross_entropy(NULL, tx, target, NULL, &y));
      MUST_BE("cross entropy", d, y, NAN);
      y = NULL;
      ok(tn_nll_loss_grad(NULL, NULL, tx, target, &back, &y));
      MUST_BE("gradient", d, y, 0, -0.5, 0, 0, 0, 0);
      y = NULL, attrs.reduction = TN_REDUCTION_MEAN;
      attrs.ignore_index = back.ignore_index = -100;
      ok(tn_nll_loss(NULL, tx, target, &attrs, &y));
      MUST_BE("mean of the others", d, y, 2);
      y = NULL;
      ok(tn_nll_loss_grad(NULL, NULL, tx, target, &back, &y));
      MUST_BE("their gradient", d, y, 0, -1, 0, 0, 0, 0);
      tn_tensor_release(tx), tn_tensor_release(target);
    }
}
END_TEST

START_TEST(cross_entropy_passes_minus_100_over_when_told) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F64, 2, SHAPE(2, 2), (double[]){3, 3, 1, 9}), *y = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){0, -100});
    tn_cross_entropy_attrs attrs = TN_CROSS_ENTROPY_DEFAULTS;
    tn_cross_entropy_grad_attrs back = TN_CROSS_ENTROPY_GRAD_DEFAULTS;
    attrs.ignore_index = back.ignore_index = -100;
    ok(tn_cross_entropy(NULL, x, target, &attrs, &y));
    must_be("loss", d, y, 1, (double[]){log(2)}, 1e-14);
    y = NULL;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &back, &y));
    must_be("gradient", d, y, 4, (double[]){-0.5, 0.5, 0, 0}, 1e-14);
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

/* ------------------------------------------------------------- negative indexes --- */

START_TEST(rows_are_counted_from_the_end_when_told) {
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype index = TN_I32; index <= TN_I64; ++index) {
      tn_tensor *table = numbers(b.devices[d], TN_F32, 2, SHAPE(3, 1), (double[]){1, 2, 3});
      tn_tensor *at = numbers(b.devices[d], index, 1, SHAPE(5), (double[]){0, -1, -3, -4, 3});
      tn_tensor *dy = numbers(b.devices[d], TN_F32, 2, SHAPE(5, 1), (double[]){1, 2, 4, 8, 16});
      tn_embedding_grad_attrs back = TN_EMBEDDING_GRAD_DEFAULTS;
      tn_tensor *y = NULL;
      ok(tn_embedding(NULL, table, at, &y));
      MUST_BE("embedding", d, y, 1, 0, 0, 0, 0);
      y = NULL;
      ok(tn_gather(NULL, table, at, NULL, &y));
      MUST_BE("gather", d, y, 1, 3, 1, 0, 0);
      y = NULL, back.rows = 3;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient", d, y, 1, 0, 0);
      y = NULL, back.from_end = 1;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient from the end", d, y, 5, 0, 2);
      y = NULL, back.padding_index = 2;
      ok(tn_embedding_grad(NULL, dy, at, &back, &y));
      MUST_BE("gradient but of padding", d, y, 5, 0, 0);
      tn_tensor_release(table), tn_tensor_release(at), tn_tensor_release(dy);
    }
}
END_TEST

/* ------------------------------------------------------- gradients by a loss --- */

START_TEST(the_gradient_of_a_scalar_loss_may_be_left_out) {
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype dtype = TN_F16; dtype <= TN_F64; ++dtype) {
      tn_tensor *x = numbers(b.devices[d], dtype, 1, SHAPE(4), (double[]){1, 2, 3, 4}), *dx = NULL;
      tn_tensor *target = numbers(b.devices[d], dtype, 1, SHAPE(4), (double[]){0, 4, 3, 0});
      tn_mse_loss_grad_attrs attrs = TN_MSE_LOSS_GRAD_DEFAULTS;
      ok(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx));
      MUST_BE("mean", d, dx, 0.5, -1, 0, 2);
      dx = NULL, attrs.reduction = TN_REDUCTION_SUM;
      ok(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx));
      MUST_BE("sum", d, dx, 2, -4, 0, 8);
      dx = NULL;
      ok(tn_huber_loss_grad(NULL, NULL, x, target, NULL, &dx));
      MUST_BE("huber", d, dx, 0.25, -0.25, 0, 0.25);
      dx = NULL;
      ok(tn_kl_div_grad(NULL, NULL, x, target, NULL, &dx));
      MUST_BE("kl_div", d, dx, 0, -1, -0.75, 0);
      dx = NULL, attrs.reduction = TN_REDUCTION_NONE;
      refused(tn_mse_loss_grad(NULL, NULL, x, target, &attrs, &dx), TN_ERR_INVALID_ARGUMENT,
              "it may be left out only where the loss is a scalar");
      refused(tn_mse_loss_grad(NULL, NULL, x, NULL, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
              "target is NULL");
      refused(tn_mse_loss_grad(NULL, NULL, NULL, NULL, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
              "every tensor is NULL");
      tn_tensor_release(x), tn_tensor_release(target);
    }
}
END_TEST

START_TEST(losses_over_classes_too) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 2, SHAPE(2, 2), (double[]){0, 0, 0, 0}),
              *dx = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){0, 1});
    tn_cross_entropy_grad_attrs attrs = TN_CROSS_ENTROPY_GRAD_DEFAULTS;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx));
    MUST_BE("mean", d, dx, -0.25, 0.25, 0.25, -0.25);
    dx = NULL, attrs.reduction = TN_REDUCTION_SUM;
    ok(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx));
    MUST_BE("sum", d, dx, -0.5, 0.5, 0.5, -0.5);
    dx = NULL, attrs.reduction = TN_REDUCTION_NONE;
    refused(tn_cross_entropy_grad(NULL, NULL, x, target, &attrs, &dx), TN_ERR_INVALID_ARGUMENT,
            "it may be left out only where the loss is a scalar");
    /* An integer x is refused for its type, as it is with dy. */
    refused(tn_cross_entropy_grad(NULL, NULL, target, target, NULL, &dx), TN_ERR_INVALID_ARGUMENT,
            "the operator does not take i64");
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

/* The scalar that stands in its place outlasts the call and its streams. */
START_TEST(prepared_gradients_and_other_streams) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, 3}), *dx = NULL;
    tn_tensor *target = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){0, 0});
    tn_stream *stream = NULL;
    ok(tn_device_synchronize(b.devices[d]));
    ok(tn_stream_create(b.devices[d], &stream));
    tn_call call = {.struct_size = sizeof call,
                    .op = TN_OP_MSE_LOSS_GRAD,
                    .stream = stream,
                    .in = (const tn_tensor *[]){NULL, x, target},
                    .out = &dx,
                    .num_in = 3,
                    .num_out = 1};
    tn_prepared *prepared = NULL;
    ok(tn_prepare(&call, &prepared));
    for (int i = 0; i < 3; ++i) ok(tn_run(prepared));
    tn_prepared_release(prepared);
    ok(tn_stream_synchronize(stream));
    MUST_BE("prepared", d, dx, 1, 3);
    dx = NULL;
    ok(tn_mse_loss_grad(stream, NULL, x, target, NULL, &dx));
    ok(tn_stream_synchronize(stream));
    tn_stream_destroy(stream);
    MUST_BE("on the stream", d, dx, 1, 3);
    tn_tensor_release(x), tn_tensor_release(target);
  }
}
END_TEST

typedef struct caller {
  pthread_t thread;
  tn_tensor *x, *target, *dx;
  tn_status status;
} caller;

static void *call_without_dy(void *of) {
  caller *c = of;
  c->status = tn_mse_loss_grad(NULL, NULL, c->x, c->target, NULL, &c->dx);
  return NULL;
}

/* Whoever comes first makes the scalar; the others use it, or theirs and give it back. */
START_TEST(threads_may_be_the_first_to_leave_it_out) {
  enum { THREADS = 4 };
  for (int d = 0; d < b.count; ++d) {
    caller callers[THREADS] = {{0}};
    for (int i = 0; i < THREADS; ++i) {
      callers[i].x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, i});
      callers[i].target = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){0, 0});
    }
    for (int i = 0; i < THREADS; ++i)
      ck_assert(!pthread_create(&callers[i].thread, NULL, call_without_dy, &callers[i]));
    for (int i = 0; i < THREADS; ++i) {
      ck_assert(!pthread_join(callers[i].thread, NULL));
      ck_assert_int_eq(callers[i].status, TN_OK);
      MUST_BE("of a thread", d, callers[i].dx, 1, i);
      tn_tensor_release(callers[i].x), tn_tensor_release(callers[i].target);
    }
  }
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_loop_test(c, causal_attention_is_aligned_to_the_first_query, 0, SHAPES);
  tcase_add_loop_test(c, causal_attention_is_aligned_to_the_last_query_without_a_word, 0, SHAPES);
  tcase_add_test(c, the_upper_left_is_of_causal_calls);
  tcase_add_test(c, small_integers_are_summed_in_64_bits);
  tcase_add_test(c, wider_integers_too);
  tcase_add_test(c, booleans_are_counted);
  tcase_add_test(c, narrow_floats_are_summed_in_wider_ones);
  tcase_add_test(c, doubles_keep_what_floats_lose);
  tcase_add_test(c, large_sums_are_wide_everywhere);
  tcase_add_test(c, other_result_types_are_refused);
  tcase_add_test(c, programs_of_before_get_sums_in_their_own_type);
  tcase_add_test(c, prepared_sums_keep_their_type);
  tcase_add_test(c, a_target_of_minus_100_is_no_class);
  tcase_add_test(c, cross_entropy_passes_minus_100_over_when_told);
  tcase_add_test(c, rows_are_counted_from_the_end_when_told);
  tcase_add_test(c, the_gradient_of_a_scalar_loss_may_be_left_out);
  tcase_add_test(c, losses_over_classes_too);
  tcase_add_test(c, prepared_gradients_and_other_streams);
  tcase_add_test(c, threads_may_be_the_first_to_leave_it_out);
}

int main(void) { return run_suite("porting", add_tests); }
