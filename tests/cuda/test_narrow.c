/*
 * Functions that CUDA computes for results of 16 bits alone (kernels/cuda/elementwise/narrow.cuh):
 * every number of f16 and bf16, in a dense run and with gaps, against what the reference computes
 * of it in double, as far apart as `tenon check` allows. Skipped where no GPU is.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/cuda/gpu.h"

enum { PATTERNS = 65536 };

static tn_runtime *rt;
static tn_device *gpu, *reference;

static void setup(void) {
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
  ok(tn_device_find(rt, "reference", &reference));
}
static void teardown(void) { tn_runtime_close(rt); }

/* Beside operators how many units of float's last place a result may be off before it is rounded,
 * as their rows have it. */
static const struct {
  uint32_t op;
  double tolerance;
} cases[] = {{TN_OP_EXP, 1},  {TN_OP_EXP2, 2}, {TN_OP_COSH, 2}, {TN_OP_SELU, 2}, {TN_OP_SIGMOID, 1},
             {TN_OP_SILU, 2}, {TN_OP_GELU, 2}, {TN_OP_MISH, 2}, {TN_OP_TANH, 1}, {TN_OP_ELU, 2}};

static tn_tensor *apply(uint32_t op, tn_tensor *x) {
  const tn_tensor *in[] = {x};
  tn_tensor *y = NULL;
  tn_call call = {
      .struct_size = sizeof call, .op = op, .in = in, .num_in = 1, .out = &y, .num_out = 1};
  ok(tn_invoke(&call));
  return y;
}

static tn_tensor *as(const tn_tensor *x, tn_dtype dtype) {
  const tn_cast_attrs to = {.struct_size = sizeof to, .dtype = (int32_t)dtype};
  tn_tensor *y = NULL;
  ok(tn_cast(NULL, x, &to, &y));
  return y;
}

/* The number of a pattern, exact. */
static double number_of(uint16_t bits, tn_dtype dtype) {
  const bool half = dtype == TN_F16;
  const int kept = half ? 10 : 7, bias = half ? 15 : 127, exponent = (bits & 0x7fff) >> kept;
  const int mantissa = bits & ((1 << kept) - 1), most = 2 * bias + 1;
  double x = exponent == most ? (mantissa ? NAN : INFINITY)
             : exponent       ? ldexp(mantissa + (1 << kept), exponent - bias - kept)
                              : ldexp(mantissa, 1 - bias - kept);
  return bits & 0x8000 ? -x : x;
}

/* Every second number of a tensor of twice as many, so that it is no dense run. */
static tn_tensor *strided(tn_dtype dtype, const uint16_t *bits) {
  uint16_t *twice = malloc(2 * PATTERNS * sizeof *twice);
  tn_tensor *wide = NULL, *part = NULL;
  ck_assert_ptr_nonnull(twice);
  for (int i = 0; i < PATTERNS; i++) twice[2 * i] = twice[2 * i + 1] = bits[i];
  ok(tn_tensor_from_host(gpu, dtype, 1, SHAPE(2 * PATTERNS), twice, &wide));
  ok(tn_tensor_slice(wide, 0, 0, 2 * PATTERNS, 2, &part));
  tn_tensor_release(wide);
  free(twice);
  return part;
}

/* How far apart neighbours are where y lies. */
static double step_of(double y, tn_dtype dtype) {
  int exponent;
  (void)frexp(y, &exponent);
  const int least = dtype == TN_F16 ? -24 : -133, step = exponent - (dtype == TN_F16 ? 11 : 8);
  return ldexp(1, y == 0 || step < least ? least : step);
}

START_TEST(every_number) {
  const uint32_t op = cases[_i / 4].op;
  const tn_dtype dtype = _i % 2 ? TN_BF16 : TN_F16;
  const double bound = 0.5 + ldexp(cases[_i / 4].tolerance, dtype == TN_BF16 ? -16 : -13);
  const double most = dtype == TN_F16 ? 65504 : ldexp(255, 120);
  uint16_t *bits = malloc(PATTERNS * sizeof *bits), *got = malloc(PATTERNS * sizeof *got);
  double *wanted = malloc(PATTERNS * sizeof *wanted);
  ck_assert(bits && got && wanted);
  for (int i = 0; i < PATTERNS; i++) bits[i] = (uint16_t)(i * 40503 + 77);
  tn_tensor *x = NULL, *near = NULL;
  if (_i / 2 % 2)
    x = strided(dtype, bits);
  else
    ok(tn_tensor_from_host(gpu, dtype, 1, SHAPE(PATTERNS), bits, &x));
  ok(tn_tensor_from_host(reference, dtype, 1, SHAPE(PATTERNS), bits, &near));
  tn_tensor *y = apply(op, x), *wide = as(near, TN_F64), *exact = apply(op, wide);
  ok(tn_tensor_to_host(y, got, PATTERNS * sizeof *got));
  ok(tn_tensor_to_host(exact, wanted, PATTERNS * sizeof *wanted));
  double worst = 0;
  for (int i = 0; i < PATTERNS; i++) {
    const double is = number_of(got[i], dtype), should = wanted[i];
    if (isnan(should) && isnan(is)) continue;
    /* What rounds to more than the last number is infinite. */
    const bool over = fabs(should) > most + step_of(most, dtype) * (1 - bound);
    const double apart = is == should || (over && isinf(is) && (is > 0) == (should > 0))
                             ? 0
                             : fabs(is - should) / step_of(should, dtype);
    if (!(apart <= bound))
      ck_abort_msg("operator %u of %04x: %04x is %g, and %.9g exact: %g units", (unsigned)op,
                   bits[i], got[i], is, should, apart);
    if (apart > worst) worst = apart;
  }
  ck_assert(worst > 0.4);
  tn_tensor_release(x), tn_tensor_release(near), tn_tensor_release(y);
  tn_tensor_release(wide), tn_tensor_release(exact);
  free(bits), free(got), free(wanted);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, every_number, 0, 4 * (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite_on_gpu("cuda-narrow", add_tests); }
