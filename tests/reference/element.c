/* Elements: the 16-bit floats over all their patterns, and the conversions of tn_cast. */
#include <string.h>

#include "harness.h"
#include "kernels/common/half.h"

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

START_TEST(every_f16_goes_round) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    float wide = f16_to_f32((uint16_t)h);
    bool nan = (h & 0x7fff) > 0x7c00;
    uint16_t quiet = (uint16_t)(nan ? h | 0x0200 : h);
    EXPECT(bits_of(wide) >> 31 == h >> 15);
    if (nan)
      EXPECT((bits_of(wide) & 0x7fc00000) == 0x7fc00000);
    else
      EXPECT(wide == (float)naive_f16((uint16_t)h));
    EXPECT(f16_from_f32(wide) == quiet);
    EXPECT(f16_from_f64((double)wide) == quiet);
  }
}
END_TEST

START_TEST(every_bf16_goes_round) {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    float wide = bf16_to_f32((uint16_t)b);
    bool nan = (b & 0x7fff) > 0x7f80;
    uint16_t quiet = (uint16_t)(nan ? b | 0x0040 : b);
    EXPECT(bits_of(wide) == (uint32_t)quiet << 16);
    if (!nan) EXPECT(wide == (float)naive_bf16((uint16_t)b));
    EXPECT(bf16_from_f32(wide) == quiet);
    EXPECT(bf16_from_f64((double)wide) == quiet);
  }
}
END_TEST

typedef struct format {
  uint16_t infinity;
  double (*widen)(uint16_t);
  uint16_t (*from_f32)(float), (*from_f64)(double);
} format;

static uint16_t half_f32(float x) { return f16_from_f32(x); }
static uint16_t half_f64(double x) { return f16_from_f64(x); }
static uint16_t bhalf_f32(float x) { return bf16_from_f32(x); }
static uint16_t bhalf_f64(double x) { return bf16_from_f64(x); }

static const format formats[] = {{0x7c00, naive_f16, half_f32, half_f64},
                                 {0x7f80, naive_bf16, bhalf_f32, bhalf_f64}};

static void check_rounds(const format *f, double x, uint16_t wanted) {
  if ((double)(float)x == x) {
    EXPECT(f->from_f32((float)x) == wanted);
    EXPECT(f->from_f32(-(float)x) == (wanted | 0x8000));
  }
  EXPECT(f->from_f64(x) == wanted);
  EXPECT(f->from_f64(-x) == (wanted | 0x8000));
}

/* Between neighbours everything goes to the nearer one and the middle to the even one;
 * infinity counts as the next number. A step beside the middle in double is the case
 * that rounding twice gets wrong. */
START_TEST(halves_round_to_nearest_even) {
  const format *f = &formats[_i];
  for (uint16_t low = 0; low < f->infinity; ++low) {
    uint16_t high = (uint16_t)(low + 1);
    double below = f->widen(low), above = f->widen(high);
    if (high == f->infinity) above = below + (below - f->widen((uint16_t)(low - 1)));
    double middle = below + (above - below) / 2;
    check_rounds(f, middle, low & 1 ? high : low);
    check_rounds(f, nextafter(middle, 0), low);
    check_rounds(f, nextafter(middle, INFINITY), high);
    check_rounds(f, (double)nextafterf((float)middle, 0), low);
    check_rounds(f, (double)nextafterf((float)middle, INFINITY), high);
  }
  check_rounds(f, 1e300, f->infinity);
  check_rounds(f, 1e-300, 0);
}
END_TEST

static tensor *cast(tensor *x, tn_dtype to) {
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = to;
  tensor *y = make_like(x, to, DENSE);
  call c = {reference_cast, &attrs, 1, 1, {x}, {y}};
  check_layouts(&c);
  return y;
}

START_TEST(floats_become_integers_towards_zero_and_saturate) {
  static const tn_dtype types[] = {TN_U8, TN_I8, TN_I16, TN_I32, TN_I64};
  static const int64_t least[] = {0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN};
  static const int64_t most[] = {UINT8_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};
  const double x[] = {
      0,    0.9,  -0.9,  1.5,      -1.5,      100.99, -100.99, NAN,
      -0.0, 1e30, -1e30, INFINITY, -INFINITY, 0x1p63, -0x1p63, 0x1.fffffffffffffp62};
  const int64_t plain[] = {0, 0, 0, 1, -1, 100, -100, 0, 0};
  for (int t = 0; t < 5; ++t) {
    tensor *y = cast(with(TN_F64, x, SHAPE(16)), types[t]);
    for (int i = 0; i < 9; ++i)
      ck_assert_int_eq(get_i64(y, i), plain[i] < least[t] ? least[t] : plain[i]);
    for (int i = 9; i < 15; ++i) ck_assert_int_eq(get_i64(y, i), x[i] > 0 ? most[t] : least[t]);
    ck_assert_int_eq(get_i64(y, 15), types[t] == TN_I64 ? 0x7ffffffffffffc00 : most[t]);
  }
}
END_TEST

START_TEST(integers_wrap) {
  tensor *x = make(TN_I64, DENSE, SHAPE(5));
  static const int64_t values[] = {300, -1, 0x1234567890, INT64_MIN, INT64_MAX};
  for (int i = 0; i < 5; ++i) set_i64(x, i, values[i]);
  tensor *u8 = cast(x, TN_U8), *i8 = cast(x, TN_I8), *i32 = cast(x, TN_I32), *b = cast(x, TN_BOOL);
  static const int64_t as_u8[] = {44, 255, 0x90, 0, 255}, as_i8[] = {44, -1, -112, 0, -1};
  static const int64_t as_i32[] = {300, -1, 0x34567890, 0, -1};
  for (int i = 0; i < 5; ++i) {
    ck_assert_int_eq(get_i64(u8, i), as_u8[i]);
    ck_assert_int_eq(get_i64(i8, i), as_i8[i]);
    ck_assert_int_eq(get_i64(i32, i), as_i32[i]);
    ck_assert_int_eq(get_i64(b, i), 1);
  }
}
END_TEST

/* 2^24 + 1 plus a bit far below: to double it would first become the tie. */
START_TEST(integers_round_once) {
  tensor *x = make(TN_I64, DENSE, SHAPE(6));
  set_i64(x, 0, ((int64_t)0x1000001 << 38) + 1);
  set_i64(x, 1, -(((int64_t)0x1000001 << 38) + 1));
  set_i64(x, 2, (int64_t)0x1000001 << 38);
  set_i64(x, 3, ((int64_t)0x101 << 54) + 1);
  set_i64(x, 4, INT64_MIN);
  set_i64(x, 5, ((int64_t)0x101 << 46) + 1);
  tensor *f32 = cast(x, TN_F32), *bf16 = cast(x, TN_BF16), *f16 = cast(x, TN_F16);
  ck_assert(get(f32, 0) == (double)0x1000002 * 0x1p38);
  ck_assert(get(f32, 1) == (double)-0x1000002 * 0x1p38);
  ck_assert(get(f32, 2) == (double)0x1000000 * 0x1p38);
  ck_assert(get(bf16, 3) == (double)0x102 * 0x1p54);
  ck_assert(get(bf16, 5) == (double)0x102 * 0x1p46);
  ck_assert(get(bf16, 4) == -0x1p63 && get(f32, 4) == -0x1p63);
  ck_assert(get(f16, 0) == INFINITY && get(f16, 1) == -INFINITY);
}
END_TEST

START_TEST(bools) {
  const double x[] = {0, -0.0, 1, 0.25, NAN, -INFINITY, 5e-324};
  tensor *b = cast(with(TN_F64, x, SHAPE(7)), TN_BOOL);
  static const double wanted[] = {0, 0, 1, 1, 1, 1, 1};
  check_values(b, wanted, 0);
  for (tn_dtype t = TN_BOOL; t <= TN_F64; ++t) check_values(cast(b, t), wanted, 0);
}
END_TEST

/* Every pair of types, on numbers that all of them hold. */
START_TEST(every_pair_of_types) {
  static const double x[] = {0, 1, 2, 3, 64, 100, 127};
  for (tn_dtype from = TN_U8; from <= TN_F64; ++from)
    for (tn_dtype to = TN_U8; to <= TN_F64; ++to)
      check_values(cast(with(from, x, SHAPE(7, 1)), to), x, 0);
}
END_TEST

START_TEST(copies_keep_every_bit) {
  tensor *x = make(TN_F32, DENSE, SHAPE(2, 3)), *y = make(TN_F32, DENSE, SHAPE(2, 3));
  const uint32_t bits[] = {0x7f800001, 0xffc12345, 0x80000000, 1, 0x7f800000, 0x3f800000};
  memcpy(x->memory, bits, sizeof bits);
  call c = {reference_copy, NULL, 1, 1, {x}, {y}};
  check_layouts(&c);
  check_same(y, x);
  for (tn_dtype t = TN_BOOL; t <= TN_F64; ++t) {
    tensor *a = random_tensor(t, t, 0, 2, SHAPE(3, 1, 5, 2)), *b = make_like(a, t, SPREAD);
    call each = {reference_copy, NULL, 1, 1, {a}, {b}};
    must(&each);
    check_same(b, a);
  }
}
END_TEST

START_TEST(fills) {
  tn_fill_attrs attrs = TN_FILL_DEFAULTS;
  static const double value[] = {-1.5, 300, NAN}, u8[] = {0, 255, 0}, b[] = {1, 1, 1};
  for (int v = 0; v < 3; ++v) {
    attrs.value = value[v];
    for (tn_dtype t = TN_BOOL; t <= TN_F64; ++t) {
      tensor *y = make(t, DENSE, SHAPE(3, 5));
      call c = {reference_fill, &attrs, 0, 1, {0}, {y}};
      check_layouts(&c);
      double wanted = t == TN_BOOL ? b[v] : t == TN_U8 ? u8[v] : value[v];
      if (t == TN_I8) wanted = (double[]){-1, 127, 0}[v];
      if (t >= TN_I16 && t <= TN_I64) wanted = (double[]){-1, 300, 0}[v];
      for (int i = 0; i < 15; ++i) check_near(get(y, i), wanted, 0);
    }
  }
}
END_TEST

Suite *element_suite(void) {
  Suite *s = suite_create("elements");
  TCase *c = add_case(s, "halves");
  tcase_add_test(c, every_f16_goes_round);
  tcase_add_test(c, every_bf16_goes_round);
  tcase_add_loop_test(c, halves_round_to_nearest_even, 0, 2);
  c = add_case(s, "moves");
  tcase_add_test(c, floats_become_integers_towards_zero_and_saturate);
  tcase_add_test(c, integers_wrap);
  tcase_add_test(c, integers_round_once);
  tcase_add_test(c, bools);
  tcase_add_test(c, every_pair_of_types);
  tcase_add_test(c, copies_keep_every_bit);
  tcase_add_test(c, fills);
  return s;
}
