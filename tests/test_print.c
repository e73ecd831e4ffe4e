/* Tensors as text, against texts written by hand. */
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "tests/every_device.h"

static tn_runtime *rt;
static tn_device *dev;
static void setup(void) {
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference"};
  rt = open_runtime(&options);
  dev = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

/* The values' text is this; the line before it, that of messages. */
static void expect(const tn_tensor *t, const tn_print_options *options, const char *want) {
  char text[4096];
  size_t length = 0;
  ok(tn_tensor_format(t, options, text, sizeof text, &length));
  ck_assert_uint_eq(length, strlen(text));
  const char *values = strchr(text, '\n');
  ck_assert_ptr_nonnull(values);
  ck_assert_str_eq(values + 1, want);
}

#define TENSOR(type, dtype, ...)                                                                   \
  make(dtype, (int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (type[]){__VA_ARGS__})
static tn_tensor *make(tn_dtype dtype, int64_t size, const void *values) {
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(dev, dtype, 1, &size, values, &t));
  return t;
}

static void expect_released(tn_tensor *t, const char *want) {
  expect(t, NULL, want);
  tn_tensor_release(t);
}

START_TEST(every_type_has_its_look) {
  expect_released(TENSOR(float, TN_F32, 1, 2.5f, -0.25f), "[ 1.0000,  2.5000, -0.2500]");
  expect_released(TENSOR(float, TN_F32, 1, -20, 0), "[  1., -20.,   0.]");
  expect_released(TENSOR(double, TN_F64, 1e-5, 1), "[1.0000e-05, 1.0000e+00]");
  expect_released(TENSOR(double, TN_F64, 1e8, 0.5), "[1.0000e+08, 5.0000e-01]");
  expect_released(TENSOR(float, TN_F32, NAN, -INFINITY, INFINITY, 1.5f),
                  "[   nan,   -inf,    inf, 1.5000]");
  expect_released(TENSOR(float, TN_F32, NAN, NAN), "[nan, nan]");
  expect_released(TENSOR(uint8_t, TN_BOOL, 0, 1, 1), "[false,  true,  true]");
  expect_released(TENSOR(uint8_t, TN_U8, 0, 255), "[  0, 255]");
  expect_released(TENSOR(int8_t, TN_I8, -128, 127), "[-128,  127]");
  expect_released(TENSOR(int16_t, TN_I16, -300, 7), "[-300,    7]");
  expect_released(TENSOR(int32_t, TN_I32, INT32_MIN), "[-2147483648]");
  expect_released(TENSOR(int64_t, TN_I64, INT64_MIN, INT64_MAX),
                  "[-9223372036854775808,  9223372036854775807]");
  expect_released(TENSOR(uint16_t, TN_F16, 0x3c00, 0x3800, 0x0001, 0x7c00, 0xfe00),
                  "[1.0000e+00, 5.0000e-01, 5.9605e-08,        inf,        nan]");
  expect_released(TENSOR(uint16_t, TN_BF16, 0x3f80, 0xc020), "[ 1.0000, -2.5000]");
  expect_released(TENSOR(uint8_t, TN_F8_E4M3, 0xfe, 0x38), "[-448.,    1.]");
  expect_released(TENSOR(uint8_t, TN_F8_E4M3, 0x01, 0x0c, 0xff, 0x80),
                  "[ 0.0020,  0.0234,     nan, -0.0000]");
  expect_released(TENSOR(uint8_t, TN_F8_E5M2, 0x3e, 0xc1, 0x7c, 0x7d),
                  "[ 1.5000, -2.5000,     inf,     nan]");
}
END_TEST

START_TEST(shapes_and_strides) {
  char text[256];
  tn_tensor *flat = counting(dev, 12), *x = NULL, *v = NULL;
  ok(tn_tensor_reshape(flat, 3, SHAPE(2, 2, 3), &x));
  ok(tn_tensor_format(x, NULL, text, sizeof text, NULL));
  ck_assert_str_eq(text, "reference:0 f32 [2, 2, 3]\n"
                         "[[[ 1.,  2.,  3.],\n"
                         "  [ 4.,  5.,  6.]],\n"
                         "\n"
                         " [[ 7.,  8.,  9.],\n"
                         "  [10., 11., 12.]]]");
  ok(tn_tensor_permute(x, (int32_t[]){2, 0, 1}, &v));
  expect(v, NULL,
         "[[[ 1.,  4.],\n  [ 7., 10.]],\n\n [[ 2.,  5.],\n  [ 8., 11.]],\n\n [[ 3.,  6.],\n"
         "  [ 9., 12.]]]");
  tn_tensor_release(v);
  ok(tn_tensor_select(flat, 0, 4, &v));
  expect(v, NULL, "5.");
  tn_tensor_release(v);
  tn_tensor *none = shaped(dev, TN_F32, 2, SHAPE(3, 0));
  ok(tn_tensor_format(none, NULL, text, sizeof text, NULL));
  ck_assert_str_eq(text, "reference:0 f32 [3, 0]\n[]");
  tn_tensor_release(none), tn_tensor_release(x), tn_tensor_release(flat);
}
END_TEST

START_TEST(long_axes_lose_their_middle) {
  tn_tensor *x = counting(dev, 1001), *grid = NULL, *flat = counting(dev, 40 * 3 * 50), *cut = NULL;
  expect(x, NULL, "[   1.,    2.,    3., ...,  999., 1000., 1001.]");
  const tn_print_options all = {.struct_size = sizeof all, .threshold = 1001, .line_width = 10000};
  char *text = malloc(20000);
  ok(tn_tensor_format(x, &all, text, 20000, NULL));
  ck_assert_ptr_null(strstr(text, "..."));
  free(text);
  ok(tn_tensor_reshape(flat, 3, SHAPE(40, 3, 50), &grid));
  ok(tn_tensor_slice(grid, 1, 0, 2, 1, &cut));
  const tn_print_options two = {.struct_size = sizeof two, .edge = 1};
  expect(cut, &two,
         "[[[   1., ...,   50.],\n  [  51., ...,  100.]],\n\n ...,\n\n"
         " [[5851., ..., 5900.],\n  [5901., ..., 5950.]]]");
  tn_tensor_release(x), tn_tensor_release(grid), tn_tensor_release(flat), tn_tensor_release(cut);
}
END_TEST

START_TEST(lines_are_broken) {
  tn_tensor *x = counting(dev, 7);
  const tn_print_options narrow = {.struct_size = sizeof narrow, .line_width = 12};
  expect(x, &narrow, "[1., 2., 3.,\n 4., 5., 6.,\n 7.]");
  const tn_print_options least = {.struct_size = sizeof least, .line_width = 1};
  expect(x, &least, "[1.,\n 2.,\n 3.,\n 4.,\n 5.,\n 6.,\n 7.]");
  tn_tensor_release(x);
}
END_TEST

START_TEST(precision) {
  tn_tensor *x = TENSOR(double, TN_F64, 1.0 / 3, 2.0 / 3);
  const tn_print_options two = {.struct_size = sizeof two, .precision = 2};
  const tn_print_options most = {.struct_size = sizeof most, .precision = 17};
  expect(x, &two, "[0.33, 0.67]");
  expect(x, &most, "[0.33333333333333331, 0.66666666666666663]");
  tn_tensor_release(x);
}
END_TEST

START_TEST(text_that_does_not_fit) {
  tn_tensor *x = counting(dev, 3);
  char text[50];
  size_t length = 0, whole = strlen("reference:0 f32 [3]\n[1., 2., 3.]");
  ok(tn_tensor_format(x, NULL, NULL, 0, &length));
  ck_assert_uint_eq(length, whole);
  for (size_t size = 1; size <= whole + 1; ++size) {
    memset(text, '#', sizeof text);
    ok(tn_tensor_format(x, NULL, text, size, &length));
    ck_assert_uint_eq(length, whole);
    ck_assert_uint_eq(strlen(text), size - 1);
    ck_assert_mem_eq(text, "reference:0 f32 [3]\n[1., 2., 3.]", size - 1);
    ck_assert_int_eq(text[size], '#');
  }
  tn_tensor_release(x);
}
END_TEST

START_TEST(to_a_file) {
  tn_tensor *x = counting(dev, 2);
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  ok(tn_tensor_print(x, NULL, file));
  fclose(file);
  ck_assert_str_eq(text, "reference:0 f32 [2]\n[1., 2.]\n");
  free(text);
  FILE *closed = fopen("/dev/null", "r");
  refused(tn_tensor_print(x, NULL, closed), TN_ERR_IO, "could not be written");
  fclose(closed);
  tn_tensor_release(x);
}
END_TEST

/* Makes a locale in the folder; false where the machine has no sources of locales. */
static bool make_locale(const char *folder, const char *name) {
  char command[300];
  snprintf(command, sizeof command, "localedef -i %s -f UTF-8 %s/%s >%s/log 2>&1", name, folder,
           name, folder);
  return system(command) == 0;
}

/* A host's decimal point changes nothing: a comma, and one of two bytes. */
START_TEST(other_locales) {
  static const char *const names[] = {"de_DE", "ps_AF"};
  char folder[] = "/tmp/tenon-locales-XXXXXX", command[300], number[16];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  setenv("LOCPATH", folder, 1);
  tn_tensor *x = TENSOR(float, TN_F32, 1.5f, 1e-7f), *y = TENSOR(float, TN_F32, 0.5f, -2.25f);
  for (int i = 0; i < 2; ++i) {
    if (!make_locale(folder, names[i])) continue;
    ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, names[i]));
    snprintf(number, sizeof number, "%.1f", 0.5);
    ck_assert_str_ne(number, "0.5");
    expect(x, NULL, "[1.5000e+00, 1.0000e-07]");
    expect(y, NULL, "[ 0.5000, -2.2500]");
  }
  setlocale(LC_NUMERIC, "C");
  snprintf(command, sizeof command, "rm -r %s", folder);
  ck_assert_int_eq(system(command), 0);
  tn_tensor_release(x), tn_tensor_release(y);
}
END_TEST

START_TEST(nonsense_is_refused) {
  tn_tensor *x = counting(dev, 2);
  char text[8];
  size_t length;
  tn_print_options bad = {.struct_size = sizeof bad, .precision = 18};
  refused(tn_tensor_format(x, &bad, text, sizeof text, &length), TN_ERR_INVALID_ARGUMENT,
          "1 to 17");
  bad = (tn_print_options){.struct_size = sizeof bad, .edge = -1};
  refused(tn_tensor_print(x, &bad, NULL), TN_ERR_INVALID_ARGUMENT, "edge");
  bad = (tn_print_options){.threshold = 5};
  refused(tn_tensor_print(x, &bad, NULL), TN_ERR_INVALID_ARGUMENT, "struct_size");
  refused(tn_tensor_format(x, NULL, NULL, 5, &length), TN_ERR_INVALID_ARGUMENT, "text is NULL");
  refused(tn_tensor_format(NULL, NULL, text, 5, &length), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_tensor_release(x);
}
END_TEST

/* On every device, behind the work of the stream that the tensor was made on. */
START_TEST(devices_are_waited_for) {
  tn_runtime *other = open_every(_i);
  tn_device *d = tn_runtime_device(other);
  tn_stream *stream = NULL;
  tn_tensor *x = NULL, *y = NULL, *flat = NULL;
  ok(tn_stream_create(d, &stream));
  ok(tn_full(d, stream, TN_F32, 2, SHAPE(300, 4), 2, &x));
  ok(tn_add(stream, x, x, &y));
  expect(y, NULL,
         "[[4., 4., 4., 4.],\n [4., 4., 4., 4.],\n [4., 4., 4., 4.],\n ...,\n [4., 4., 4., 4.],\n"
         " [4., 4., 4., 4.],\n [4., 4., 4., 4.]]");
  ok(tn_tensor_permute(y, (int32_t[]){1, 0}, &flat));
  const tn_print_options two = {.struct_size = sizeof two, .edge = 1};
  expect(flat, &two, "[[4., ..., 4.],\n ...,\n [4., ..., 4.]]");
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(flat);
  tn_stream_destroy(stream);
  tn_runtime_close(other);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, every_type_has_its_look);
  tcase_add_test(t, shapes_and_strides);
  tcase_add_test(t, long_axes_lose_their_middle);
  tcase_add_test(t, lines_are_broken);
  tcase_add_test(t, precision);
  tcase_add_test(t, text_that_does_not_fit);
  tcase_add_test(t, to_a_file);
  tcase_add_test(t, other_locales);
  tcase_add_test(t, nonsense_is_refused);
  tcase_add_loop_test(t, devices_are_waited_for, 0, EVERY_DEVICE);
}

int main(void) { return run_suite("print", add_tests); }
