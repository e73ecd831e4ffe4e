/* Making, counting and describing tensors; the copies to and from the host. */
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;
static void setup(void) { rt = open_runtime(NULL), dev = tn_runtime_device(rt); }
static void teardown(void) { tn_runtime_close(rt); }

START_TEST(bad_shapes_are_refused) {
  tn_tensor *t = NULL;
  refused(tn_tensor_empty(NULL, TN_F32, 0, NULL, &t), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_tensor_empty(dev, TN_F32, 0, NULL, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_tensor_empty(dev, TN_DTYPE_NONE, 0, NULL, &t), TN_ERR_INVALID_ARGUMENT, "type");
  refused(tn_tensor_empty(dev, (tn_dtype)99, 0, NULL, &t), TN_ERR_INVALID_ARGUMENT, "type");
  refused(tn_tensor_empty(dev, TN_F32, -1, NULL, &t), TN_ERR_INVALID_ARGUMENT, "rank");
  refused(tn_tensor_empty(dev, TN_F32, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), &t),
          TN_ERR_INVALID_ARGUMENT, "rank");
  refused(tn_tensor_empty(dev, TN_F32, 2, NULL, &t), TN_ERR_INVALID_ARGUMENT, "sizes");
  refused(tn_tensor_empty(dev, TN_F32, 2, SHAPE(3, -1), &t), TN_ERR_INVALID_ARGUMENT, "[3, -1]");
  refused(tn_tensor_empty(dev, TN_F32, 2, SHAPE(INT64_MAX, 2), &t), TN_ERR_INVALID_ARGUMENT,
          "overflows");
  refused(tn_tensor_empty(dev, TN_F64, 1, SHAPE(INT64_MAX / 4), &t), TN_ERR_INVALID_ARGUMENT,
          "overflows");
  refused(tn_tensor_empty(dev, TN_F32, 1, SHAPE((int64_t)1 << 55), &t), TN_ERR_DEVICE_OUT_OF_MEMORY,
          "reserved");
  ck_assert_ptr_null(t);
}
END_TEST

START_TEST(empty_and_scalar_tensors) {
  tn_tensor *none = shaped(dev, TN_F32, 3, SHAPE(2, 0, (int64_t)1 << 59)), *one = NULL;
  ck_assert_int_eq(tn_tensor_elements(none), 0);
  ck_assert_uint_eq(tn_tensor_bytes(none), 0);
  ok(tn_tensor_to_host(none, NULL, 0));
  float value = 7, back = 0;
  ok(tn_tensor_from_host(dev, TN_F32, 0, NULL, &value, &one));
  ok(tn_tensor_to_host(one, &back, sizeof back));
  ck_assert(back == 7);
  ck_assert_int_eq(tn_tensor_rank(one), 0);
  tn_tensor_release(one);
  tn_tensor_release(none);
}
END_TEST

START_TEST(every_type_makes_the_round_trip) {
  unsigned char bytes[24], back[24];
  for (int d = TN_BOOL; d <= TN_F8_E5M2; ++d) {
    for (int i = 0; i < 24; ++i) bytes[i] = (unsigned char)(d == TN_BOOL ? i & 1 : 17 * i + d);
    size_t size = tn_dtype_size((tn_dtype)d);
    tn_tensor *t = NULL;
    ok(tn_tensor_from_host(dev, (tn_dtype)d, 1, SHAPE((int64_t)(24 / size)), bytes, &t));
    ok(tn_tensor_to_host(t, back, 24));
    ck_assert_mem_eq(bytes, back, 24);
    tn_tensor_release(t);
  }
}
END_TEST

START_TEST(wrong_byte_counts_are_refused) {
  tn_tensor *t = counting(dev, 4);
  float values[4];
  refused(tn_tensor_to_host(t, values, 12), TN_ERR_INVALID_ARGUMENT, "12 bytes");
  refused(tn_tensor_to_host(t, NULL, 16), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_tensor_write(NULL, t, values, 20), TN_ERR_INVALID_ARGUMENT, "20 bytes");
  refused(tn_tensor_to_host(NULL, values, 16), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(t);
}
END_TEST

START_TEST(writing_through_strides) {
  tn_tensor *t = counting(dev, 6), *v = NULL;
  float in[3] = {70, 80, 90}, back[6];
  ok(tn_tensor_slice(t, 0, 0, 6, 2, &v));
  ok(tn_tensor_write(NULL, v, in, sizeof in));
  ok(tn_tensor_to_host(t, back, sizeof back));
  const float want[6] = {70, 2, 80, 4, 90, 6};
  ck_assert_mem_eq(back, want, sizeof want);
  tn_tensor_release(v);
  tn_tensor_release(t);
}
END_TEST

START_TEST(released_memory_is_reused) {
  tn_tensor *t = shaped(dev, TN_F32, 1, SHAPE(1000));
  void *data = tn_tensor_data(t);
  tn_tensor_retain(t);
  tn_tensor_release(t);
  tn_tensor *u = shaped(dev, TN_F32, 1, SHAPE(1000));
  ck_assert_ptr_ne(tn_tensor_data(u), data);
  tn_tensor_release(t);
  tn_tensor *v = shaped(dev, TN_F32, 1, SHAPE(1000));
  ck_assert_ptr_eq(tn_tensor_data(v), data);
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(dev, &stats));
  ck_assert_uint_ge(stats.reserved, stats.in_use);
  ck_assert_uint_ge(stats.in_use, 8000);
  tn_tensor_release(u);
  tn_tensor_release(v);
  ok(tn_device_trim(dev));
  ok(tn_device_memory_stats(dev, &stats));
  ck_assert_uint_eq(stats.in_use, 0);
  ck_assert_uint_eq(stats.reserved, 0);
}
END_TEST

START_TEST(limits_hold_and_the_host_is_asked) {
  tn_runtime_options options = {.struct_size = sizeof options, .memory_limit = 64 << 20};
  tn_runtime *limited = open_runtime(&options);
  tn_device *d = tn_runtime_device(limited);
  tn_tensor *t = NULL;
  refused(tn_tensor_empty(d, TN_U8, 1, SHAPE(65 << 20), &t), TN_ERR_DEVICE_OUT_OF_MEMORY,
          "reserved");
  ok(tn_tensor_empty(d, TN_U8, 1, SHAPE(48 << 20), &t));
  tn_tensor_release(t);
  ok(tn_tensor_empty(d, TN_U8, 1, SHAPE(60 << 20), &t)); /* what was cached goes first */
  tn_tensor_release(t);
  tn_runtime_close(limited);
}
END_TEST

static tn_tensor *spare;
static int asked;
static bool give_spare(void *user, tn_device *device, size_t bytes) {
  (void)user, (void)device, (void)bytes;
  ++asked;
  if (!spare) return false;
  tn_tensor_release(spare);
  spare = NULL;
  return true;
}

START_TEST(the_host_can_free_memory) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .memory_limit = 64 << 20, .out_of_memory = give_spare};
  tn_runtime *limited = open_runtime(&options);
  tn_device *d = tn_runtime_device(limited);
  tn_tensor *t = NULL;
  ok(tn_tensor_empty(d, TN_U8, 1, SHAPE(40 << 20), &spare));
  ok(tn_tensor_empty(d, TN_U8, 1, SHAPE(50 << 20), &t));
  ck_assert_int_eq(asked, 1);
  tn_tensor *u = NULL;
  refused(tn_tensor_empty(d, TN_U8, 1, SHAPE(50 << 20), &u), TN_ERR_DEVICE_OUT_OF_MEMORY, "");
  ck_assert_int_eq(asked, 2);
  tn_tensor_release(t);
  tn_runtime_close(limited);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, bad_shapes_are_refused);
  tcase_add_test(t, empty_and_scalar_tensors);
  tcase_add_test(t, every_type_makes_the_round_trip);
  tcase_add_test(t, wrong_byte_counts_are_refused);
  tcase_add_test(t, writing_through_strides);
  tcase_add_test(t, released_memory_is_reused);
  tcase_add_test(t, limits_hold_and_the_host_is_asked);
  tcase_add_test(t, the_host_can_free_memory);
}

int main(void) { return run_suite("tensor", add_tests); }
