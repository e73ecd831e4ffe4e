/* Constants, tensors of one value and tensors like others, on devices of every kind. */
#include <math.h>
#include <stdint.h>

#include "tests/every_device.h"

static tn_runtime *rt;
static tn_device *dev;
static void open_device(int i) { rt = open_every(i), dev = tn_runtime_device(rt); }

/* Bits of the one element. */
static uint64_t bits_of(const tn_tensor *t) {
  uint64_t bits = 0;
  ok(tn_tensor_to_host(t, &bits, tn_dtype_size(tn_tensor_dtype(t))));
  return bits;
}

static void expect_scalar(tn_tensor *t, tn_dtype dtype, uint64_t bits) {
  ck_assert_int_eq(tn_tensor_rank(t), 0);
  ck_assert_int_eq(tn_tensor_dtype(t), dtype);
  ck_assert_msg(bits_of(t) == bits, "%s: %#lx, not %#lx", tn_dtype_name(dtype),
                (unsigned long)bits_of(t), (unsigned long)bits);
  tn_tensor_release(t);
}
#define EXPECT_SCALAR(dtype, value, bits)                                                          \
  do {                                                                                             \
    tn_tensor *t_ = NULL;                                                                          \
    ok(tn_scalar(dev, NULL, dtype, value, &t_));                                                   \
    expect_scalar(t_, dtype, bits);                                                                \
  } while (0)

START_TEST(scalars_hold_their_value) {
  open_device(_i);
  EXPECT_SCALAR(TN_BOOL, 0, 0);
  EXPECT_SCALAR(TN_BOOL, -7, 1);
  EXPECT_SCALAR(TN_BOOL, 0.25, 1);
  EXPECT_SCALAR(TN_BOOL, NAN, 1);
  EXPECT_SCALAR(TN_U8, 255, 255);
  EXPECT_SCALAR(TN_I8, -128, 0x80);
  EXPECT_SCALAR(TN_I8, -3.0, 0xfd);
  EXPECT_SCALAR(TN_I16, -32768, 0x8000);
  EXPECT_SCALAR(TN_I32, INT32_MIN, 0x80000000);
  EXPECT_SCALAR(TN_I64, INT64_MAX, INT64_MAX);
  EXPECT_SCALAR(TN_I64, INT64_MIN, (uint64_t)1 << 63);
  EXPECT_SCALAR(TN_I64, ((int64_t)1 << 53) + 1, ((uint64_t)1 << 53) + 1);
  EXPECT_SCALAR(TN_I64, (size_t)12, 12);
  EXPECT_SCALAR(TN_F16, 65504, 0x7bff);
  EXPECT_SCALAR(TN_F16, 65520, 0x7c00); /* rounds to infinity */
  EXPECT_SCALAR(TN_F16, 0x1p-25, 0);    /* half of the least number, to even */
  EXPECT_SCALAR(TN_F16, 0x1.8p-24, 2);
  EXPECT_SCALAR(TN_F16, -0.0, 0x8000);
  EXPECT_SCALAR(TN_BF16, 1.00390625, 0x3f80);
  EXPECT_SCALAR(TN_BF16, 1.01171875, 0x3f82);
  EXPECT_SCALAR(TN_F8_E4M3, -464.0, 0xfe); /* half way to what would be the next, to even */
  EXPECT_SCALAR(TN_F8_E4M3, INFINITY, 0x7e);
  EXPECT_SCALAR(TN_F8_E4M3, -NAN, 0x7f);
  EXPECT_SCALAR(TN_F8_E4M3, 0x1p-10, 0); /* half of the least number, to even */
  EXPECT_SCALAR(TN_F8_E4M3, 0x1.8p-9, 2);
  EXPECT_SCALAR(TN_F8_E4M3, 0x1.fp-7, 8); /* the least number of full precision */
  EXPECT_SCALAR(TN_F8_E4M3, -0.0, 0x80);
  EXPECT_SCALAR(TN_F8_E5M2, 61440, 0x7b);
  EXPECT_SCALAR(TN_F8_E5M2, -1e300, 0xfb);
  EXPECT_SCALAR(TN_F8_E5M2, NAN, 0x7f);
  EXPECT_SCALAR(TN_F8_E5M2, 0x1.8p-16, 2);
  EXPECT_SCALAR(TN_F8_E5M2, INT64_MIN, 0xfb);
  EXPECT_SCALAR(TN_F32, 1.5f, 0x3fc00000);
  EXPECT_SCALAR(TN_F32, INFINITY, 0x7f800000);
  EXPECT_SCALAR(TN_F32, UINT64_MAX, 0x5f800000);
  EXPECT_SCALAR(TN_F64, 1.5, 0x3ff8000000000000);
  EXPECT_SCALAR(TN_F64, ((int64_t)1 << 53) + 1, 0x4340000000000000);
  tn_runtime_close(rt);
}
END_TEST

/* 2^60 + 2^52 + 1 lies above the middle of two bfloat16, on which float64 would put it. */
START_TEST(whole_numbers_are_rounded_once) {
  open_device(_i);
  EXPECT_SCALAR(TN_BF16, ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1, 0x5d81);
  EXPECT_SCALAR(TN_BF16, -((int64_t)1 << 60) - ((int64_t)1 << 52) - 1, 0xdd81);
  EXPECT_SCALAR(TN_BF16, ((int64_t)1 << 60) + ((int64_t)1 << 52), 0x5d80);
  if (strcmp(every_device[_i].device, "flat")) /* its kernel asks for as much memory */
    EXPECT_SCALAR(TN_F32, ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1, 0x5d800001);
  tn_tensor *t = NULL;
  uint16_t got[3];
  ok(tn_full(dev, NULL, TN_BF16, 1, SHAPE(3), ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1, &t));
  ok(tn_tensor_to_host(t, got, sizeof got));
  ck_assert_uint_eq(got[2], 0x5d81);
  tn_tensor_release(t);
  tn_runtime_close(rt);
}
END_TEST

/* Under sanitizers one in so many: the ways through memory are the same for all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 17 };
#else
enum { STRIDE = 1 };
#endif

/* Every f16 and bf16 that is a number comes back from the float64 that it is. */
START_TEST(every_half_is_met) {
  open_device(0);
  for (tn_dtype dtype = TN_F16; dtype <= TN_BF16; ++dtype)
    for (uint32_t bits = 0; bits < 65536; bits += STRIDE) {
      uint16_t half = (uint16_t)bits;
      tn_tensor *x = NULL, *wide = NULL, *y = NULL;
      double value;
      tn_cast_attrs cast = TN_CAST_DEFAULTS;
      cast.dtype = TN_F64;
      ok(tn_tensor_from_host(dev, dtype, 0, NULL, &half, &x));
      ok(tn_cast(NULL, x, &cast, &wide));
      ok(tn_tensor_to_host(wide, &value, sizeof value));
      ok(tn_scalar(dev, NULL, dtype, value, &y));
      if (value == value)
        ck_assert_uint_eq(bits_of(y), bits);
      else
        ck_assert_uint_eq(bits_of(y) & 0x7fff, dtype == TN_F16 ? 0x7e00 : 0x7fc0);
      tn_tensor_release(x), tn_tensor_release(wide), tn_tensor_release(y);
    }
  tn_runtime_close(rt);
}
END_TEST

/* Rounding agrees with tn_cast's everywhere between. */
START_TEST(rounding_is_that_of_cast) {
  open_device(0);
  uint64_t state = 1;
  for (int i = 0; i < 20000; i += STRIDE) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = ldexp((double)(int64_t)state, (int)(state >> 7 & 63) - 96);
    for (tn_dtype dtype = TN_F16; dtype <= TN_F8_E5M2; ++dtype) {
      tn_tensor *x = NULL, *want = NULL, *got = NULL;
      tn_cast_attrs cast = TN_CAST_DEFAULTS;
      cast.dtype = (int32_t)dtype;
      ok(tn_tensor_from_host(dev, TN_F64, 0, NULL, &value, &x));
      ok(tn_cast(NULL, x, &cast, &want));
      ok(tn_scalar(dev, NULL, dtype, value, &got));
      ck_assert_msg(bits_of(got) == bits_of(want), "%a as %s", value, tn_dtype_name(dtype));
      tn_tensor_release(x), tn_tensor_release(want), tn_tensor_release(got);
    }
  }
  tn_runtime_close(rt);
}
END_TEST

START_TEST(scalars_are_operands) {
  open_device(_i);
  tn_tensor *x = counting(dev, 4), *two = NULL, *y = NULL, *z = NULL;
  float got[4];
  ok(tn_scalar(tn_tensor_device(x), NULL, tn_tensor_dtype(x), 2, &two));
  ok(tn_mul(NULL, x, two, &y));
  ok(tn_maximum(NULL, two, x, &z));
  ok(tn_tensor_to_host(y, got, sizeof got));
  ck_assert(got[0] == 2 && got[3] == 8);
  ok(tn_tensor_to_host(z, got, sizeof got));
  ck_assert(got[0] == 2 && got[3] == 4);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(z);
  refused(tn_tensor_write(NULL, two, got, sizeof *got), TN_ERR_INVALID_ARGUMENT, "read-only");
  refused(tn_fill(NULL, two, NULL), TN_ERR_INVALID_ARGUMENT, "read-only");
  tn_tensor_release(two);
  /* Its memory is an ordinary tensor's again. */
  tn_tensor *one = shaped(dev, TN_F32, 0, NULL);
  ok(tn_fill(NULL, one, NULL));
  tn_tensor_release(one);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(what_a_type_does_not_hold_is_refused) {
  open_device(_i);
  tn_tensor *t = NULL;
  refused(tn_scalar(dev, NULL, TN_U8, 256, &t), TN_ERR_INVALID_ARGUMENT, "0 to 255");
  refused(tn_scalar(dev, NULL, TN_U8, -1, &t), TN_ERR_INVALID_ARGUMENT, "-1 does not fit u8");
  refused(tn_scalar(dev, NULL, TN_I32, 2.5, &t), TN_ERR_INVALID_ARGUMENT, "i32 has no 2.5");
  refused(tn_scalar(dev, NULL, TN_I64, NAN, &t), TN_ERR_INVALID_ARGUMENT, "i64 has no");
  refused(tn_scalar(dev, NULL, TN_I64, 0x1p63, &t), TN_ERR_INVALID_ARGUMENT, "i64 has no");
  refused(tn_scalar(dev, NULL, TN_I64, UINT64_MAX, &t), TN_ERR_INVALID_ARGUMENT, "i64 has no");
  refused(tn_full(dev, NULL, TN_I8, 1, SHAPE(3), 128, &t), TN_ERR_INVALID_ARGUMENT, "-128 to 127");
  refused(tn_scalar(NULL, NULL, TN_I8, 1, &t), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_scalar(dev, NULL, TN_I8, 1, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_scalar(dev, NULL, (tn_dtype)40, 1, &t), TN_ERR_INVALID_ARGUMENT, "no element type");
  refused(tn_zeros(dev, NULL, TN_I8, 1, NULL, &t), TN_ERR_INVALID_ARGUMENT, "rank");
  refused(tn_ones(dev, NULL, TN_I8, 1, SHAPE(2), NULL), TN_ERR_INVALID_ARGUMENT, "tn_ones");
  refused(tn_zeros_like(NULL, NULL, &t), TN_ERR_INVALID_ARGUMENT, "tn_zeros_like");
  ck_assert_ptr_null(t);
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_synchronize(dev));
  ok(tn_device_memory_stats(dev, &stats));
  ck_assert_uint_eq(stats.in_use, 0);
  tn_runtime_close(rt);
}
END_TEST

static void expect_all(const tn_tensor *t, int64_t value) {
  int64_t got[24];
  ck_assert_int_le(tn_tensor_elements(t), 24);
  ok(tn_tensor_to_host(t, got, tn_tensor_bytes(t)));
  for (int64_t i = 0; i < tn_tensor_elements(t); ++i)
    ck_assert_msg(got[i] == value, "element %ld is %ld", (long)i, (long)got[i]);
}

START_TEST(full_tensors) {
  open_device(_i);
  static const int64_t values[] = {0, 1, -1, INT64_MAX, INT64_MIN, ((int64_t)1 << 53) + 1};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
    tn_tensor *t = NULL;
    ok(tn_full(dev, NULL, TN_I64, 3, SHAPE(2, 3, 4), values[i], &t));
    expect_all(t, values[i]);
    tn_tensor_release(t);
  }
  tn_tensor *zeros = NULL, *ones = NULL, *none = NULL, *one = NULL;
  ok(tn_zeros(dev, NULL, TN_I64, 2, SHAPE(3, 2), &zeros));
  ok(tn_ones(dev, NULL, TN_I64, 2, SHAPE(3, 2), &ones));
  ok(tn_full(dev, NULL, TN_I64, 2, SHAPE(3, 0), INT64_MAX, &none));
  ok(tn_ones(dev, NULL, TN_I64, 0, NULL, &one));
  expect_all(zeros, 0);
  expect_all(ones, 1);
  expect_all(none, 0);
  ok(tn_tensor_write(NULL, one, &(int64_t){5}, 8)); /* no constant */
  expect_all(one, 5);
  tn_tensor_release(zeros), tn_tensor_release(ones), tn_tensor_release(none);
  tn_tensor_release(one);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(a_stream_of_its_own) {
  open_device(_i);
  tn_stream *stream = NULL;
  tn_tensor *big = NULL, *y = NULL, *like = NULL;
  ok(tn_stream_create(dev, &stream));
  ok(tn_scalar(dev, stream, TN_I64, INT64_MAX - 1, &big));
  ok(tn_full_like(stream, big, INT64_MIN, &like));
  ok(tn_maximum(stream, big, like, &y));
  ok(tn_stream_synchronize(stream));
  ck_assert_uint_eq(bits_of(y), INT64_MAX - 1);
  tn_tensor_release(big), tn_tensor_release(y), tn_tensor_release(like);
  tn_stream_destroy(stream);
  tn_runtime_close(rt);
}
END_TEST

static void expect_strides(const tn_tensor *t, const int64_t *strides) {
  for (int32_t i = 0; i < tn_tensor_rank(t); ++i)
    ck_assert_msg(tn_tensor_strides(t)[i] == strides[i] || tn_tensor_shape(t)[i] == 1,
                  "axis %d has stride %ld", i, (long)tn_tensor_strides(t)[i]);
}

/* zeros_like of a view by permute, then by expand where sizes are given. */
static void expect_like(const int32_t *axes, const int64_t *expanded, const int64_t *strides) {
  tn_tensor *base = shaped(dev, TN_F32, 4, SHAPE(2, 1, 4, 5)), *x = NULL, *view = NULL;
  tn_tensor *made[4] = {NULL};
  ok(tn_tensor_permute(base, axes, &view));
  if (expanded)
    ok(tn_tensor_expand(view, 4, expanded, &x));
  else
    tn_tensor_retain(x = view);
  ok(tn_empty_like(NULL, x, &made[0]));
  ok(tn_zeros_like(NULL, x, &made[1]));
  ok(tn_ones_like(NULL, x, &made[2]));
  ok(tn_full_like(NULL, x, 2.5, &made[3]));
  for (int i = 0; i < 4; ++i) {
    float got[120];
    ck_assert_mem_eq(tn_tensor_shape(made[i]), tn_tensor_shape(x), 4 * sizeof(int64_t));
    expect_strides(made[i], strides);
    ok(tn_tensor_to_host(made[i], got, tn_tensor_bytes(made[i])));
    for (int64_t k = 0; i > 0 && k < tn_tensor_elements(x); ++k)
      ck_assert(got[k] == (i == 3 ? 2.5f : (float)(i - 1)));
    tn_tensor_release(made[i]);
  }
  tn_tensor_release(x), tn_tensor_release(view), tn_tensor_release(base);
}

START_TEST(like_keeps_the_order_of_axes) {
  open_device(_i);
  expect_like((int32_t[]){0, 1, 2, 3}, NULL, SHAPE(20, 20, 5, 1));
  expect_like((int32_t[]){0, 3, 1, 2}, NULL, SHAPE(20, 1, 20, 5)); /* channels-last */
  expect_like((int32_t[]){3, 2, 1, 0}, NULL, SHAPE(1, 5, 20, 20));
  expect_like((int32_t[]){0, 1, 2, 3}, SHAPE(2, 3, 4, 5), SHAPE(60, 20, 5, 1));
  expect_like((int32_t[]){0, 3, 2, 1}, SHAPE(2, 5, 4, 3), SHAPE(60, 3, 15, 1));
  tn_tensor *x = counting(dev, 12), *gaps = NULL, *y = NULL;
  ok(tn_tensor_slice(x, 0, 0, 12, 3, &gaps));
  ok(tn_empty_like(NULL, gaps, &y));
  expect_strides(y, SHAPE(1));
  tn_tensor_release(x), tn_tensor_release(gaps), tn_tensor_release(y);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(devices_say_what_dlpack_calls_them) {
  open_device(_i);
  tn_device_info info = {.struct_size = sizeof info};
  tn_tensor *t = counting(dev, 1);
  DLManagedTensorVersioned *m = NULL;
  ok(tn_device_get_info(dev, &info));
  ok(tn_tensor_to_dlpack(t, &m));
  ck_assert_int_eq(info.dl_device.device_type, m->dl_tensor.device.device_type);
  ck_assert_int_eq(info.dl_device.device_id, m->dl_tensor.device.device_id);
  m->deleter(m);
  info.dl_device.device_id = -5;
  info.struct_size = offsetof(tn_device_info, dl_device); /* a program of before */
  ok(tn_device_get_info(dev, &info));
  ck_assert_int_eq(info.dl_device.device_id, -5);
  tn_tensor_release(t);
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, scalars_hold_their_value, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, whole_numbers_are_rounded_once, 0, EVERY_DEVICE);
  tcase_add_test(t, every_half_is_met);
  tcase_add_test(t, rounding_is_that_of_cast);
  tcase_add_loop_test(t, scalars_are_operands, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, what_a_type_does_not_hold_is_refused, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, full_tensors, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, a_stream_of_its_own, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, like_keeps_the_order_of_axes, 0, EVERY_DEVICE);
  tcase_add_loop_test(t, devices_say_what_dlpack_calls_them, 0, EVERY_DEVICE);
}

int main(void) { return run_suite("create", add_tests); }
