/*
 * Conversions round once: numbers so near to the middle between two of the target's that a type
 * in between rounds them to the very middle, and the second rounding goes the wrong way. What is
 * right is worked out by hand, since the conformance kit's judge is one of those under test.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static const struct {
  int64_t x;
  tn_dtype to;
  double want;
} integers[] = {
    {((int64_t)1 << 24) + 1, TN_F32, 0x1p24},
    {((int64_t)1 << 24) + 3, TN_F32, 0x1.000004p24},
    {((int64_t)1 << 53) + 1, TN_F64, 0x1p53},
    {((int64_t)1 << 53) + 1, TN_F32, 0x1p53},
    {0x7fffffbfffffffff, TN_F32, 0x1.fffffep62},
    {0x7fffffc000000001, TN_F32, 0x1p63},
    {-0x7fffffbfffffffff, TN_F32, -0x1.fffffep62},
    {0x4000004000000001, TN_F32, 0x1.000002p62},
    {((int64_t)257 << 40) + 1, TN_BF16, 0x1.02p48},
    {((int64_t)259 << 40) - 1, TN_BF16, 0x1.02p48},
    {65519, TN_F16, 65504},
    {65520, TN_F16, INFINITY},
};
enum { INTEGERS = sizeof integers / sizeof *integers };

static const struct {
  double x;
  tn_dtype to;
  double want;
} doubles[] = {
    {1 + 0x1p-11 + 0x1p-40, TN_F16, 1 + 0x1p-10},
    {1 + 0x3p-11 - 0x1p-40, TN_F16, 1 + 0x1p-10},
    {1 + 0x1p-8 + 0x1p-40, TN_BF16, 1 + 0x1p-7},
    {-(1 + 0x3p-8 - 0x1p-40), TN_BF16, -(1 + 0x1p-7)},
    {0x1p-25 + 0x1p-60, TN_F16, 0x1p-24},
    {0x3p-25 - 0x1p-60, TN_F16, 0x1p-24},
    {65520 - 0x1p-30, TN_F16, 65504},
    {1 + 0x1p-24 + 0x1p-52, TN_F32, 1 + 0x1p-23},
};
enum { DOUBLES = sizeof doubles / sizeof *doubles };

static void must_become(int d, tn_dtype from, const void *x, tn_dtype to, double want) {
  tn_tensor *tensor = NULL, *y = NULL;
  const tn_cast_attrs attrs = {sizeof attrs, to};
  ok(tn_tensor_from_host(b.devices[d], from, 1, SHAPE(1), x, &tensor));
  ok(tn_cast(NULL, tensor, &attrs, &y));
  double *values = values_of(y);
  if (values[0] != want)
    ck_abort_msg("%s to %s on %s: %.17g, not %.17g", tn_dtype_name(from), tn_dtype_name(to),
                 b.names[d], values[0], want);
  free(values);
  tn_tensor_release(tensor);
  tn_tensor_release(y);
}

START_TEST(integers_are_rounded_once) {
  for (int d = 0; d < b.count; ++d)
    for (int i = 0; i < INTEGERS; ++i)
      must_become(d, TN_I64, &integers[i].x, integers[i].to, integers[i].want);
}
END_TEST

START_TEST(doubles_are_rounded_once) {
  for (int d = 0; d < b.count; ++d)
    for (int i = 0; i < DOUBLES; ++i)
      must_become(d, TN_F64, &doubles[i].x, doubles[i].to, doubles[i].want);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, integers_are_rounded_once);
  tcase_add_test(tcase, doubles_are_rounded_once);
}

int main(void) { return run_suite("rounded_once", add_tests); }
