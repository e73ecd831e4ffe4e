/*
 * elu and its like, and gradients of activations, of floats on the CPU: within their operators'
 * bounds of the reference in double over floats of all sizes, also where a slope is less than any
 * float and dy makes a normal number of it, where products overflow, and for factors on either side
 * of those that are multiplied in float.
 */
#include <float.h>
#include <string.h>

#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

typedef union attributes {
  tn_elu_attrs elu;
  tn_celu_attrs celu;
  tn_elu_grad_attrs elu_grad;
  tn_softplus_grad_attrs softplus_grad;
  tn_leaky_relu_attrs leaky_relu;
  tn_leaky_relu_grad_attrs leaky_relu_grad;
} attributes;

typedef struct sloped {
  const char *op;
  bool gradient;
  double alpha, beta, threshold; /* of those that have them, else 0 */
  double relative;               /* to the sum of its terms, or 0: 2 units in the last place */
} sloped;

static const sloped cases[] = {
    {.op = "selu"},
    {.op = "elu", .alpha = 1},
    {.op = "elu", .alpha = 0.7},
    {.op = "elu", .alpha = 2},
    {.op = "elu", .alpha = 2.0000000001},
    {.op = "elu", .alpha = 0x1p-10},
    {.op = "elu", .alpha = 0x1.fp-11},
    {.op = "elu", .alpha = 0},
    {.op = "elu", .alpha = -1.3},
    {.op = "elu", .alpha = 1e30},
    {.op = "celu", .alpha = 1},
    {.op = "celu", .alpha = 0.7},
    {.op = "celu", .alpha = 1.9},
    {.op = "celu", .alpha = 0x1.01p-10},
    {.op = "celu", .alpha = 5},
    {.op = "hardswish"},
    {.op = "leaky_relu", .alpha = 0.01},
    {.op = "leaky_relu", .alpha = -0.3},
    {.op = "leaky_relu", .alpha = 0},
    {.op = "leaky_relu", .alpha = 1e-40},
    {.op = "leaky_relu", .alpha = 1e300},
    {.op = "leaky_relu_grad", .gradient = true, .alpha = 0.01},
    {.op = "leaky_relu_grad", .gradient = true, .alpha = 1e-40},
    {.op = "leaky_relu_grad", .gradient = true, .alpha = 1e300},
    {.op = "selu_grad", .gradient = true},
    {.op = "elu_grad", .gradient = true, .alpha = 1},
    {.op = "elu_grad", .gradient = true, .alpha = 0.3},
    {.op = "elu_grad", .gradient = true, .alpha = 2},
    {.op = "elu_grad", .gradient = true, .alpha = 0x1p-10},
    {.op = "elu_grad", .gradient = true, .alpha = 1e-20},
    {.op = "elu_grad", .gradient = true, .alpha = -0.5},
    {.op = "elu_grad", .gradient = true, .alpha = 0},
    {.op = "softplus_grad", .gradient = true, .beta = 1, .threshold = 20},
    {.op = "softplus_grad", .gradient = true, .beta = 1, .threshold = 18},
    {.op = "softplus_grad", .gradient = true, .beta = 1, .threshold = 17.9},
    {.op = "softplus_grad", .gradient = true, .beta = 1, .threshold = 3},
    {.op = "softplus_grad", .gradient = true, .beta = 0.5, .threshold = 20},
    {.op = "silu_grad", .gradient = true, .relative = 1e-6},
    {.op = "sigmoid_grad", .gradient = true},
    {.op = "tanh_grad", .gradient = true},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

static const float slopes_of[] = {1,      -0.7f, 3,      0x1p-120f, -1e-38f,   1e-42f, 1e20f,
                                  -1e30f, 3e38f, -3e38f, INFINITY,  -INFINITY, NAN,    0};
enum { NUM_DY = sizeof slopes_of / sizeof *slopes_of };

/* Floats of all bit patterns, thinly, and more of those whose slopes are neither 0 nor 1. */
static int64_t draw(double *x, double *dy, int64_t most) {
  int64_t n = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX && n < most; bits += 262139) {
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    x[n++] = value;
  }
  const double ends[] = {-0.0, 0.0, INFINITY, -INFINITY, -64, -200, 3, -3};
  for (int i = 0; i < 8 * NUM_DY; i++) x[n++] = ends[i / NUM_DY];
  const double step = 0.00317 * case_step(1);
  for (double v = -240; v < 30 && n < most; v += step * (v < -20 ? 3 : 1)) x[n++] = (float)v;
  for (int64_t i = 0; i < n; i++) dy[i] = slopes_of[i % NUM_DY];
  return n;
}

static double *apply(tn_device *device, const sloped *c, tn_dtype dtype, int64_t n,
                     const double *dy, const double *x) {
  attributes attrs;
  memset(&attrs, 0, sizeof attrs);
  if (!strcmp(c->op, "elu")) attrs.elu = (tn_elu_attrs){sizeof attrs.elu, c->alpha};
  if (!strcmp(c->op, "celu")) attrs.celu = (tn_celu_attrs){sizeof attrs.celu, c->alpha};
  if (!strcmp(c->op, "elu_grad"))
    attrs.elu_grad = (tn_elu_grad_attrs){sizeof attrs.elu_grad, c->alpha};
  if (!strcmp(c->op, "leaky_relu"))
    attrs.leaky_relu = (tn_leaky_relu_attrs){sizeof attrs.leaky_relu, c->alpha};
  if (!strcmp(c->op, "leaky_relu_grad"))
    attrs.leaky_relu_grad = (tn_leaky_relu_grad_attrs){sizeof attrs.leaky_relu_grad, c->alpha};
  if (c->beta != 0)
    attrs.softplus_grad =
        (tn_softplus_grad_attrs){sizeof attrs.softplus_grad, c->beta, c->threshold};
  tn_tensor *u = numbers(device, dtype, 1, &n, c->gradient ? dy : x), *y = NULL;
  tn_tensor *v = c->gradient ? numbers(device, dtype, 1, &n, x) : NULL;
  const tn_tensor *in[] = {u, v};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &y};
  call.stream = tn_device_default_stream(device);
  call.num_in = c->gradient ? 2 : 1;
  call.num_out = 1;
  call.attrs = attrs.elu.struct_size ? &attrs : NULL;
  ok(tn_op_find(b.runtime, c->op, &call.op));
  ok(tn_invoke(&call));
  double *values = values_of(y);
  tn_tensor_release(u);
  tn_tensor_release(v);
  tn_tensor_release(y);
  return values;
}

/* A unit in the last place of the float nearest to a number. */
static double unit_of(double x) {
  int exponent;
  if (x == 0) return 0x1p-149;
  (void)frexp(x, &exponent);
  return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static bool is_near(const sloped *c, double dy, double x, double got, double want) {
  if (isnan(want)) return isnan(got);
  if ((float)got == (float)want)
    return signbit(got) == signbit(want) || want != 0 || c->relative != 0;
  double most = 2 * unit_of(want);
  if (c->relative != 0) {
    const double e = exp(-fabs(x)), near = 1 / (1 + e), far = e / (1 + e);
    const double terms = (x < 0 ? far : near) + fabs(x) * near * far;
    most = c->relative * fabs(dy) * terms + 2 * unit_of(0);
  }
  /* What is as good as the largest float may have become infinite, and the other way round. */
  if (isinf(got)) return fabs(want) >= (double)FLT_MAX - most && (got > 0) == (want > 0);
  return fabs(got - want) <= most || (fabs(got) >= (double)FLT_MAX - most && isinf((float)want));
}

START_TEST(slopes_are_within_their_bounds) {
  enum { MOST = 1 << 17 };
  const sloped *c = &cases[_i];
  double *x = malloc(MOST * sizeof *x), *dy = malloc(MOST * sizeof *dy);
  const int64_t n = draw(x, dy, MOST);
  double *want = apply(b.devices[0], c, TN_F64, n, dy, x);
  double *got = apply(b.devices[1], c, TN_F32, n, dy, x);
  for (int64_t i = 0; i < n; i++)
    if (!is_near(c, dy[i], x[i], got[i], want[i]))
      ck_abort_msg("%s of alpha %g, beta %g to %g at %.9g, dy %g: %.9g, not %.9g", c->op, c->alpha,
                   c->beta, c->threshold, x[i], dy[i], got[i], want[i]);
  free(x), free(dy), free(want), free(got);
}
END_TEST

/* Gradients by an output that is at most 2 are what they are without larger ones beside it, and
 * within their bounds. */
START_TEST(larger_outputs_change_no_others) {
  enum { N = 3000 };
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  const sloped *c = &cases[NUM_CASES - 1 - _i / 3]; /* the last two */
  const tn_dtype dtype = dtypes[_i % 3];
  double x[N], dy[N];
  for (int i = 0; i < N; i++) {
    x[i] = (double)(float)(-2 + 4 * i / (N - 1.0));
    dy[i] = slopes_of[i % NUM_DY];
  }
  double *alone = apply(b.devices[1], c, dtype, N, dy, x);
  double *want = apply(b.devices[0], c, TN_F64, N, dy, x);
  x[700] = 2.5, x[1600] = -3e4, x[2999] = NAN;
  double *beside = apply(b.devices[1], c, dtype, N, dy, x);
  for (int i = 0; i < N; i++) {
    if (i == 700 || i == 1600 || i == 2999) continue;
    ck_assert_msg(alone[i] == beside[i] || (isnan(alone[i]) && isnan(beside[i])),
                  "%s at %.9g, dy %g: %.9g, and %.9g beside larger ones", c->op, x[i], dy[i],
                  alone[i], beside[i]);
    if (dtype == TN_F32 && !is_near(c, dy[i], x[i], alone[i], want[i]))
      ck_abort_msg("%s at %.9g, dy %g: %.9g, not %.9g", c->op, x[i], dy[i], alone[i], want[i]);
  }
  free(alone), free(want), free(beside);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, slopes_are_within_their_bounds, 0, NUM_CASES);
  tcase_add_loop_test(tcase, larger_outputs_change_no_others, 0, 6);
}

int main(void) { return run_suite("slopes", add_tests); }
