/* Random numbers: the generator's published answers, and each operator's formula. */
#include "harness.h"
#include "kernels/common/philox.h"

typedef struct answer {
  uint32_t counter[4], key[2], words[4];
} answer;

/* From Random123's kat_vectors. */
static const answer answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers) {
  const answer *a = &answers[_i];
  philox_words c = {{a->counter[0], a->counter[1], a->counter[2], a->counter[3]}};
  philox_words got = philox4x32_10(c, a->key[0], a->key[1]);
  for (int i = 0; i < 4; ++i) ck_assert_uint_eq(got.w[i], a->words[i]);
}
END_TEST

START_TEST(seed_and_counter_split_into_words) {
  philox_words c = {{0x89abcdef, 0x01234567, 0, 0}};
  philox_words wanted = philox4x32_10(c, 0x76543210, 0xfedcba98);
  philox_words got = philox_at(0xfedcba9876543210u, 0x0123456789abcdefu);
  for (int i = 0; i < 4; ++i) ck_assert_uint_eq(got.w[i], wanted.w[i]);
}
END_TEST

enum { SEED = 42 };
static const uint64_t offset = 0xffffffffu; /* so that the counter carries */

static uint32_t word(uint64_t counter, uint64_t lane) {
  return philox_at(SEED, offset + counter).w[lane];
}

static double wide(uint64_t counter, uint64_t lane) {
  uint64_t low = word(counter, lane), high = word(counter, lane + 1);
  return (double)((high << 32 | low) >> 11);
}

/* Rounds to a type as set() does. */
static double rounded(tn_dtype t, double value) { return get(with(t, &value, SCALAR), 0); }

START_TEST(uniform) {
  tn_uniform_attrs attrs = {sizeof attrs, -2, 3, SEED, offset};
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *y = make(t, DENSE, SHAPE(5, 7));
    call c = {reference_uniform, &attrs, 0, 1, {0}, {y}};
    check_layouts(&c);
    for (uint64_t i = 0; i < 35; ++i) {
      float narrow = fmaf(5, (float)(word(i / 4, i % 4) >> 8) * 0x1p-24f, -2);
      double wanted = t == TN_F64 ? -2 + 5 * (wide(i / 2, 2 * (i % 2)) * 0x1p-53) : (double)narrow;
      EXPECT(get(y, (int64_t)i) == rounded(t, wanted));
    }
  }
}
END_TEST

START_TEST(normal) {
  tn_normal_attrs attrs = {sizeof attrs, 10, 0.5, SEED, offset};
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *y = make(t, DENSE, SHAPE(3, 11));
    call c = {reference_normal, &attrs, 0, 1, {0}, {y}};
    check_layouts(&c);
    for (uint64_t i = 0; i < 33; ++i) {
      uint64_t lane = 2 * (i % 4 / 2);
      double u1 = ((word(i / 4, lane) >> 8) + 1) * 0x1p-24,
             u2 = (word(i / 4, lane + 1) >> 8) * 0x1p-24;
      if (t == TN_F64) u1 = (wide(i / 2, 0) + 1) * 0x1p-53, u2 = wide(i / 2, 2) * 0x1p-53;
      double z = sqrt(-2 * log(u1)) * (i % 2 ? sin(2 * M_PI * u2) : cos(2 * M_PI * u2));
      check_near(get(y, (int64_t)i), rounded(t, 10 + 0.5 * z), t == TN_F64 ? 1e-15 : 1e-7);
    }
  }
}
END_TEST

START_TEST(moments) {
  enum { COUNT = 200001 };
  tn_normal_attrs normal_attrs = TN_NORMAL_DEFAULTS;
  tn_uniform_attrs uniform_attrs = TN_UNIFORM_DEFAULTS;
  for (tn_dtype t = TN_F32; t <= TN_F64; ++t) {
    tensor *z = make(t, DENSE, SHAPE(COUNT)), *u = make(t, DENSE, SHAPE(COUNT));
    call a = {reference_normal, &normal_attrs, 0, 1, {0}, {z}};
    call b = {reference_uniform, &uniform_attrs, 0, 1, {0}, {u}};
    must(&a), must(&b);
    double sum[4] = {0};
    for (int i = 0; i < COUNT; ++i) {
      double x = get(z, i), y = get(u, i);
      EXPECT(y >= 0 && y < 1 && isfinite(x));
      sum[0] += x, sum[1] += x * x, sum[2] += y, sum[3] += y * y;
    }
    check_near(sum[0] / COUNT, 0, 0.01), check_near(sum[1] / COUNT, 1, 0.02);
    check_near(sum[2] / COUNT, 0.5, 0.005), check_near(sum[3] / COUNT, 1. / 3, 0.005);
  }
}
END_TEST

START_TEST(dropout) {
  tn_dropout_attrs attrs = {sizeof attrs, 0.3, SEED, offset};
  tn_dropout_grad_attrs grad = {sizeof grad, 0.3};
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *x = random_tensor(t, 1, -1, 1, SHAPE(9, 5)), *y = make_like(x, t, DENSE);
    tensor *mask = make_like(x, TN_BOOL, DENSE), *dx = make_like(x, t, DENSE);
    for (int i = 0; i < 45; i += 2) set(x, i, i % 4 ? NAN : INFINITY);
    call c = {reference_dropout, &attrs, 1, 2, {x}, {y, mask}};
    check_layouts(&c);
    double scale = t == TN_F64 ? 1 / (1 - 0.3) : (double)(float)(1 / (1 - 0.3));
    for (uint64_t i = 0; i < 45; ++i) {
      bool kept = (word(i / 4, i % 4) >> 8) * 0x1p-24 >= 0.3;
      ck_assert_int_eq(get_i64(mask, (int64_t)i), kept);
      check_near(get(y, (int64_t)i), kept ? rounded(t, get(x, (int64_t)i) * scale) : 0, 0);
      if (!kept) EXPECT(!signbit(get(y, (int64_t)i)));
    }
    call g = {reference_dropout_grad, &grad, 2, 1, {x, mask}, {dx}};
    check_layouts(&g);
    for (int i = 0; i < 45; ++i) check_near(get(dx, i), get(y, i), 0);
  }
}
END_TEST

/* Kept is u >= p, equality included. */
START_TEST(dropout_at_the_bound) {
  tn_dropout_attrs attrs = {sizeof attrs, (word(0, 1) >> 8) * 0x1p-24, SEED, offset};
  tensor *x = with(TN_F64, VALUES(1, 1), SHAPE(2)), *y = make_like(x, TN_F64, DENSE);
  tensor *mask = make_like(x, TN_BOOL, DENSE);
  call c = {reference_dropout, &attrs, 1, 2, {x}, {y, mask}};
  must(&c);
  ck_assert_int_eq(get_i64(mask, 1), 1);
}
END_TEST

START_TEST(dropout_of_nothing) {
  tn_dropout_attrs attrs = {sizeof attrs, 0, SEED, 0};
  tensor *x = random_tensor(TN_F32, 1, -1, 1, SHAPE(1000)), *y = make_like(x, TN_F32, DENSE);
  tensor *mask = make_like(x, TN_BOOL, DENSE);
  call c = {reference_dropout, &attrs, 1, 2, {x}, {y, mask}};
  must(&c);
  check_same(y, x);
  for (int i = 0; i < 1000; ++i) ck_assert_int_eq(get_i64(mask, i), 1);
}
END_TEST

Suite *random_suite(void) {
  Suite *s = suite_create("random numbers");
  TCase *c = add_case(s, "philox");
  tcase_add_loop_test(c, known_answers, 0, 3);
  tcase_add_test(c, seed_and_counter_split_into_words);
  c = add_case(s, "operators");
  tcase_add_test(c, uniform);
  tcase_add_test(c, normal);
  tcase_add_test(c, moments);
  tcase_add_test(c, dropout);
  tcase_add_test(c, dropout_at_the_bound);
  tcase_add_test(c, dropout_of_nothing);
  return s;
}
