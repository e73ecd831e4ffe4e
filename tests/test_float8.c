/*
 * The 8-bit floats f8_e4m3 and f8_e5m2: every code, and rounding from a million float32 numbers
 * and their neighbours on both sides, against the types float8_e4m3fn and float8_e5m2 of Python's
 * ml_dtypes 0.5, of whose bytes sums stand here; what each device makes of them; and what carries
 * them: copies, DLPack, text, quantised tensors, products with scales.
 */
#include "kernels/common/float8.h"
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static const tn_dtype types[] = {TN_F8_E4M3, TN_F8_E5M2};
enum { TYPES = 2, CODES = 256 };

/* --- the formats --- */

/* The sum of byte i times i + 1, as the generator took it of NumPy's arrays. */
static uint64_t weighed(uint64_t sum, uint64_t i, uint8_t byte) { return sum + (i + 1) * byte; }

static float widened(tn_dtype type, unsigned code) {
  return type == TN_F8_E4M3 ? f8_e4m3_to_f32((uint8_t)code) : f8_e5m2_to_f32((uint8_t)code);
}

static uint8_t rounded(tn_dtype type, float x, bool saturate) {
  return type == TN_F8_E4M3 ? f8_e4m3_from_f32(x, saturate) : f8_e5m2_from_f32(x, saturate);
}

static uint8_t largest(tn_dtype type) { return type == TN_F8_E4M3 ? 0x7e : 0x7b; }

START_TEST(codes_are_as_others_read_them) {
  static const uint64_t want[TYPES] = {0x2355ab8, 0x22478b0};
  for (int t = 0; t < TYPES; t++) {
    uint64_t sum = 0;
    for (unsigned code = 0; code < CODES; code++) {
      const float x = widened(types[t], code);
      const uint32_t bits = x == x ? f8_f32_bits(x) : 0x7fc00000;
      for (unsigned k = 0; k < 4; k++) sum = weighed(sum, 4 * code + k, (uint8_t)(bits >> 8 * k));
      ck_assert_uint_eq(rounded(types[t], x, false), x == x ? code : 0x7f);
      if (x - x == 0) ck_assert_uint_eq(rounded(types[t], x, true), code);
    }
    ck_assert_uint_eq(sum, want[t]);
  }
}
END_TEST

/* Float32 numbers whose last 12 bits are 0, and those beside them. */
START_TEST(numbers_round_as_others_round_them) {
  static const uint64_t want[TYPES][3] = {{0x3d2fd23a2780, 0x3d2fd01a5b80, 0x3d2fce429280},
                                          {0x56993ff6e7fe, 0x56993c202400, 0x56993c106c00}};
  static const uint32_t beside[] = {0, 1, UINT32_MAX};
  for (int t = 0; t < TYPES; t++)
    for (int k = 0; k < 3; k++) {
      uint64_t sum = 0;
      for (uint32_t i = 0; i < 1 << 20; i++) {
        const float x = f8_f32_of((i << 12) + beside[k]);
        const uint8_t code = rounded(types[t], x, false), kept = rounded(types[t], x, true);
        sum = weighed(sum, i, code);
        const bool over = x == x && (code & 0x7f) > largest(types[t]);
        ck_assert_uint_eq(kept, over ? (x < 0 ? 0x80 : 0) | largest(types[t]) : code);
      }
      ck_assert_msg(sum == want[t][k], "%s, %d: %#llx", tn_dtype_name(types[t]), k,
                    (unsigned long long)sum);
    }
}
END_TEST

/* --- casts --- */

static tn_tensor *all_codes(tn_device *device, tn_dtype type) {
  uint8_t codes[CODES];
  tn_tensor *t = NULL;
  for (unsigned i = 0; i < CODES; i++) codes[i] = (uint8_t)i;
  ok(tn_tensor_from_host(device, type, 1, SHAPE(CODES), codes, &t));
  return t;
}

static tn_tensor *cast(const tn_tensor *x, tn_dtype to, bool overflow) {
  tn_tensor *y = NULL;
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = to, .overflow = overflow};
  ok(tn_cast(NULL, x, &attrs, &y));
  return y;
}

static void must_hold(const tn_tensor *t, const uint8_t *want, size_t size, const char *what) {
  uint8_t *got = malloc(size);
  ok(tn_tensor_to_host(t, got, size));
  for (size_t i = 0; i < size; i++)
    ck_assert_msg(got[i] == want[i], "%s, %zu: %#x, not %#x", what, i, got[i], want[i]);
  free(got);
}

START_TEST(every_code_goes_through_every_wider_type) {
  static const tn_dtype wide[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++)
      for (int w = 0; w < 4; w++) {
        uint8_t want[CODES];
        tn_tensor *x = all_codes(b.devices[d], types[t]), *y = cast(x, wide[w], false);
        tn_tensor *z = cast(y, types[t], true);
        double *values = values_of(y);
        for (unsigned i = 0; i < CODES; i++) {
          const double value = (double)widened(types[t], i);
          ck_assert_msg(values[i] == value || (values[i] != values[i] && value != value),
                        "%s: %#x as %s", b.names[d], i, tn_dtype_name(wide[w]));
          want[i] = value == value ? (uint8_t)i : 0x7f;
        }
        must_hold(z, want, CODES, b.names[d]);
        free(values);
        tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
      }
}
END_TEST

/* Ties, neighbours of ties, what lies beyond the largest number, below the least one. */
static const double hard[] = {464,
                              464 + 0x1p-20,
                              463.9,
                              480,
                              -1e30,
                              INFINITY,
                              -INFINITY,
                              NAN,
                              0x1p-10,
                              0x1.8p-9,
                              0x1p-10 + 0x1p-30,
                              -0.0,
                              1.0625,
                              1.1875,
                              61440,
                              61439,
                              0x1p-17,
                              0x1p-17 + 0x1p-40,
                              -57344,
                              1.125 + 0x1p-40};
enum { HARD = sizeof hard / sizeof *hard };

static uint8_t hard_code(tn_dtype type, tn_dtype from, double x, bool overflow) {
  float f = (float)x;
  if (from == TN_F64 && (double)f != x && x == x) /* the neighbour that is odd: no tie */
    f = f8_f32_of(f8_f32_bits(f) | 1);
  return rounded(type, f, !overflow);
}

START_TEST(casts_round_and_saturate_alike) {
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++)
      for (int overflow = 0; overflow < 2; overflow++) {
        uint8_t want[2][HARD];
        float singles[HARD];
        tn_tensor *x = NULL, *f = NULL;
        for (int i = 0; i < HARD; i++) {
          singles[i] = (float)hard[i];
          want[0][i] = hard_code(types[t], TN_F32, hard[i], overflow);
          want[1][i] = hard_code(types[t], TN_F64, hard[i], overflow);
        }
        ok(tn_tensor_from_host(b.devices[d], TN_F32, 1, SHAPE(HARD), singles, &f));
        ok(tn_tensor_from_host(b.devices[d], TN_F64, 1, SHAPE(HARD), hard, &x));
        tn_tensor *y = cast(f, types[t], overflow), *z = cast(x, types[t], overflow);
        must_hold(y, want[0], HARD, b.names[d]);
        must_hold(z, want[1], HARD, b.names[d]);
        tn_tensor_release(x), tn_tensor_release(f), tn_tensor_release(y), tn_tensor_release(z);
      }
}
END_TEST

START_TEST(integers_and_bools_become_8_bit_floats) {
  const int64_t whole[] = {0, 1, -1, 17, 18, 19, 448, 500, -100000, INT64_MAX, INT64_MIN};
  enum { WHOLE = sizeof whole / sizeof *whole };
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++) {
      uint8_t want[WHOLE];
      tn_tensor *x = NULL;
      for (int i = 0; i < WHOLE; i++) want[i] = rounded(types[t], (float)whole[i], true);
      ok(tn_tensor_from_host(b.devices[d], TN_I64, 1, SHAPE(WHOLE), whole, &x));
      tn_tensor *y = cast(x, types[t], false), *truth = cast(x, TN_BOOL, false);
      tn_tensor *ones = cast(truth, types[t], false), *back = cast(y, TN_I64, false);
      must_hold(y, want, WHOLE, b.names[d]);
      for (int i = 0; i < WHOLE; i++) want[i] = rounded(types[t], i ? 1 : 0, true);
      must_hold(ones, want, WHOLE, b.names[d]);
      double *values = values_of(back);
      ck_assert(values[3] == (types[t] == TN_F8_E4M3 ? 16 : 16) && values[5] == 20);
      free(values);
      tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(truth);
      tn_tensor_release(ones), tn_tensor_release(back);
    }
}
END_TEST

/* --- what carries them --- */

START_TEST(copies_fills_and_joins_keep_the_bits) {
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++) {
      uint8_t want[2 * CODES];
      tn_tensor *x = all_codes(b.devices[d], types[t]), *y = NULL, *z = NULL;
      for (unsigned i = 0; i < 2 * CODES; i++) want[i] = (uint8_t)i;
      ok(tn_copy(NULL, x, &y));
      must_hold(y, want, CODES, b.names[d]);
      ok(tn_concat(NULL, (const tn_tensor *[]){x, y}, 2, NULL, &z));
      must_hold(z, want, sizeof want, b.names[d]);
      ok(tn_fill(NULL, y, &(tn_fill_attrs){sizeof(tn_fill_attrs), 1e9}));
      memset(want, largest(types[t]), CODES);
      must_hold(y, want, CODES, b.names[d]);
      tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
    }
}
END_TEST

START_TEST(dlpack_says_which_format_it_is) {
  static const uint8_t codes[TYPES] = {10, 12}; /* of DLPack 1.1 */
  for (int t = 0; t < TYPES; t++) {
    DLManagedTensorVersioned *given = NULL;
    tn_tensor *x = all_codes(b.devices[1], types[t]), *y = NULL;
    ok(tn_tensor_to_dlpack(x, &given));
    ck_assert_uint_eq(given->dl_tensor.dtype.code, codes[t]);
    ck_assert_uint_eq(given->dl_tensor.dtype.bits, 8);
    ok(tn_tensor_from_dlpack(b.runtime, given, &y));
    ck_assert_int_eq(tn_tensor_dtype(y), types[t]);
    tn_tensor_release(x), tn_tensor_release(y);
  }
}
END_TEST

/* Operators that compute have none of them. */
START_TEST(arithmetic_is_refused_by_name) {
  tn_tensor *x = all_codes(b.devices[1], TN_F8_E4M3), *y = NULL;
  refused(tn_add(NULL, x, x, &y), TN_ERR_INVALID_ARGUMENT, "f8_e4m3");
  tn_tensor_release(x);
}
END_TEST

START_TEST(tensors_are_quantised_to_them) {
  const double x[] = {1, -3, 1000, 0.02, 7}, scale[] = {0.5}, zero[] = {0.25};
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++) {
      tn_device *device = b.devices[d];
      uint8_t want[5];
      tn_tensor *y = NULL, *back = NULL, *from = numbers(device, TN_F32, 1, SHAPE(5), x);
      tn_tensor *s = numbers(device, TN_F32, 0, NULL, scale);
      tn_tensor *z = numbers(device, types[t], 0, NULL, zero);
      const tn_quantize_linear_attrs attrs = {
          .struct_size = sizeof attrs, .axis = -1, .dtype = types[t]};
      for (int i = 0; i < 5; i++) want[i] = rounded(types[t], (float)x[i] / 0.5f + 0.25f, true);
      ok(tn_quantize_linear(NULL, from, s, z, &attrs, &y));
      must_hold(y, want, 5, b.names[d]);
      ok(tn_dequantize_linear(NULL, y, s, z, NULL, &back));
      double *values = values_of(back);
      for (int i = 0; i < 5; i++)
        ck_assert(values[i] == (double)((widened(types[t], want[i]) - 0.25f) * 0.5f));
      free(values);
      tn_tensor_release(y), tn_tensor_release(back), tn_tensor_release(from);
      tn_tensor_release(s), tn_tensor_release(z);
    }
}
END_TEST

/* [2, 3] by [3, 2], with a scale for each row and one for all columns. */
START_TEST(products_have_scales) {
  const double a[] = {1, 2, 3, -1, 0.5, 4}, c[] = {2, 1, 0, -1, 1, 0.25}, rows[] = {0.5, 4},
               one = 2;
  const double want[] = {5, -0.25, 16, -4};
  for (int d = 0; d < b.count; d++) {
    tn_device *device = b.devices[d];
    tn_tensor *left = numbers(device, TN_F8_E4M3, 2, SHAPE(2, 3), a), *y = NULL;
    tn_tensor *right = numbers(device, TN_F8_E5M2, 2, SHAPE(3, 2), c);
    tn_tensor *scales = numbers(device, TN_F32, 1, SHAPE(2), rows);
    tn_tensor *scale = numbers(device, TN_F32, 0, NULL, &one);
    const tn_matmul_scaled_attrs attrs = {.struct_size = sizeof attrs, .dtype = TN_BF16};
    ok(tn_matmul_scaled(NULL, left, right, scales, scale, &attrs, &y));
    ck_assert_int_eq(tn_tensor_dtype(y), TN_BF16);
    double *values = values_of(y);
    for (int i = 0; i < 4; i++)
      ck_assert_msg(values[i] == want[i], "%s, %d: %g", b.names[d], i, values[i]);
    free(values);
    tn_tensor_release(left), tn_tensor_release(right), tn_tensor_release(scales);
    tn_tensor_release(scale), tn_tensor_release(y);
  }
}
END_TEST

/* --- products of every shape --- */

typedef struct scaled_case {
  int64_t m, n, k, batch_a, batch_b;
  int layout_a, layout_b; /* bit 0: rows and columns swapped in memory; 1: every second */
  int scales;             /* 0: none; 1: one each; 2: of rows and columns; 3: apart */
  tn_dtype a, b, y;
} scaled_case;

/* Whole numbers from -2 to 2 in [batch, rows, cols], however they lie. */
static tn_tensor *operand(tn_device *device, tn_dtype type, int64_t batch, int64_t rows,
                          int64_t cols, int layout, uint32_t seed) {
  const bool swapped = layout & 1;
  const int64_t apart = layout & 2 ? 2 : 1;
  const int64_t shape[] = {batch, (swapped ? cols : rows) * apart, (swapped ? rows : cols) * apart};
  tn_tensor *all = whole_numbers(device, type, 3, shape, 2, seed), *half = NULL, *part = NULL;
  tn_tensor *t = NULL;
  ok(tn_tensor_slice(all, 1, 0, shape[1], apart, &half));
  ok(tn_tensor_slice(half, 2, 0, shape[2], apart, &part));
  ok(tn_tensor_permute(part, swapped ? (int32_t[]){0, 2, 1} : (int32_t[]){0, 1, 2}, &t));
  tn_tensor_release(all), tn_tensor_release(half), tn_tensor_release(part);
  return t;
}

/* Powers of two; NULL for none. */
static tn_tensor *scale_of(tn_device *device, int scales, int64_t size) {
  double values[64];
  tn_tensor *all = NULL, *t = NULL;
  for (int i = 0; i < 64; i++) values[i] = ldexp(1, i % 5 - 3);
  if (scales == 0) return NULL;
  if (scales == 1) return numbers(device, TN_F32, 0, NULL, values);
  all = numbers(device, TN_F32, 1, SHAPE(scales == 3 ? 2 * size : size), values);
  ok(tn_tensor_slice(all, 0, 0, scales == 3 ? 2 * size : size, scales == 3 ? 2 : 1, &t));
  tn_tensor_release(all);
  return t;
}

static double scale_at(const tn_tensor *scale, const double *values, int64_t i) {
  return scale ? values[tn_tensor_elements(scale) > 1 ? i : 0] : 1;
}

static void multiply_scaled(tn_device *device, const char *name, const scaled_case *c) {
  tn_tensor *a = operand(device, c->a, c->batch_a, c->m, c->k, c->layout_a, 1), *y = NULL;
  tn_tensor *x = operand(device, c->b, c->batch_b, c->k, c->n, c->layout_b, 2);
  tn_tensor *rows = scale_of(device, c->scales, c->m), *columns = scale_of(device, c->scales, c->n);
  const tn_matmul_scaled_attrs attrs = {.struct_size = sizeof attrs, .dtype = c->y};
  ok(tn_matmul_scaled(NULL, a, x, rows, columns, &attrs, &y));
  double *left = values_of(a), *right = values_of(x), *got = values_of(y);
  double *by_row = rows ? values_of(rows) : NULL, *by_column = columns ? values_of(columns) : NULL;
  const int64_t batch = c->batch_a > c->batch_b ? c->batch_a : c->batch_b;
  ck_assert_int_eq(tn_tensor_elements(y), batch * c->m * c->n);
  for (int64_t i = 0; i < batch * c->m * c->n; i++) {
    const int64_t item = i / (c->m * c->n), row = i / c->n % c->m, column = i % c->n;
    double sum = 0;
    for (int64_t k = 0; k < c->k; k++)
      sum += left[(item % c->batch_a * c->m + row) * c->k + k] *
             right[(item % c->batch_b * c->k + k) * c->n + column];
    sum *= scale_at(rows, by_row, row) * scale_at(columns, by_column, column);
    ck_assert_msg(got[i] == sum, "%s: %d x %d x %d, %d by %d, layouts %d %d, scales %d: %g for %g",
                  name, (int)c->m, (int)c->n, (int)c->k, (int)c->batch_a, (int)c->batch_b,
                  c->layout_a, c->layout_b, c->scales, got[i], sum);
  }
  free(left), free(right), free(got), free(by_row), free(by_column);
  tn_tensor_release(a), tn_tensor_release(x), tn_tensor_release(y);
  tn_tensor_release(rows), tn_tensor_release(columns);
}

START_TEST(products_have_every_shape_and_layout) {
  static const int64_t sizes[] = {0, 1, 2, 3, 17}, batches[][2] = {{1, 1}, {3, 1}, {1, 2}, {2, 2}};
  static const tn_dtype to[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
  unsigned pick = 1;
  for (int i = 0; i < 125; i++)
    for (int layouts = 0; layouts < 16; layouts += 5 + (i + layouts) % 3) {
      pick = pick * 1664525u + 1013904223u;
      const unsigned r = pick >> 16;
      const scaled_case c = {.m = sizes[i % 5],
                             .n = sizes[i / 5 % 5],
                             .k = sizes[i / 25],
                             .batch_a = batches[r % 4][0],
                             .batch_b = batches[r % 4][1],
                             .layout_a = layouts & 3,
                             .layout_b = layouts >> 2,
                             .scales = (int)(r >> 2 & 3),
                             .a = types[r >> 4 & 1],
                             .b = types[r >> 5 & 1],
                             .y = to[r >> 6 & 3]};
      for (int d = 0; d < b.count; d++) multiply_scaled(b.devices[d], b.names[d], &c);
    }
}
END_TEST

/* Devices may keep what they prepared for products of one shape: not the scales. */
START_TEST(scales_are_those_of_the_call) {
  scaled_case c = {.m = 32, .n = 16, .k = 48, .batch_a = 1, .batch_b = 1, .y = TN_F32};
  for (int d = 0; d < b.count; d++)
    for (int t = 0; t < TYPES; t++)
      for (int i = 0; i < 9; i++) {
        c.a = types[t], c.b = TN_F8_E4M3;
        c.layout_b = 1; /* as matrix units want them */
        c.scales = (int[]){1, 2, 0, 2, 1, 3, 1, 0, 1}[i];
        multiply_scaled(b.devices[d], b.names[d], &c);
      }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, codes_are_as_others_read_them);
  tcase_add_test(tcase, numbers_round_as_others_round_them);
  tcase_add_test(tcase, every_code_goes_through_every_wider_type);
  tcase_add_test(tcase, casts_round_and_saturate_alike);
  tcase_add_test(tcase, integers_and_bools_become_8_bit_floats);
  tcase_add_test(tcase, copies_fills_and_joins_keep_the_bits);
  tcase_add_test(tcase, dlpack_says_which_format_it_is);
  tcase_add_test(tcase, arithmetic_is_refused_by_name);
  tcase_add_test(tcase, tensors_are_quantised_to_them);
  tcase_add_test(tcase, products_have_scales);
  tcase_add_test(tcase, products_have_every_shape_and_layout);
  tcase_add_test(tcase, scales_are_those_of_the_call);
}

int main(void) { return run_suite("float8", add_tests); }
