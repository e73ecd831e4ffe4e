/*
 * float64 activations to float64's own precision, also where they are nearly 0: values and
 * slopes from 80 digits and more, rounded once. And the ends of lerp, which no infinity spoils.
 */
#include "numeric.h"

typedef struct tail {
  double x, y, slope;
} tail;

static const tail of_gelu[] = {
    {0.3, 0x1.7ba510284da91p-3, 0x1.76f3aa40f346fp-1},
    {1.7, 0x1.9fce1bba90cc5p+0, 0x1.1d857a788f800p+0},
    {6.25, 0x1.8ffffffe9f6c8p+2, 0x1.00000022641a6p+0},
    {50.0, 0x1.9000000000000p+5, 0x1.0000000000000p+0},
    {-0.3, -0x1.d582ac7c317abp-4, 0x1.1218ab7e19722p-2},
    {-2.1, -0x1.3353404bba63fp-5, -0x1.312819124a74dp-4},
    {-5.7, -0x1.254de80451857p-25, -0x1.a1445762e3e01p-23},
    {-10.3, -0x1.18c2f01d7e678p-78, -0x1.696b4395dbfdfp-75},
    {-17.9, -0x1.74f24d8582c74p-233, -0x1.a139d3c28be1bp-229},
    {-25.6, -0x1.e7aa59991db9dp-475, -0x1.86216b1e27044p-470},
    {-31.1, -0x1.f854e61fe34dcp-700, -0x1.ea2571baef419p-695},
    {-35.99, -0x1.40ea7e1f44ec9p-936, -0x1.68ee057065295p-931},
    {-36.01, -0x1.3869d66c34624p-937, -0x1.5f8ff427373c4p-932},
    {-36.7, -0x1.11e24b4ad6044p-973, -0x1.3a1c3e23c83dap-968},
    {-37.3, -0x1.0ca85bf223436p-1005, -0x1.39275c7209930p-1000},
    {-37.4, -0x1.9a7aa0dac2a53p-1011, -0x1.dfbf325fad5ddp-1006},
    {-38.2, -0x0.0000000109c8ap-1022, -0x0.00000027a8ee4p-1022},
};
static const tail of_gelu_tanh[] = {
    {0.3, 0x1.7ba3c031f6b7ap-3, 0x1.76ef6def98ae2p-1},
    {1.7, 0x1.9fc5676aa20ccp+0, 0x1.1dac94cf37824p+0},
    {6.25, 0x1.8ffffffffdd2ap+2, 0x1.000000005552cp+0},
    {50.0, 0x1.9000000000000p+5, 0x1.0000000000000p+0},
    {-0.3, -0x1.d5854c68df5d9p-4, 0x1.12212420cea3cp-2},
    {-2.1, -0x1.31d0c55a36928p-5, -0x1.34a3224df0432p-4},
    {-5.7, -0x1.40762d713165dp-30, -0x1.4f7ea25b6dc1bp-27},
    {-10.3, -0x1.1e9d74efdd378p-133, -0x1.b1a99cef5aff9p-129},
    {-15.1, -0x1.a706b4d2089f7p-386, -0x1.4cb9cfda9358ep-380},
    {-18.7, -0x1.013ba663f3052p-712, -0x1.3310da8fceedap-706},
    {-20.1, -0x1.1130d167bbcd9p-878, -0x1.77c41f2328ef7p-872},
    {-20.6, -0x1.050ec30253672p-943, -0x1.78d9fabafc64bp-937},
    {-21.1, -0x1.b7db38ccdb6b8p-1012, -0x1.4cd1f0853bf46p-1005},
};
static const tail of_silu[] = {
    {0.3, 0x1.60effed787fd9p-3, 0x1.4ba9d24ea4f01p-1},
    {1.7, 0x1.6ffa0a19f78ebp+0, 0x1.114be84a4f77ep+0},
    {40.5, 0x1.4400000000000p+5, 0x1.0000000000000p+0},
    {-0.3, -0x1.0576678ede68dp-3, 0x1.68ac5b62b61ffp-2},
    {-2.1, -0x1.d5341fb16dfd7p-3, -0x1.852b5d5a3c3ffp-4},
    {-20.3, -0x1.0a42df11e7b30p-25, -0x1.fa4a304e69f55p-26},
    {-100.7, -0x1.4be1f329e169ap-139, -0x1.48963c81addb0p-139},
    {-400.1, -0x1.56f7db39425e4p-569, -0x1.561c695c2deb5p-569},
    {-599.9, -0x1.b047c0003756ep-857, -0x1.af8f4798c64a2p-857},
    {-600.1, -0x1.620a058d22b1cp-857, -0x1.6172fd7aba34cp-857},
    {-700.3, -0x1.189f9f48d6f8ep-1001, -0x1.183909c36ab75p-1001},
    {-708.9, -0x1.ac6eb2ddabd03p-1014, -0x1.abd3fb613d92bp-1014},
    {-715.2, -0x0.cb318234c8f5cp-1022, -0x0.cae8c6f6b7362p-1022},
    {-735.5, -0x0.000000055a65dp-1022, -0x0.000000055888dp-1022},
    {-741.3, -0x0.00000000042e8p-1022, -0x0.00000000042d1p-1022},
};
static const tail of_mish[] = {
    {0.3, 0x1.a9fc9f9e10f15p-3, 0x1.90cebd63f9e85p-1},
    {1.7, 0x1.9eeaa81020381p+0, 0x1.1591e3306ecaep+0},
    {40.5, 0x1.4400000000000p+5, 0x1.0000000000000p+0},
    {-0.3, -0x1.35854fa932a16p-3, 0x1.a250ace1ff19cp-2},
    {-2.1, -0x1.eea0ca737c7bap-3, -0x1.c6ebac6fffd42p-4},
    {-20.3, -0x1.0a42df1550ca7p-25, -0x1.fa4a305bb84e4p-26},
    {-100.7, -0x1.4be1f329e169ap-139, -0x1.48963c81addb0p-139},
    {-400.1, -0x1.56f7db39425e4p-569, -0x1.561c695c2deb5p-569},
    {-599.9, -0x1.b047c0003756ep-857, -0x1.af8f4798c64a2p-857},
    {-600.1, -0x1.620a058d22b1cp-857, -0x1.6172fd7aba34cp-857},
    {-700.3, -0x1.189f9f48d6f8ep-1001, -0x1.183909c36ab75p-1001},
    {-708.9, -0x1.ac6eb2ddabd03p-1014, -0x1.abd3fb613d92bp-1014},
    {-715.2, -0x0.cb318234c8f5cp-1022, -0x0.cae8c6f6b7362p-1022},
    {-735.5, -0x0.000000055a65dp-1022, -0x0.000000055888dp-1022},
    {-741.3, -0x0.00000000042e8p-1022, -0x0.00000000042d1p-1022},
};

typedef struct activation {
  const char *op, *gradient;
  int flag; /* of gelu: the tanh approximation */
  const tail *tails;
  int count;
} activation;

#define TAILS(name) of_##name, sizeof of_##name / sizeof *of_##name
static const activation activations[] = {{"gelu", "gelu_grad", 0, TAILS(gelu)},
                                         {"gelu", "gelu_grad", 1, TAILS(gelu_tanh)},
                                         {"silu", "silu_grad", -1, TAILS(silu)},
                                         {"mish", "mish_grad", -1, TAILS(mish)}};
enum { NUM_ACTIVATIONS = 4, MOST_TAILS = 32 };

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* Units in the last place of `want`, which may be subnormal. */
static double units(double got, double want) {
  int exponent;
  if (got == want) return 0;
  (void)frexp(want, &exponent);
  return fabs(got - want) / ldexp(1, exponent - 53 > -1074 ? exponent - 53 : -1074);
}

static double *apply(tn_device *device, const char *name, int flag, int count, const double *dy,
                     const double *x) {
  const tn_gelu_attrs attrs = {sizeof attrs, flag > 0};
  const int64_t n = count;
  tn_tensor *a = numbers(device, TN_F64, 1, &n, dy ? dy : x), *y = NULL;
  tn_tensor *c = dy ? numbers(device, TN_F64, 1, &n, x) : NULL;
  const tn_tensor *in[] = {a, c};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &y};
  call.stream = tn_device_default_stream(device);
  call.num_in = dy ? 2 : 1;
  call.num_out = 1;
  call.attrs = flag >= 0 ? &attrs : NULL;
  ok(tn_op_find(b.runtime, name, &call.op));
  ok(tn_invoke(&call));
  double *values = values_of(y);
  tn_tensor_release(a);
  tn_tensor_release(c);
  tn_tensor_release(y);
  return values;
}

/* A few functions of the maths library, each good to about one unit, and near a slope's root the
 * difference of two of them. */
static const double bound = 8;

START_TEST(activations_keep_their_digits) {
  const activation *f = &activations[_i];
  double x[MOST_TAILS], ones[MOST_TAILS];
  for (int i = 0; i < f->count; ++i) x[i] = f->tails[i].x, ones[i] = 1;
  for (int d = 0; d < b.count; ++d) {
    double *y = apply(b.devices[d], f->op, f->flag, f->count, NULL, x);
    double *dx = apply(b.devices[d], f->gradient, f->flag, f->count, ones, x);
    for (int i = 0; i < f->count; ++i) {
      const tail *want = &f->tails[i];
      if (units(y[i], want->y) > bound || units(dx[i], want->slope) > bound)
        ck_abort_msg(
            "%s on %s at %.17g: %.17g for %.17g, %g units; slope %.17g for %.17g, %g units", f->op,
            b.names[d], x[i], y[i], want->y, units(y[i], want->y), dx[i], want->slope,
            units(dx[i], want->slope));
    }
    free(y);
    free(dx);
  }
}
END_TEST

/* The same function at the end of a product. */
START_TEST(epilogues_keep_their_digits) {
  static const int64_t which[] = {TN_ACTIVATION_GELU, TN_ACTIVATION_GELU_TANH};
  const activation *f = &activations[_i];
  const tn_matmul_attrs attrs = {sizeof attrs, 0, 0, which[_i]};
  const double one = 1;
  double x[MOST_TAILS];
  for (int i = 0; i < f->count; ++i) x[i] = f->tails[i].x;
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *a = numbers(b.devices[d], TN_F64, 2, SHAPE(f->count, 1), x), *y = NULL;
    tn_tensor *w = numbers(b.devices[d], TN_F64, 2, SHAPE(1, 1), &one);
    ok(tn_matmul(NULL, a, w, NULL, &attrs, &y));
    double *got = values_of(y);
    for (int i = 0; i < f->count; ++i)
      if (units(got[i], f->tails[i].y) > bound)
        ck_abort_msg("matmul and %s on %s at %.17g: %.17g for %.17g", f->op, b.names[d], x[i],
                     got[i], f->tails[i].y);
    free(got);
    tn_tensor_release(a);
    tn_tensor_release(w);
    tn_tensor_release(y);
  }
}
END_TEST

/* The loss of what is as good as certain, and right: ln(1 + e^-|x|), element by element. */
START_TEST(certain_logits_keep_their_loss) {
  enum { COUNT = 8 };
  static const double x[COUNT] = {-1, -4, -8, -17, -40, 5, 9, 30};
  static const tn_dtype types[] = {TN_F32, TN_F64};
  const tn_bce_with_logits_attrs attrs = {sizeof attrs, TN_REDUCTION_NONE};
  double target[COUNT];
  for (int i = 0; i < COUNT; ++i) target[i] = x[i] > 0;
  for (int d = 0; d < b.count; ++d)
    for (int k = 0; k < 2; ++k) {
      tn_tensor *logits = numbers(b.devices[d], types[k], 1, SHAPE(COUNT), x), *y = NULL;
      tn_tensor *right = numbers(b.devices[d], types[k], 1, SHAPE(COUNT), target);
      ok(tn_bce_with_logits(NULL, logits, right, NULL, NULL, &attrs, &y));
      double *got = values_of(y);
      for (int i = 0; i < COUNT; ++i) {
        const double want = log1p(exp(-fabs(x[i]))), most = (k ? 1e-15 : 5e-7) * want;
        if (!(fabs(got[i] - want) <= most))
          ck_abort_msg("%s on %s at %g: %.9g, not %.9g", tn_dtype_name(types[k]), b.names[d], x[i],
                       got[i], want);
      }
      free(got);
      tn_tensor_release(logits), tn_tensor_release(right), tn_tensor_release(y);
    }
}
END_TEST

START_TEST(lerp_is_exact_at_its_ends) {
  const double inf = (double)INFINITY;
  const double from[] = {1, inf, 1, -inf, inf, 1, -3}, to[] = {inf, 1, -inf, inf, -inf, 2, 5};
  const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  for (int d = 0; d < b.count; ++d)
    for (int k = 0; k < 4; ++k)
      for (int t = 0; t <= 1; ++t) {
        const double weights[] = {t, t, t, t, t, t, t};
        tn_tensor *a = numbers(b.devices[d], types[k], 1, SHAPE(7), from), *y = NULL;
        tn_tensor *z = numbers(b.devices[d], types[k], 1, SHAPE(7), to);
        tn_tensor *w = numbers(b.devices[d], types[k], 1, SHAPE(7), weights);
        ok(tn_lerp(NULL, a, z, w, &y));
        double *got = values_of(y);
        for (int i = 0; i < 7; ++i)
          if (got[i] != (t ? to[i] : from[i]))
            ck_abort_msg("lerp %s on %s: %g to %g at %d is %g", tn_dtype_name(types[k]), b.names[d],
                         from[i], to[i], t, got[i]);
        free(got);
        tn_tensor *used[] = {a, z, w, y};
        for (int i = 0; i < 4; ++i) tn_tensor_release(used[i]);
      }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, activations_keep_their_digits, 0, NUM_ACTIVATIONS);
  tcase_add_loop_test(tcase, epilogues_keep_their_digits, 0, 2);
  tcase_add_test(tcase, certain_logits_keep_their_loss);
  tcase_add_test(tcase, lerp_is_exact_at_its_ends);
}

int main(void) { return run_suite("far_tail", add_tests); }
