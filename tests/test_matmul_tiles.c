/*
 * Matrix products beside the extents of tiles, panels and shares, and beside those that take
 * another way: in registers where they lie, by vectors along the terms. Rows and columns of every
 * kind, operands transposed, batches that share one of them, bias and activation, in all floating
 * types. Inputs are small whole numbers, so that every type and every device has the reference's
 * result exactly. Infinities stay in their rows, and numbers that fast instructions take for 0
 * count.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* Matrices without an axis of batches, transposed as views or by the call's attributes. */
typedef enum flatness { BATCHED, VIEWED, BY_CALL } flatness;

typedef struct product {
  int64_t batch_a, batch_b, m, n, k;
  bool swapped_a, swapped_b, bias; /* swapped in memory */
  int64_t activation;
  double special; /* some elements of a, unless 0 */
  flatness flat;  /* of one matrix each */
} product;

static tn_tensor *matrix(tn_device *device, tn_dtype dtype, flatness flat, bool swapped,
                         int64_t batch, int64_t rows, int64_t cols, double special, uint32_t seed) {
  const int64_t count = batch * rows * cols;
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (double)(seed >> 16 & 3) - 1;
    if (special != 0 && i % 29 == 7) values[i] = special;
  }
  const int64_t shape[] = {batch, swapped ? cols : rows, swapped ? rows : cols};
  tn_tensor *t = numbers(device, dtype, flat ? 2 : 3, shape + (flat != BATCHED), values);
  tn_tensor *view = NULL;
  free(values);
  if (!swapped || flat == BY_CALL) return t;
  ok(tn_tensor_permute(t, flat ? (int32_t[]){1, 0} : (int32_t[]){0, 2, 1}, &view));
  tn_tensor_release(t);
  return view;
}

static tn_tensor *product_on(tn_device *device, tn_dtype dtype, const product *p) {
  tn_tensor *x =
      matrix(device, dtype, p->flat, p->swapped_a, p->batch_a, p->m, p->k, p->special, 1);
  tn_tensor *w = matrix(device, dtype, p->flat, p->swapped_b, p->batch_b, p->k, p->n, 0, 2);
  const int64_t batch = p->batch_a > p->batch_b ? p->batch_a : p->batch_b;
  tn_tensor *bias = p->bias ? whole_numbers(device, dtype, 1, &p->n, 2, 3) : NULL;
  const int64_t shape[] = {batch, p->m, p->n};
  tn_tensor *y = unwritten(device, dtype, p->flat ? 2 : 3, shape + (p->flat != BATCHED));
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  attrs.activation = p->activation;
  attrs.trans_a = p->flat == BY_CALL && p->swapped_a;
  attrs.trans_b = p->flat == BY_CALL && p->swapped_b;
  ok(tn_matmul(NULL, x, w, bias, &attrs, &y));
  tn_tensor_release(x);
  tn_tensor_release(w);
  tn_tensor_release(bias);
  return y;
}

/* The product rounded before its bias is added, and then again, on the reference. */
static double *rounded_twice(tn_dtype dtype, const product *p) {
  product plain = *p;
  tn_tensor *bias = whole_numbers(b.devices[0], dtype, 1, &p->n, 2, 3), *sum = NULL, *y = NULL;
  plain.bias = false;
  plain.activation = TN_ACTIVATION_NONE;
  tn_tensor *once = product_on(b.devices[0], dtype, &plain);
  ok(tn_add(NULL, once, bias, &sum));
  if (p->activation == TN_ACTIVATION_RELU) ok(tn_relu(NULL, sum, &y));
  double *values = values_of(y ? y : sum);
  tn_tensor_release(once);
  tn_tensor_release(bias);
  tn_tensor_release(sum);
  tn_tensor_release(y);
  return values;
}

/* Exact. cuBLASLt adds a bias to what it has rounded where it splits the terms of a sum: its
 * elements of bfloat16 may be those of two roundings, and no others. */
static void compare(tn_dtype dtype, const product *p) {
  char what[160];
  snprintf(what, sizeof what, "%s %d [%d, %d] by %d [%d, %d], swapped %d %d, bias %d, flat %d",
           tn_dtype_name(dtype), (int)p->batch_a, (int)p->m, (int)p->k, (int)p->batch_b, (int)p->k,
           (int)p->n, p->swapped_a, p->swapped_b, p->bias, (int)p->flat);
  tn_tensor *y = product_on(b.devices[0], dtype, p);
  double *want = values_of(y);
  const int64_t count = tn_tensor_elements(y);
  tn_tensor_release(y);
  for (int d = 1; d < b.count; ++d) {
    tn_tensor *z = product_on(b.devices[d], dtype, p);
    double *own = NULL;
    if (dtype == TN_BF16 && p->bias && strncmp(b.names[d], "cuda", 4) == 0) {
      double *got = values_of(z);
      own = rounded_twice(dtype, p);
      for (int64_t i = 0; i < count; ++i)
        if (got[i] != own[i]) own[i] = want[i];
      free(got);
    }
    must_be(&b, what, d, z, count, own ? own : want, 0);
    free(own);
  }
  free(want);
}

static const tn_dtype types[] = {TN_BF16, TN_F16, TN_F32, TN_F64};

/* Every number of a mixed radix decides something else. */
static void sweep(product p, int turn) {
  p.swapped_a = turn & 1;
  p.swapped_b = turn >> 1 & 1;
  p.bias = turn >> 2 & 1;
  p.activation = turn >> 3 & 1 ? TN_ACTIVATION_RELU : TN_ACTIVATION_NONE;
  for (int t = 0; t < 4; ++t) compare(types[t], &p);
}

START_TEST(extents_beside_those_of_tiles) {
  static const int64_t rows[] = {1, 2, 3, 5, 6, 7, 8, 13}, cols[] = {1, 15, 16, 17, 64, 65};
  static const int64_t depths[] = {0, 1, 2, 3, 15, 16, 33};
  int turn = _i;
  for (int m = 0; m < 8; ++m)
    for (int n = 0; n < 6; ++n)
      for (int k = n % case_step(1); k < 7; k += case_step(1), turn += 5)
        sweep((product){.batch_a = 1, .batch_b = 1, .m = rows[m], .n = cols[n], .k = depths[k]},
              turn % 16);
}
END_TEST

START_TEST(blocks_and_shares) {
  static const product all[] = {
      {.batch_a = 1, .batch_b = 1, .m = 205, .n = 130, .k = 257},
      {.batch_a = 1, .batch_b = 1, .m = 7, .n = 20, .k = 4611},
      {.batch_a = 1, .batch_b = 1, .m = 3, .n = 128, .k = 3001},
      {.batch_a = 1, .batch_b = 1, .m = 24, .n = 192, .k = 300},
      {.batch_a = 1, .batch_b = 1, .m = 25, .n = 192, .k = 300},
      {.batch_a = 3, .batch_b = 3, .m = 9, .n = 17, .k = 20},
      {.batch_a = 3, .batch_b = 1, .m = 9, .n = 70, .k = 20},
      {.batch_a = 1, .batch_b = 3, .m = 9, .n = 70, .k = 20},
      {.batch_a = 3, .batch_b = 1, .m = 385, .n = 70, .k = 1025},
      {.batch_a = 3, .batch_b = 3, .m = 400, .n = 49, .k = 1025},
      {.batch_a = 1, .batch_b = 1, .m = 600, .n = 112, .k = 1025},
      {.batch_a = 1, .batch_b = 1, .m = 60, .n = 100, .k = 4201},
      {.batch_a = 3, .batch_b = 1, .m = 50, .n = 140, .k = 600},
      {.batch_a = 3, .batch_b = 3, .m = 18, .n = 141, .k = 600},
  };
  for (int i = 0; i < 16; i += case_step(5)) sweep(all[_i], i);
}
END_TEST

/* Beside the sides of matrix units' tiles of 16 by 16 words, the blocks that such rows are cut into
 * and the terms that are laid out at a time. */
START_TEST(products_by_units) {
  static const int64_t rows[] = {8, 15, 16, 17, 31, 32, 33, 49, 64, 65};
  static const int64_t cols[] = {16, 17, 32, 33, 48, 49, 64, 80};
  static const int64_t depths[] = {2, 31, 32, 33, 62, 513};
  int turn = _i;
  for (int m = 0; m < 10; m += case_step(1))
    for (int n = 0; n < 8; ++n)
      for (int k = 0; k < 6; ++k, turn += 5) {
        product p = {.batch_a = 1 + turn % 3 / 2, .m = rows[m], .n = cols[n], .k = depths[k]};
        p.batch_b = p.batch_a;
        p.swapped_a = turn & 1;
        p.swapped_b = turn >> 1 & 1;
        compare(TN_BF16, &p);
      }
  if (is_emulated()) return;
  compare(TN_BF16, &(product){.batch_a = 1, .batch_b = 1, .m = 513, .n = 65, .k = 1026});
  compare(TN_BF16, &(product){.batch_a = 2, .batch_b = 1, .m = 530, .n = 16, .k = 4099});
}
END_TEST

/* Of one product in all ways that the turn of a mixed radix says. */
static void turn_over(product p, int turn) {
  p.batch_a = p.batch_b = 1;
  p.flat = (flatness)(turn % 3);
  p.swapped_a = turn / 3 & 1;
  p.swapped_b = turn / 6 & 1;
  p.bias = turn / 12 % 3 == 1;
  p.activation = turn / 12 % 3 == 2 ? TN_ACTIVATION_RELU : TN_ACTIVATION_NONE;
  compare(TN_F32, &p);
}

/* Beside the extents of narrow products and of long sums, and where terms are taken by shares. */
START_TEST(small_products) {
  static const int64_t rows[] = {1, 2, 4, 5, 8, 9, 31, 32, 33};
  static const int64_t cols[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 25, 33, 64, 80};
  static const int64_t depths[] = {0, 8, 31, 32, 33, 127, 128, 129, 257, 513};
  int turn = _i;
  for (int m = 0; m < 9; m += case_step(1))
    for (int n = 0; n < 14; ++n)
      for (int k = 0; k < 10; ++k, turn += 7)
        turn_over((product){.m = rows[m], .n = cols[n], .k = depths[k]}, turn);
}
END_TEST

/* Beside the terms that are worth a second thread and those of the largest in registers, and thin
 * ones of any number. */
START_TEST(products_beside_small_ones) {
  static const product all[] = {
      {.m = 80, .n = 80, .k = 78},    {.m = 80, .n = 80, .k = 79},
      {.m = 64, .n = 128, .k = 128},  {.m = 64, .n = 128, .k = 129},
      {.m = 65, .n = 1, .k = 20000},  {.m = 1, .n = 65, .k = 20000},
      {.m = 5000, .n = 15, .k = 20},  {.m = 5000, .n = 16, .k = 20},
      {.m = 5000, .n = 17, .k = 20},  {.m = 3000, .n = 4, .k = 130},
      {.m = 8, .n = 2500, .k = 130},  {.m = 9, .n = 2500, .k = 130},
      {.m = 2, .n = 1200, .k = 1100}, {.m = 128, .n = 64, .k = 1023},
      {.m = 128, .n = 64, .k = 1024}, {.m = 129, .n = 64, .k = 1024},
      {.m = 32, .n = 150, .k = 250},  {.m = 33, .n = 150, .k = 250},
      {.m = 16, .n = 700, .k = 300},  {.m = 17, .n = 700, .k = 300},
      {.m = 16, .n = 129, .k = 512},  {.m = 17, .n = 129, .k = 511},
      {.m = 17, .n = 129, .k = 512},  {.m = 120, .n = 17, .k = 513},
      {.m = 65, .n = 66, .k = 1041},  {.m = 128, .n = 135, .k = 2049},
      {.m = 129, .n = 128, .k = 600}, {.m = 129, .n = 129, .k = 600},
      {.m = 95, .n = 1032, .k = 257}, {.m = 97, .n = 1033, .k = 257},
  };
  if (is_emulated() && _i % 2) return;
  for (int turn = 0; turn < 36; turn += case_step(5)) turn_over(all[_i], turn);
}
END_TEST

/* Zero times infinity is NaN, whichever operand has which, and wherever lanes are left out. */
START_TEST(infinities_in_small_products) {
  static const int64_t cols[] = {1, 3, 8, 9, 17}, depths[] = {7, 33, 130};
  for (int turn = 0; turn < 24; ++turn) {
    product p = {.m = 9, .n = cols[turn % 5], .k = depths[turn % 3]};
    p.special = turn & 1 ? (double)INFINITY : (double)NAN;
    turn_over(p, turn / 2);
    p.m = 40;
    turn_over(p, turn / 2);
  }
}
END_TEST

/* The way of a call that needs no plan refuses what the other refuses. */
START_TEST(an_operand_is_no_result) {
  double zeros[64] = {0};
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 2, SHAPE(8, 8), zeros), *y = x;
    tn_tensor *w = numbers(b.devices[d], TN_F32, 2, SHAPE(7, 8), zeros), *made = NULL;
    ck_assert_int_eq(tn_matmul(NULL, x, x, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(tn_matmul(NULL, x, w, NULL, NULL, &made), TN_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(made);
    y = w;
    ck_assert_int_eq(tn_matmul(NULL, x, x, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT);
    tn_tensor_release(x);
    tn_tensor_release(w);
  }
}
END_TEST

/* A row that has no infinity is finite, whatever lies beside it. */
START_TEST(infinities_stay_in_their_rows) {
  for (int t = 0; t < 16; ++t) {
    product p = {.batch_a = 1, .batch_b = 1, .m = 9, .n = 33, .k = 15, .special = INFINITY};
    p.swapped_a = t >> 2 & 1, p.swapped_b = t >> 3;
    compare(types[t % 4], &p);
    p.special = NAN;
    compare(types[t % 4], &p);
  }
}
END_TEST

/* Subnormal numbers of bf16, times a power of two, are numbers: an instruction would lose them. */
START_TEST(subnormal_numbers_count) {
  const int64_t m = 9, n = 20, k = 6;
  double x[9 * 6], w[6 * 20], want[9 * 20];
  for (int i = 0; i < 9 * 6; ++i) x[i] = (i % 3) * 0x1p-130;
  for (int i = 0; i < 6 * 20; ++i) w[i] = (i % 2) * 0x1p100;
  for (int i = 0; i < 9 * 20; ++i) {
    want[i] = 0;
    for (int p = 0; p < 6; ++p) want[i] += x[i / 20 * 6 + p] * w[p * 20 + i % 20];
  }
  for (int d = 0; d < b.count; ++d)
    for (int turned = 0; turned < 2; ++turned) {
      tn_tensor *a = numbers(b.devices[d], TN_BF16, 2, SHAPE(m, k), x), *y = NULL;
      tn_tensor *c = numbers(b.devices[d], TN_BF16, 2, SHAPE(k, n), w);
      double *got;
      tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
      attrs.trans_a = attrs.trans_b = turned;
      ok(turned ? tn_matmul(NULL, c, a, NULL, &attrs, &y)
                : tn_matmul(NULL, a, c, NULL, &attrs, &y));
      got = values_of(y);
      for (int64_t i = 0; i < m * n; ++i) {
        const double should = want[turned ? i % m * n + i / m : i];
        ck_assert_msg(got[i] == should, "%s: element %d is %g, not %g", b.names[d], (int)i, got[i],
                      should);
      }
      free(got);
      tn_tensor *all[] = {a, c, y};
      for (int i = 0; i < 3; ++i) tn_tensor_release(all[i]);
    }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, extents_beside_those_of_tiles, 0, 2);
  tcase_add_loop_test(tcase, products_by_units, 0, 2);
  tcase_add_loop_test(tcase, blocks_and_shares, 0, 14);
  tcase_add_loop_test(tcase, small_products, 0, 5);
  tcase_add_loop_test(tcase, products_beside_small_ones, 0, 30);
  tcase_add_test(tcase, infinities_in_small_products);
  tcase_add_test(tcase, an_operand_is_no_result);
  tcase_add_test(tcase, infinities_stay_in_their_rows);
  tcase_add_test(tcase, subnormal_numbers_count);
}

int main(void) { return run_suite("matmul_tiles", add_tests); }
