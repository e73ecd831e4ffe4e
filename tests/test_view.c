/* Views: shapes, strides and contents against indices computed by hand. */
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;
static void setup(void) { rt = open_runtime(NULL), dev = tn_runtime_device(rt); }
static void teardown(void) { tn_runtime_close(rt); }

/* [2, 3, 4] counting from 1. */
static tn_tensor *cube(void) {
  tn_tensor *flat = counting(dev, 24), *t = NULL;
  ok(tn_tensor_reshape(flat, 3, SHAPE(2, 3, 4), &t));
  tn_tensor_release(flat);
  return t;
}

static void expect(const tn_tensor *t, int count, const float *values) {
  float got[64];
  ck_assert_int_eq(tn_tensor_elements(t), count);
  ok(tn_tensor_to_host(t, got, (size_t)count * sizeof *got));
  for (int i = 0; i < count; ++i)
    ck_assert_msg(got[i] == values[i], "element %d is %g, not %g", i, got[i], values[i]);
}
#define EXPECT(t, ...)                                                                             \
  expect(t, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

START_TEST(permute_moves_axes) {
  tn_tensor *x = cube(), *v = NULL;
  ok(tn_tensor_permute(x, (int32_t[]){2, 0, 1}, &v));
  ck_assert_int_eq(tn_tensor_shape(v)[0], 4);
  ck_assert_int_eq(tn_tensor_strides(v)[0], 1);
  ck_assert(!tn_tensor_is_contiguous(v));
  EXPECT(v, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23, 4, 8, 12, 16, 20, 24);
  refused(tn_tensor_permute(x, (int32_t[]){0, 0, 1}, &v), TN_ERR_INVALID_ARGUMENT, "permutation");
  refused(tn_tensor_permute(x, (int32_t[]){0, 3, 1}, &v), TN_ERR_INVALID_ARGUMENT, "permutation");
  refused(tn_tensor_permute(x, NULL, &v), TN_ERR_INVALID_ARGUMENT, "permutation");
  tn_tensor_release(v);
  tn_tensor_release(x);
}
END_TEST

START_TEST(slice_takes_every_step) {
  tn_tensor *x = cube(), *v = NULL, *w = NULL;
  ok(tn_tensor_slice(x, -1, 1, 4, 2, &v));
  EXPECT(v, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24);
  ok(tn_tensor_slice(v, 0, -1, 2, 1, &w));
  EXPECT(w, 14, 16, 18, 20, 22, 24);
  tn_tensor *none = NULL;
  ok(tn_tensor_slice(x, 1, 3, 3, 1, &none));
  ck_assert_int_eq(tn_tensor_elements(none), 0);
  ck_assert_ptr_null(tn_tensor_data(none));
  refused(tn_tensor_slice(x, 3, 0, 1, 1, &w), TN_ERR_INVALID_ARGUMENT, "axis 3");
  refused(tn_tensor_slice(x, 0, 0, 3, 1, &w), TN_ERR_INVALID_ARGUMENT, "axis of 2");
  refused(tn_tensor_slice(x, 0, 0, 2, 0, &w), TN_ERR_INVALID_ARGUMENT, "by 0");
  refused(tn_tensor_slice(x, 0, INT64_MIN, INT64_MAX, 1, &w), TN_ERR_INVALID_ARGUMENT, "axis");
  tn_tensor_release(none);
  tn_tensor_release(w);
  tn_tensor_release(v);
  tn_tensor_release(x);
}
END_TEST

START_TEST(expand_repeats_without_memory) {
  tn_tensor *x = counting(dev, 3), *col = NULL, *v = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(3, 1), &col));
  ok(tn_tensor_expand(col, 3, SHAPE(2, 3, 2), &v));
  EXPECT(v, 1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3);
  ck_assert_int_eq(tn_tensor_strides(v)[0], 0);
  tn_tensor *w = NULL;
  refused(tn_tensor_expand(col, 1, SHAPE(3), &w), TN_ERR_INVALID_ARGUMENT, "cannot become");
  refused(tn_tensor_expand(col, 2, SHAPE(2, 1), &w), TN_ERR_INVALID_ARGUMENT, "cannot become");
  refused(tn_tensor_expand(col, 2, SHAPE(3, -1), &w), TN_ERR_INVALID_ARGUMENT, "cannot become");
  refused(tn_tensor_expand(col, 8, SHAPE(1 << 30, 1 << 30, 1 << 30, 1, 1, 1, 3, 1), &w),
          TN_ERR_INVALID_ARGUMENT, "cannot become");
  refused(tn_tensor_expand(NULL, 0, NULL, &w), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(v);
  tn_tensor_release(col);
  tn_tensor_release(x);
}
END_TEST

START_TEST(reshape_infers_and_refuses) {
  tn_tensor *x = cube(), *v = NULL, *p = NULL, *w = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(-1, 6), &v));
  ck_assert_int_eq(tn_tensor_shape(v)[0], 4);
  refused(tn_tensor_reshape(x, 2, SHAPE(-1, -1), &w), TN_ERR_INVALID_ARGUMENT, "elements");
  refused(tn_tensor_reshape(x, 2, SHAPE(5, 5), &w), TN_ERR_INVALID_ARGUMENT, "elements");
  refused(tn_tensor_reshape(x, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 24), &w), TN_ERR_INVALID_ARGUMENT,
          "rank");
  ok(tn_tensor_permute(x, (int32_t[]){1, 2, 0}, &p)); /* [3, 4, 2], 3 and 4 still one run */
  ok(tn_tensor_reshape(p, 2, SHAPE(12, 2), &w));
  EXPECT(w, 1, 13, 2, 14, 3, 15, 4, 16, 5, 17, 6, 18, 7, 19, 8, 20, 9, 21, 10, 22, 11, 23, 12, 24);
  tn_tensor *q = NULL;
  refused(tn_tensor_reshape(p, 1, SHAPE(24), &q), TN_ERR_INVALID_ARGUMENT, "tn_tensor_contiguous");
  ok(tn_tensor_contiguous(NULL, p, &q));
  tn_tensor *flat = NULL;
  ok(tn_tensor_reshape(q, 1, SHAPE(24), &flat));
  tn_tensor_release(flat);
  tn_tensor_release(q);
  tn_tensor_release(w);
  tn_tensor_release(p);
  tn_tensor_release(v);
  tn_tensor_release(x);
}
END_TEST

/* Every reshape that view arithmetic allows must agree with the contiguous copy. */
START_TEST(reshape_agrees_with_a_copy) {
  static const int32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                      {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const int64_t shapes[][4] = {{24, 1, 1, 1}, {2, 12, 1, 1}, {12, 2, 1, 1}, {6, 4, 1, 1},
                                      {1, 3, 8, 1},  {2, 2, 6, 1},  {3, 1, 2, 4},  {4, 3, 2, 1}};
  tn_tensor *x = cube();
  for (int o = 0; o < 6; ++o)
    for (int s = 0; s < 8; ++s) {
      tn_tensor *p = NULL, *c = NULL, *v = NULL, *w = NULL;
      ok(tn_tensor_permute(x, orders[o], &p));
      ok(tn_tensor_contiguous(NULL, p, &c));
      if (!tn_tensor_reshape(p, 4, shapes[s], &v)) {
        float a[24], b[24];
        ok(tn_tensor_reshape(c, 4, shapes[s], &w));
        ok(tn_tensor_to_host(v, a, sizeof a));
        ok(tn_tensor_to_host(w, b, sizeof b));
        ck_assert_mem_eq(a, b, sizeof a);
      }
      tn_tensor_release(w);
      tn_tensor_release(v);
      tn_tensor_release(c);
      tn_tensor_release(p);
    }
  tn_tensor_release(x);
}
END_TEST

START_TEST(views_keep_memory_alive) {
  tn_tensor *x = cube(), *v = NULL, *w = NULL;
  ok(tn_tensor_slice(x, 0, 1, 2, 1, &v));
  tn_tensor_release(x);
  ok(tn_tensor_slice(v, 2, 0, 1, 1, &w));
  tn_tensor_release(v);
  tn_tensor *other = cube(); /* would reuse the memory had it been freed */
  EXPECT(w, 13, 17, 21);
  tn_tensor_release(other);
  tn_tensor_release(w);
}
END_TEST

START_TEST(split_makes_parts_of_an_axis) {
  tn_tensor *x = cube(), *v[4] = {NULL};
  ok(tn_tensor_split(x, -1, 2, NULL, v));
  EXPECT(v[0], 1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22);
  EXPECT(v[1], 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23, 24);
  tn_tensor_release(v[0]);
  tn_tensor_release(v[1]);
  ok(tn_tensor_split(x, 1, 3, SHAPE(1, 0, 2), v));
  EXPECT(v[0], 1, 2, 3, 4, 13, 14, 15, 16);
  ck_assert_int_eq(tn_tensor_elements(v[1]), 0);
  ck_assert_int_eq(tn_tensor_shape(v[2])[1], 2);
  for (int i = 0; i < 3; ++i) tn_tensor_release(v[i]);
  refused(tn_tensor_split(x, 1, 2, NULL, v), TN_ERR_INVALID_ARGUMENT, "2 equal parts");
  refused(tn_tensor_split(x, 1, 2, SHAPE(1, 1), v), TN_ERR_INVALID_ARGUMENT, "axis of 3");
  refused(tn_tensor_split(x, 1, 2, SHAPE(4, -1), v), TN_ERR_INVALID_ARGUMENT, "axis of 3");
  refused(tn_tensor_split(x, 3, 1, NULL, v), TN_ERR_INVALID_ARGUMENT, "axis 3");
  refused(tn_tensor_split(x, 0, 0, NULL, v), TN_ERR_INVALID_ARGUMENT, "0 equal parts");
  tn_tensor_release(x);
}
END_TEST

/* --- absurd numbers --- */

static uint64_t state = 1;
static int64_t absurd(void) { /* xorshift64* (Vigna 2016) picks among the ends of int64 */
  static const int64_t ends[] = {INT64_MIN,
                                 INT64_MIN + 1,
                                 INT32_MIN,
                                 -5,
                                 -3,
                                 -2,
                                 -1,
                                 0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 5,
                                 24,
                                 INT32_MAX,
                                 (int64_t)1 << 53,
                                 (int64_t)1 << 61,
                                 INT64_MAX / 2,
                                 INT64_MAX - 1,
                                 INT64_MAX};
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return ends[(state * 0x2545f4914f6cdd1du >> 33) % (sizeof ends / sizeof *ends)];
}

static tn_status absurd_view(tn_tensor *x, int kind, tn_tensor **v) {
  int64_t shape[TN_MAX_RANK], first = absurd(), last = absurd();
  int32_t axes[TN_MAX_RANK];
  const int32_t rank = (int32_t)((uint64_t)absurd() % (TN_MAX_RANK + 3)) - 1;
  for (int i = 0; i < TN_MAX_RANK; i++) shape[i] = absurd(), axes[i] = (int32_t)absurd();
  switch (kind % 4) {
  case 0:
    return tn_tensor_slice(x, axes[0], first, last, absurd(), v);
  case 1:
    return tn_tensor_reshape(x, rank, shape, v);
  case 2:
    return tn_tensor_expand(x, rank, shape, v);
  default:
    return tn_tensor_permute(x, axes, v);
  }
}

/* Of whole tensors, of views and of empty ones: a status, and nothing made where it fails. What
 * is made can be read where it is small. */
START_TEST(absurd_views_are_made_or_refused) {
  static float got[4096];
  tn_tensor *from[3] = {cube(), NULL, NULL};
  ok(tn_tensor_permute(from[0], (int32_t[]){2, 0, 1}, &from[1]));
  ok(tn_tensor_slice(from[0], 1, 1, 1, 1, &from[2]));
  int made = 0;
  for (int i = 0; i < 40000; i++) {
    tn_tensor *v = NULL, *w = NULL;
    const tn_status status = absurd_view(from[i % 3], i / 3, &v);
    ck_assert((status == TN_OK) == (v != NULL));
    if (status != TN_OK) ck_assert(*tn_last_error());
    if (v && tn_tensor_bytes(v) <= sizeof got) ok(tn_tensor_to_host(v, got, tn_tensor_bytes(v)));
    if (v && absurd_view(v, i, &w) == TN_OK) tn_tensor_release(w);
    made += v != NULL;
    tn_tensor_release(v);
  }
  ck_assert_int_gt(made, 200);
  for (int i = 0; i < 3; i++) tn_tensor_release(from[i]);
}
END_TEST

START_TEST(select_drops_an_axis) {
  tn_tensor *x = cube(), *v = NULL, *w = NULL, *one = NULL;
  ok(tn_tensor_select(x, 0, 1, &v));
  ck_assert_int_eq(tn_tensor_rank(v), 2);
  EXPECT(v, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24);
  ok(tn_tensor_select(v, -1, -2, &w));
  EXPECT(w, 15, 19, 23);
  ck_assert_int_eq(tn_tensor_strides(w)[0], 4);
  ok(tn_tensor_select(w, 0, 2, &one));
  ck_assert_int_eq(tn_tensor_rank(one), 0);
  EXPECT(one, 23);
  tn_tensor *none = NULL;
  refused(tn_tensor_select(one, 0, 0, &none), TN_ERR_INVALID_ARGUMENT,
          "axis 0 of a tensor of rank 0");
  refused(tn_tensor_select(x, 3, 0, &none), TN_ERR_INVALID_ARGUMENT, "axis 3");
  refused(tn_tensor_select(x, -4, 0, &none), TN_ERR_INVALID_ARGUMENT, "axis -4");
  refused(tn_tensor_select(x, 1, 3, &none), TN_ERR_INVALID_ARGUMENT, "element 3 of an axis of 3");
  refused(tn_tensor_select(x, 1, -4, &none), TN_ERR_INVALID_ARGUMENT, "element -4");
  refused(tn_tensor_select(x, 1, INT64_MIN, &none), TN_ERR_INVALID_ARGUMENT, "element");
  refused(tn_tensor_select(NULL, 0, 0, &none), TN_ERR_INVALID_ARGUMENT, "tn_tensor_select");
  refused(tn_tensor_select(x, 0, 0, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor *empty = shaped(dev, TN_F32, 2, SHAPE(3, 0));
  ok(tn_tensor_select(empty, 0, 2, &none));
  ck_assert_int_eq(tn_tensor_elements(none), 0);
  tn_tensor_release(none);
  refused(tn_tensor_select(empty, 1, 0, &none), TN_ERR_INVALID_ARGUMENT, "axis of 0");
  tn_tensor_release(x), tn_tensor_release(v), tn_tensor_release(w);
  tn_tensor_release(one), tn_tensor_release(empty);
}
END_TEST

START_TEST(squeeze_and_unsqueeze_are_inverse) {
  tn_tensor *x = cube(), *p = NULL, *v = NULL, *w = NULL;
  for (int32_t axis = -4; axis < 4; ++axis) {
    ok(tn_tensor_unsqueeze(x, axis, &v));
    ck_assert_int_eq(tn_tensor_rank(v), 4);
    ck_assert_int_eq(tn_tensor_shape(v)[axis < 0 ? axis + 4 : axis], 1);
    ck_assert(tn_tensor_is_contiguous(v));
    ok(tn_tensor_squeeze(v, axis, &w));
    ck_assert_mem_eq(tn_tensor_shape(w), tn_tensor_shape(x), 3 * sizeof(int64_t));
    ck_assert_mem_eq(tn_tensor_strides(w), tn_tensor_strides(x), 3 * sizeof(int64_t));
    tn_tensor_release(v), tn_tensor_release(w);
  }
  ok(tn_tensor_permute(x, (int32_t[]){2, 0, 1}, &p));
  ok(tn_tensor_unsqueeze(p, 1, &v));
  EXPECT(v, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23, 4, 8, 12, 16, 20, 24);
  tn_tensor *none = NULL, *full = shaped(dev, TN_F32, 8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
  refused(tn_tensor_unsqueeze(full, 0, &none), TN_ERR_INVALID_ARGUMENT, "8 axes");
  refused(tn_tensor_unsqueeze(x, 4, &none), TN_ERR_INVALID_ARGUMENT, "axis 4");
  refused(tn_tensor_unsqueeze(x, -5, &none), TN_ERR_INVALID_ARGUMENT, "axis -5");
  refused(tn_tensor_squeeze(x, 1, &none), TN_ERR_INVALID_ARGUMENT, "axis 1 has 3 elements");
  refused(tn_tensor_squeeze(x, 3, &none), TN_ERR_INVALID_ARGUMENT, "axis 3");
  refused(tn_tensor_squeeze(NULL, 0, &none), TN_ERR_INVALID_ARGUMENT, "tn_tensor_squeeze");
  tn_tensor_release(x), tn_tensor_release(p), tn_tensor_release(v), tn_tensor_release(full);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, permute_moves_axes);
  tcase_add_test(t, slice_takes_every_step);
  tcase_add_test(t, split_makes_parts_of_an_axis);
  tcase_add_test(t, expand_repeats_without_memory);
  tcase_add_test(t, reshape_infers_and_refuses);
  tcase_add_test(t, reshape_agrees_with_a_copy);
  tcase_add_test(t, views_keep_memory_alive);
  tcase_add_test(t, absurd_views_are_made_or_refused);
  tcase_add_test(t, select_drops_an_axis);
  tcase_add_test(t, squeeze_and_unsqueeze_are_inverse);
}

int main(void) { return run_suite("view", add_tests); }
