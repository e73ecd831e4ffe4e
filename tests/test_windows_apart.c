/*
 * Transposed convolutions whose windows lie side by side without meeting, which devices may compute
 * as a product, and those that only nearly do: with elements added at the end, padding, dilation,
 * one stride that is less. Inputs are small whole numbers and channels at most 64, so that every
 * type and every device has the reference's result exactly; outputs hold NaN before the call.
 */
#include "numeric.h"

typedef struct apart {
  int axes;
  int64_t n, c, k, groups; /* c and k of a group: channels read and written */
  int64_t image[3], kernel[3], stride[3], padding[3], dilation[3], more[3];
  bool bias;
} apart;

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* tn_conv_transpose1d_attrs and its kin: the numbers of one, two or three axes in a row. */
typedef struct transpose_attrs {
  uint32_t struct_size;
  int64_t number[13];
} transpose_attrs;

static transpose_attrs attrs_of(const apart *s) {
  transpose_attrs attrs = {.number = {0}};
  int at = 0;
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->stride[d];
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->padding[d];
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->dilation[d];
  attrs.number[at++] = s->groups;
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->more[d];
  attrs.struct_size = (uint32_t)(offsetof(transpose_attrs, number) + (size_t)at * sizeof(int64_t));
  return attrs;
}

static tn_tensor *convolve(tn_device *device, tn_dtype dtype, const apart *s) {
  static const uint32_t ops[] = {0, TN_OP_CONV_TRANSPOSE1D, TN_OP_CONV_TRANSPOSE2D,
                                 TN_OP_CONV_TRANSPOSE3D};
  int64_t x[5] = {s->n, s->c * s->groups}, w[5] = {s->c * s->groups, s->k};
  int64_t y[5] = {s->n, s->k * s->groups};
  for (int d = 0; d < s->axes; ++d) {
    x[2 + d] = s->image[d], w[2 + d] = s->kernel[d];
    y[2 + d] = (s->image[d] - 1) * s->stride[d] - 2 * s->padding[d] +
               (s->kernel[d] - 1) * s->dilation[d] + 1 + s->more[d];
  }
  const transpose_attrs attrs = attrs_of(s);
  tn_tensor *in[3] = {whole_numbers(device, dtype, 2 + s->axes, x, 2, 1),
                      whole_numbers(device, dtype, 2 + s->axes, w, 2, 2)};
  if (s->bias) in[2] = whole_numbers(device, dtype, 1, &y[1], 2, 3);
  tn_tensor *out = unwritten(device, dtype, 2 + s->axes, y);
  const tn_call call = {.struct_size = sizeof call,
                        .op = ops[s->axes],
                        .stream = tn_device_default_stream(device),
                        .in = (const tn_tensor *const *)in,
                        .out = &out,
                        .attrs = &attrs,
                        .num_in = 3,
                        .num_out = 1};
  ok(tn_invoke(&call));
  for (int i = 0; i < 3; ++i) tn_tensor_release(in[i]);
  return out;
}

#define ONES                                                                                       \
  { 1, 1, 1 }
#define NONE                                                                                       \
  { 0 }
static const struct {
  const char *name;
  apart s;
} cases[] = {
    {"twos", {2, 2, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, NONE, true}},
    {"twos without bias", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, NONE, false}},
    {"many windows", {2, 1, 8, 7, 1, {61, 77}, {2, 2}, {2, 2}, NONE, ONES, NONE, true}},
    {"more than fit", {2, 1, 64, 64, 1, {20, 20}, {4, 4}, {4, 4}, NONE, ONES, NONE, true}},
    {"groups", {2, 2, 3, 5, 3, {9, 20}, {2, 2}, {2, 2}, NONE, ONES, NONE, true}},
    {"depthwise", {2, 1, 1, 1, 9, {9, 20}, {2, 2}, {2, 2}, NONE, ONES, NONE, true}},
    {"threes", {2, 1, 6, 5, 1, {7, 40}, {3, 3}, {3, 3}, NONE, ONES, NONE, true}},
    {"fours", {2, 1, 6, 5, 1, {7, 40}, {4, 4}, {4, 4}, NONE, ONES, NONE, true}},
    {"fives by ones", {2, 1, 6, 5, 1, {7, 40}, {5, 1}, {5, 1}, NONE, ONES, NONE, true}},
    {"ones by twos", {2, 1, 6, 5, 1, {7, 40}, {1, 2}, {1, 2}, NONE, ONES, NONE, true}},
    {"a column", {2, 1, 6, 5, 1, {40, 1}, {2, 1}, {2, 1}, NONE, ONES, NONE, true}},
    {"one window", {2, 3, 6, 5, 1, {1, 1}, {2, 2}, {2, 2}, NONE, ONES, NONE, true}},
    {"signals", {1, 2, 6, 5, 1, {900}, {8}, {8}, NONE, ONES, NONE, true}},
    {"long signals", {1, 1, 2, 1, 1, {70000}, {2}, {2}, NONE, ONES, NONE, true}},
    {"volumes", {3, 1, 6, 5, 1, {5, 6, 7}, {2, 3, 2}, {2, 3, 2}, NONE, ONES, NONE, true}},
    {"dilated along a single tap", {1, 1, 6, 5, 1, {40}, {1}, {1}, NONE, {3}, NONE, true}},
    {"elements added", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, ONES, {1, 1}, true}},
    {"padded", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, ONES, ONES, NONE, true}},
    {"padded and added", {2, 1, 6, 5, 1, {9, 13}, {3, 3}, {3, 3}, ONES, ONES, {2, 2}, true}},
    {"dilated", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 2}, NONE, {2, 2}, NONE, true}},
    {"meeting along one axis", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {2, 1}, NONE, ONES, NONE, true}},
    {"with gaps", {2, 1, 6, 5, 1, {9, 13}, {2, 2}, {3, 3}, NONE, ONES, NONE, true}},
};

START_TEST(as_the_reference) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  for (int t = 0; t < 4; ++t) {
    tn_tensor *y = convolve(b.devices[0], types[t], &cases[_i].s);
    const int64_t count = tn_tensor_elements(y);
    double *want = values_of(y);
    tn_tensor_release(y);
    for (int d = 1; d < b.count; ++d)
      must_be(&b, cases[_i].name, d, convolve(b.devices[d], types[t], &cases[_i].s), count, want,
              0);
    free(want);
  }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("windows_apart", add_tests); }
