/*
 * Convolutions of sizes that fall together: one channel, a kernel of one element, an image of
 * one, in every combination with two of each. Strides of matrices with one row or one column
 * mean nothing, and what is made of them must be right all the same. Inputs are small whole
 * numbers, so that every type and every device has the reference's result exactly; outputs
 * hold NaN before the call.
 */
#include "numeric.h"

/* The attributes of every convolution: numbers in one order, see api/ops/conv_nd.def. */
typedef struct conv_attrs {
  uint32_t struct_size;
  int64_t number[24];
} conv_attrs;

/* One form of a case: operator, shapes of its two inputs and its output. */
typedef struct form {
  char name[48];
  int rank;
  int64_t a[5], b[5], y[5];
  int64_t bias; /* its size, or 0 */
  conv_attrs attrs;
} form;

typedef struct sizes {
  int rank; /* spatial axes */
  int64_t n, c, k, groups, stride;
  int64_t image[3], kernel[3];
} sizes;

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static int64_t elements(int rank, const int64_t *shape) {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  return count;
}

/* Whole numbers from -2 to 2: sums of 64 products of them fit bfloat16. */
static tn_tensor *small_numbers(tn_device *device, tn_dtype dtype, int rank, const int64_t *shape,
                                uint32_t seed) {
  double values[512];
  ck_assert_int_le(elements(rank, shape), 512);
  for (int64_t i = 0; i < elements(rank, shape); ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (double)((seed >> 16) % 5) - 2;
  }
  return numbers(device, dtype, rank, shape, values);
}

/* What lies in memory that was released is large, and nowhere 0. */
static void leave_traces(tn_device *device) {
  tn_tensor *t[4];
  for (int i = 0; i < 4; ++i) t[i] = unwritten(device, TN_F64, 1, SHAPE(16 << 2 * i));
  for (int i = 0; i < 4; ++i) tn_tensor_release(t[i]);
}

static double *result_of(tn_device *device, tn_dtype dtype, const form *f, uint32_t op) {
  tn_tensor *in[3] = {small_numbers(device, dtype, f->rank, f->a, 1),
                      small_numbers(device, dtype, f->rank, f->b, 2)};
  if (f->bias) in[2] = small_numbers(device, dtype, 1, &f->bias, 3);
  tn_tensor *out[1] = {unwritten(device, dtype, f->rank, f->y)};
  const bool takes_bias = !strstr(f->name, "grad");
  const tn_call call = {.struct_size = sizeof call,
                        .op = op,
                        .stream = tn_device_default_stream(device),
                        .in = (const tn_tensor *const *)in,
                        .out = out,
                        .attrs = &f->attrs,
                        .num_in = takes_bias ? 3 : 2,
                        .num_out = 1};
  leave_traces(device);
  ok(tn_invoke(&call));
  double *values = values_of(out[0]);
  for (int i = 0; i < 3; ++i) tn_tensor_release(in[i]);
  tn_tensor_release(out[0]);
  return values;
}

static void compare(const form *f, tn_dtype dtype) {
  uint32_t op;
  ok(tn_op_find(b.runtime, f->name, &op));
  double *want = result_of(b.devices[0], dtype, f, op);
  for (int d = 1; d < b.count; ++d) {
    double *got = result_of(b.devices[d], dtype, f, op);
    for (int64_t i = 0; i < elements(f->rank, f->y); ++i)
      if (got[i] != want[i])
        ck_abort_msg("%s %s on %s: element %d is %g, not %g; inputs [%d, %d, %d..] [%d, %d, %d..]",
                     f->name, tn_dtype_name(dtype), b.names[d], (int)i, got[i], want[i],
                     (int)f->a[0], (int)f->a[1], (int)f->a[2], (int)f->b[0], (int)f->b[1],
                     (int)f->b[2]);
    free(got);
  }
  free(want);
}

/* stride, padding, dilation, groups, and two rows of numbers that some of the forms add. */
static conv_attrs attrs_of(const sizes *s, const int64_t *first, const int64_t *second) {
  conv_attrs attrs = {.struct_size = offsetof(conv_attrs, number)};
  int at = 0;
  for (int d = 0; d < s->rank; ++d) attrs.number[at++] = s->stride;
  for (int d = 0; d < s->rank; ++d) attrs.number[at++] = 0;
  for (int d = 0; d < s->rank; ++d) attrs.number[at++] = 1;
  attrs.number[at++] = s->groups;
  for (int d = 0; first && d < s->rank; ++d) attrs.number[at++] = first[d];
  for (int d = 0; second && d < s->rank; ++d) attrs.number[at++] = second[d];
  attrs.struct_size += (uint32_t)at * (uint32_t)sizeof(int64_t);
  return attrs;
}

static void shape_of(int64_t *shape, int rank, int64_t first, int64_t second,
                     const int64_t *spatial) {
  shape[0] = first;
  shape[1] = second;
  for (int d = 0; d < rank; ++d) shape[2 + d] = spatial[d];
}

static form form_of(const sizes *s, const char *name, const char *suffix) {
  form f = {.rank = s->rank + 2};
  snprintf(f.name, sizeof f.name, "%s%dd%s", name, s->rank, suffix);
  return f;
}

/* x [n, c, image], w [k, c / groups, kernel], y [n, k, out]. */
static void convolutions(const sizes *s, tn_dtype dtype) {
  int64_t x[5], w[5], y[5], out[3];
  for (int d = 0; d < s->rank; ++d) {
    if (s->kernel[d] > s->image[d]) return;
    out[d] = (s->image[d] - s->kernel[d]) / s->stride + 1;
  }
  shape_of(x, s->rank, s->n, s->c * s->groups, s->image);
  shape_of(w, s->rank, s->k * s->groups, s->c, s->kernel);
  shape_of(y, s->rank, s->n, s->k * s->groups, out);
  form f = form_of(s, "conv", "");
  memcpy(f.a, x, sizeof x), memcpy(f.b, w, sizeof w), memcpy(f.y, y, sizeof y);
  f.attrs = attrs_of(s, NULL, NULL);
  compare(&f, dtype);
  f.bias = y[1];
  compare(&f, dtype);
  f = form_of(s, "conv", "_grad_input");
  memcpy(f.a, y, sizeof y), memcpy(f.b, w, sizeof w), memcpy(f.y, x, sizeof x);
  f.attrs = attrs_of(s, s->image, NULL);
  compare(&f, dtype);
  f = form_of(s, "conv", "_grad_weight");
  memcpy(f.a, y, sizeof y), memcpy(f.b, x, sizeof x), memcpy(f.y, w, sizeof w);
  f.attrs = attrs_of(s, s->kernel, NULL);
  compare(&f, dtype);
}

/* x [n, k, image], w [k, c / groups, kernel], y [n, c, out]. */
static void transposed(const sizes *s, tn_dtype dtype) {
  const int64_t none[3] = {0, 0, 0};
  int64_t x[5], w[5], y[5], out[3];
  for (int d = 0; d < s->rank; ++d) out[d] = (s->image[d] - 1) * s->stride + s->kernel[d];
  shape_of(x, s->rank, s->n, s->k * s->groups, s->image);
  shape_of(w, s->rank, s->k * s->groups, s->c, s->kernel);
  shape_of(y, s->rank, s->n, s->c * s->groups, out);
  form f = form_of(s, "conv_transpose", "");
  memcpy(f.a, x, sizeof x), memcpy(f.b, w, sizeof w), memcpy(f.y, y, sizeof y);
  f.attrs = attrs_of(s, none, NULL);
  compare(&f, dtype);
  f.bias = y[1];
  compare(&f, dtype);
  f = form_of(s, "conv_transpose", "_grad_input");
  memcpy(f.a, y, sizeof y), memcpy(f.b, w, sizeof w), memcpy(f.y, x, sizeof x);
  f.attrs = attrs_of(s, none, NULL);
  compare(&f, dtype);
  f = form_of(s, "conv_transpose", "_grad_weight");
  memcpy(f.a, y, sizeof y), memcpy(f.b, x, sizeof x), memcpy(f.y, w, sizeof w);
  f.attrs = attrs_of(s, none, s->kernel);
  compare(&f, dtype);
}

/* Every combination of 1 and 2, one bit each: n, c, k, groups, stride, then the image and the
 * kernel of every axis. */
static void sweep(int rank, tn_dtype dtype) {
  for (unsigned bits = 0; bits < 1u << (5 + 2 * rank); ++bits) {
    sizes s = {.rank = rank};
    int64_t *const size[] = {&s.n, &s.c, &s.k, &s.groups, &s.stride};
    for (unsigned i = 0; i < 5; ++i) *size[i] = 1 + (bits >> i & 1);
    for (int d = 0; d < rank; ++d) {
      s.image[d] = 1 + (bits >> (5 + d) & 1);
      s.kernel[d] = 1 + (bits >> (5 + rank + d) & 1);
    }
    convolutions(&s, dtype);
    transposed(&s, dtype);
  }
}

START_TEST(every_combination_of_one_and_two) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_F64, TN_BF16};
#ifdef __SANITIZE_ADDRESS__ /* one type that is computed in itself and one that is not */
  if (_i % 4 > 1) return;
#endif
  sweep(_i / 4 + 1, types[_i % 4]);
}
END_TEST

/* A transposed head that maps 64 channels to one, and its gradients. */
START_TEST(many_channels_to_one) {
  sizes s = {.rank = 2, .n = 2, .c = 1, .k = 16, .groups = 1, .stride = 1};
  for (int d = 0; d < 2; ++d) s.image[d] = 3, s.kernel[d] = 1;
  transposed(&s, TN_F32);
  convolutions(&s, TN_F32);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, every_combination_of_one_and_two, 0, 12);
  tcase_add_test(tcase, many_channels_to_one);
}

int main(void) { return run_suite("degenerate_conv", add_tests); }
