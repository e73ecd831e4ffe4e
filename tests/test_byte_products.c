/*
 * Products of 8-bit integers to the bit: extents beside those of registers and panels, every choice
 * of signs, zero points for all or for each row and column, operands as they lie and transposed,
 * batches that share one operand, and numbers whose sums pass what 16 bits and what floats hold.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

typedef struct product {
  int64_t batch, m, n, k; /* b has no batch */
  bool signed_a, signed_b, swapped_a, swapped_b;
  int zeros; /* 0: none, 1: one for all, 2: for each row and column */
  bool most; /* all numbers at the ends of their ranges */
} product;

static double byte_at(int64_t i, bool is_signed, bool most) {
  const uint32_t u = (uint32_t)(i * 2654435761u) >> 16 & 255;
  const double value = most ? (u & 1 || u & 2 ? 255 : 0) : (double)u;
  return is_signed ? value - 128 : value;
}

static tn_tensor *bytes(tn_device *device, bool is_signed, int32_t rank, const int64_t *shape,
                        bool most, int64_t from) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= shape[d];
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  for (int64_t i = 0; i < count; ++i) values[i] = byte_at(i + from, is_signed, most);
  tn_tensor *t = numbers(device, is_signed ? TN_I8 : TN_U8, rank, shape, values);
  free(values);
  return t;
}

/* [batch, rows, cols], in memory perhaps column by column. */
static tn_tensor *matrix(tn_device *device, bool is_signed, bool swapped, bool most, int64_t batch,
                         int64_t rows, int64_t cols) {
  tn_tensor *t = bytes(device, is_signed, 3,
                       SHAPE(batch, swapped ? cols : rows, swapped ? rows : cols), most, rows);
  if (!swapped) return t;
  tn_tensor *view = NULL;
  ok(tn_tensor_permute(t, (int32_t[]){0, 2, 1}, &view));
  tn_tensor_release(t);
  return view;
}

static tn_tensor *product_on(tn_device *device, const product *p) {
  tn_tensor *x = matrix(device, p->signed_a, p->swapped_a, p->most, p->batch, p->m, p->k);
  tn_tensor *w = matrix(device, p->signed_b, p->swapped_b, p->most, 1, p->k, p->n);
  tn_tensor *zero_x = NULL, *zero_w = NULL, *y = NULL;
  if (p->zeros == 1) {
    zero_x = bytes(device, p->signed_a, 0, NULL, false, 5);
    zero_w = bytes(device, p->signed_b, 0, NULL, false, 9);
    ok(tn_matmul_integer(NULL, x, w, zero_x, zero_w, &y));
  } else if (p->zeros == 2) {
    zero_x = bytes(device, p->signed_a, 1, &p->m, false, 5);
    zero_w = bytes(device, p->signed_b, 1, &p->n, false, 9);
    ok(tn_matmul_zero_points(NULL, x, w, zero_x, zero_w, &y));
  } else {
    ok(tn_matmul_integer(NULL, x, w, NULL, NULL, &y));
  }
  tn_tensor *all[] = {x, w, zero_x, zero_w};
  for (int i = 0; i < 4; ++i) tn_tensor_release(all[i]);
  return y;
}

static void compare(const product *p) {
  char what[160];
  tn_tensor *y = product_on(b.devices[0], p);
  double *want = values_of(y);
  const int64_t count = tn_tensor_elements(y);
  tn_tensor_release(y);
  snprintf(what, sizeof what, "%d of [%d, %d] [%d, %d], signed %d %d, swapped %d %d, zeros %d",
           (int)p->batch, (int)p->m, (int)p->k, (int)p->k, (int)p->n, p->signed_a, p->signed_b,
           p->swapped_a, p->swapped_b, p->zeros);
  for (int d = 1; d < b.count; ++d)
    must_be(&b, what, d, product_on(b.devices[d], p), count, want, 0);
  free(want);
}

/* Every number of a mixed radix decides something else. */
static void sweep(product p, int turn) {
  p.signed_a = turn & 1;
  p.signed_b = turn >> 1 & 1;
  p.swapped_a = turn >> 2 & 1;
  p.swapped_b = turn >> 3 & 1;
  p.zeros = (turn >> 4) % 3;
  compare(&p);
}

START_TEST(extents_beside_those_of_tiles) {
  static const int64_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 12, 13},
                       cols[] = {0, 1, 15, 16, 17, 33, 65};
  static const int64_t depths[] = {0, 1, 2, 3, 4, 5, 31, 65};
  int turn = _i;
  for (int m = 0; m < 10; ++m)
    for (int n = 0; n < 7; ++n)
      for (int k = 0; k < 8; ++k, turn += 7)
        sweep((product){.batch = 1, .m = rows[m], .n = cols[n], .k = depths[k]}, turn % 48);
}
END_TEST

START_TEST(blocks_of_many_rows) {
  for (int i = 0; i < 48; i += 5) {
    sweep((product){.batch = 1, .m = 205, .n = 130, .k = 70}, i);
    sweep((product){.batch = 3, .m = 67, .n = 63, .k = 9}, i);
  }
}
END_TEST

/* Beside the sides of matrix units' tiles of 16 by 16 words, and of panels of 64 rows. */
START_TEST(products_by_units) {
  static const int64_t rows[] = {7, 8, 15, 16, 17, 32, 33, 48, 63, 64, 65};
  static const int64_t cols[] = {1, 16, 17, 32, 33, 49, 64, 80};
  static const int64_t depths[] = {1, 4, 63, 64, 65, 129};
  int turn = _i;
  for (int m = 0; m < 11; ++m)
    for (int n = 0; n < 8; ++n)
      for (int k = 0; k < 6; ++k, turn += 7)
        sweep((product){.batch = 1 + turn % 5 / 4, .m = rows[m], .n = cols[n], .k = depths[k]},
              turn % 48);
  sweep((product){.batch = 1, .m = 261, .n = 130, .k = 1027}, turn % 48);
}
END_TEST

/* 255 * -128 twice passes 16 bits; 5000 of 255 * 255 pass 2^24, from which on floats round. */
START_TEST(sums_that_pass_narrower_types) {
  for (int i = 0; i < 48; i += 7)
    for (int64_t m = 7; m < 9; m++)
      sweep((product){.batch = 1, .m = m, .n = 18, .k = 5001, .most = true}, i);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, extents_beside_those_of_tiles, 0, 2);
  tcase_add_loop_test(tcase, products_by_units, 0, 3);
  tcase_add_test(tcase, blocks_of_many_rows);
  tcase_add_test(tcase, sums_that_pass_narrower_types);
}

int main(void) { return run_suite("byte_products", add_tests); }
