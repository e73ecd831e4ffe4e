/*
 * Matrix products and attention of sizes 0, 1 and 2 in every combination, with operands
 * transposed, repeated and cut out of wider tensors: what an extent of one leaves of strides
 * means nothing. Outputs hold NaN before the call.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* How an operand lies: dense, with rows that repeat, every second row and column of a wider
 * one, or with its axes swapped in memory. */
enum { DENSE, REPEATED, SPREAD, SWAPPED, LAYOUTS };

static double number_at(int64_t i) { return (double)((i * 7 + i / 3) % 5) - 2; }

/* A matrix [batch, rows, cols] whose element i is number_at(i), but where rows repeat. */
static tn_tensor *matrix(tn_device *device, tn_dtype dtype, int64_t batch, int64_t rows,
                         int64_t cols, int layout) {
  double values[256];
  for (int i = 0; i < 256; ++i) values[i] = number_at(i);
  tn_tensor *base = NULL, *part = NULL, *view = NULL;
  switch (layout) {
  case REPEATED:
    base = numbers(device, dtype, 3, SHAPE(batch, 1, cols), values);
    ok(tn_tensor_expand(base, 3, SHAPE(batch, rows, cols), &view));
    break;
  case SPREAD:
    base = numbers(device, dtype, 3, SHAPE(batch, 2 * rows, 2 * cols), values);
    ok(tn_tensor_slice(base, 1, 0, 2 * rows, 2, &part));
    ok(tn_tensor_slice(part, 2, 0, 2 * cols, 2, &view));
    break;
  case SWAPPED:
    base = numbers(device, dtype, 3, SHAPE(batch, cols, rows), values);
    ok(tn_tensor_permute(base, (int32_t[]){0, 2, 1}, &view));
    break;
  default:
    return numbers(device, dtype, 3, SHAPE(batch, rows, cols), values);
  }
  tn_tensor_release(part);
  tn_tensor_release(base);
  return view;
}

typedef struct product {
  int64_t m, n, k, batch_a, batch_b;
  int layout_a, layout_b;
  bool bias;
  tn_matmul_attrs attrs;
} product;

static double *product_on(tn_device *device, tn_dtype dtype, const product *p) {
  const bool ta = p->attrs.trans_a, tb = p->attrs.trans_b;
  tn_tensor *x = matrix(device, dtype, p->batch_a, ta ? p->k : p->m, ta ? p->m : p->k, p->layout_a);
  tn_tensor *w = matrix(device, dtype, p->batch_b, tb ? p->n : p->k, tb ? p->k : p->n, p->layout_b);
  const int64_t batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  tn_tensor *y = unwritten(device, dtype, 3, SHAPE(batch, p->m, p->n));
  tn_tensor *bias = NULL;
  if (p->bias) bias = numbers(device, dtype, 1, &p->n, (const double[]){3, -1, 2});
  ok(tn_matmul(NULL, x, w, bias, &p->attrs, &y));
  double *values = values_of(y);
  tn_tensor_release(bias);
  tn_tensor_release(y);
  tn_tensor_release(w);
  tn_tensor_release(x);
  return values;
}

static void compare_product(tn_dtype dtype, const product *p) {
  const int64_t batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  double *want = product_on(b.devices[0], dtype, p);
  for (int d = 1; d < b.count; ++d) {
    double *got = product_on(b.devices[d], dtype, p);
    for (int64_t i = 0; i < batch * p->m * p->n; ++i)
      if (got[i] != want[i])
        ck_abort_msg(
            "%s on %s: [%d, %d, %d] [%d, %d, %d] laid out %d %d, transposed %d %d: element "
            "%d is %g, not %g",
            tn_dtype_name(dtype), b.names[d], (int)p->batch_a, (int)p->m, (int)p->k,
            (int)p->batch_b, (int)p->k, (int)p->n, p->layout_a, p->layout_b, (int)p->attrs.trans_a,
            (int)p->attrs.trans_b, (int)i, got[i], want[i]);
    free(got);
  }
  free(want);
}

/* Every number of the mixed radix. */
static void sweep_products(tn_dtype dtype, int layout_a, int layout_b) {
  for (int i = 0; i < 27 * 4 * 8; ++i) {
    product p = {.m = i % 3,
                 .n = i / 3 % 3,
                 .k = i / 9 % 3,
                 .layout_a = layout_a,
                 .layout_b = layout_b,
                 .attrs = TN_MATMUL_DEFAULTS};
    const int rest = i / 27;
    p.batch_a = 1 + (rest & 1);
    p.batch_b = 1 + (rest >> 1 & 1);
    p.attrs.trans_a = rest >> 2 & 1;
    p.attrs.trans_b = rest >> 3 & 1;
    p.bias = rest >> 4 & 1;
    compare_product(dtype, &p);
  }
}

START_TEST(products_of_nothing_one_and_two) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_BF16};
  for (int layout_b = 0; layout_b < LAYOUTS; ++layout_b)
    sweep_products(types[_i % 3], _i / 3, layout_b);
}
END_TEST

/* ------------------------------------------------------------- attention --- */

typedef struct attention {
  int64_t batch, heads, groups, s, t, d;
} attention;

static tn_tensor *rows(tn_device *device, tn_dtype dtype, int64_t batch, int64_t heads, int64_t s,
                       int64_t d) {
  double values[256];
  for (int i = 0; i < 256; ++i) values[i] = number_at(i) / 2;
  return numbers(device, dtype, 4, SHAPE(batch, heads, s, d), values);
}

enum { GIVEN = 5 }; /* y, lse, dq, dk, dv */

static void attention_on(tn_device *device, tn_dtype dtype, const attention *a,
                         double *result[GIVEN], int64_t count[GIVEN]) {
  tn_tensor *q = rows(device, dtype, a->batch, a->heads, a->s, a->d);
  tn_tensor *k = rows(device, dtype, a->batch, a->groups, a->t, a->d);
  tn_tensor *out[GIVEN] = {
      unwritten(device, dtype, 4, SHAPE(a->batch, a->heads, a->s, a->d)),
      unwritten(device, dtype == TN_F64 ? TN_F64 : TN_F32, 3, SHAPE(a->batch, a->heads, a->s)),
      unwritten(device, dtype, 4, SHAPE(a->batch, a->heads, a->s, a->d)),
      unwritten(device, dtype, 4, SHAPE(a->batch, a->groups, a->t, a->d)),
      unwritten(device, dtype, 4, SHAPE(a->batch, a->groups, a->t, a->d))};
  ok(tn_scaled_dot_product_attention(NULL, q, k, k, NULL, NULL, NULL, &out[0], &out[1]));
  ok(tn_scaled_dot_product_attention_grad(NULL, q, q, k, k, out[0], out[1], NULL, NULL, NULL,
                                          &out[2], &out[3], &out[4]));
  for (int i = 0; i < GIVEN; ++i) {
    count[i] = tn_tensor_elements(out[i]);
    result[i] = values_of(out[i]);
    tn_tensor_release(out[i]);
  }
  tn_tensor_release(k);
  tn_tensor_release(q);
}

static bool alike(double got, double want) {
  return got == want || fabs(got - want) <= 1e-5 * (1 + fabs(want));
}

START_TEST(attention_of_nothing_one_and_two) {
  static const char *const what[GIVEN] = {"y", "lse", "dq", "dk", "dv"};
  for (int i = 0; i < 27 * 8; ++i) {
    attention a = {.s = i % 3,
                   .t = i / 3 % 3,
                   .d = i / 9 % 3,
                   .batch = 1 + (i / 27 & 1),
                   .groups = 1 + (i / 54 & 1)};
    a.heads = a.groups * (1 + i / 108);
    double *want[GIVEN], *got[GIVEN];
    int64_t count[GIVEN];
    attention_on(b.devices[0], TN_F32, &a, want, count);
    for (int d = 1; d < b.count; ++d) {
      attention_on(b.devices[d], TN_F32, &a, got, count);
      for (int o = 0; o < GIVEN; ++o) {
        for (int64_t e = 0; e < count[o]; ++e)
          if (!alike(got[o][e], want[o][e]))
            ck_abort_msg("%s: %s[%d] is %g, not %g: b %d, h %d of %d, s %d, t %d, d %d", b.names[d],
                         what[o], (int)e, got[o][e], want[o][e], (int)a.batch, (int)a.heads,
                         (int)a.groups, (int)a.s, (int)a.t, (int)a.d);
        free(got[o]);
      }
    }
    for (int o = 0; o < GIVEN; ++o) free(want[o]);
  }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, products_of_nothing_one_and_two, 0, 3 * LAYOUTS);
  tcase_add_test(tcase, attention_of_nothing_one_and_two);
}

int main(void) { return run_suite("degenerate_product", add_tests); }
