/*
 * Normalisation where float alone does not reach: a mean much larger than the deviation, numbers
 * whose squares leave float's range, eps 0, sets of nothing and of one value. What every device
 * gives in float32 and bfloat16 is held against the reference in float64 on the same numbers, by
 * the bounds of the operators' rows.
 */
#include "numeric.h"
#include "tenon/plugin.h"

typedef enum norm { LAYER, RMS, GROUP, INSTANCE, BATCH, INFERENCE, NORMS } norm;
static const char *const names[] = {"layer_norm",    "rms_norm",   "group_norm",
                                    "instance_norm", "batch_norm", "batch_norm_inference"};

enum { GROUPS = 2, MOST_OUT = 5 };

/* x as [n, c, inner], or [n, c] where inner is 1. */
typedef struct problem {
  norm which;
  int64_t n, c, inner;
  double eps;
  double *x, *dy, *gamma, *beta; /* as the type holds them */
  double *mean, *rstd;           /* what the gradient is given */
} problem;

typedef struct results {
  double *of[MOST_OUT];
  int64_t count[MOST_OUT];
  int num;
} results;

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static int64_t elements_of(const problem *p) { return p->n * p->c * p->inner; }
static bool by_row(const problem *p) { return p->which == LAYER || p->which == RMS; }
static int64_t weights_of(const problem *p) { return by_row(p) ? p->c * p->inner : p->c; }
static int64_t sets_of(const problem *p) {
  if (p->which >= BATCH) return p->c;
  return p->n * (p->which == GROUP ? GROUPS : p->which == INSTANCE ? p->c : 1);
}

static double tolerance_of(const char *name) {
  for (size_t i = 0; i < tn_op_count(b.runtime); ++i)
    if (strcmp(tn_op_at(b.runtime, i)->name, name) == 0) return tn_op_at(b.runtime, i)->tolerance;
  ck_abort_msg("no operator %s", name);
  return 0;
}

/* ----------------------------------------------------------------- numbers --- */

/* A number as float32 or bfloat16 holds it. */
static double rounded(double value, tn_dtype dtype) {
  float f = (float)value;
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if (dtype == TN_BF16) u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
  memcpy(&f, &u, sizeof f);
  return (double)f;
}

/* Near enough to normal numbers: the sum of four uniform ones, deviation 1. */
static double bell(uint32_t *seed) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    *seed = *seed * 1664525u + 1013904223u;
    sum += (double)*seed * 0x1p-32 - 0.5;
  }
  return sum * 1.7320508075688772;
}

/* mean + std times numbers that are normal, or +-1 by turns where mean is 0. */
typedef struct spread {
  double mean, std, eps;
  bool signs;
} spread;

static double *draw(int64_t n, spread s, tn_dtype dtype, uint32_t seed) {
  double *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) {
    const double one = i * 7 % 3 == 1 ? -1 : 1;
    values[i] = rounded(s.mean + s.std * (s.signs ? one : bell(&seed)), dtype);
  }
  return values;
}

static void problem_fill(problem *p, spread s, spread of_dy, tn_dtype dtype) {
  p->eps = s.eps;
  p->x = draw(elements_of(p), s, dtype, 1);
  p->dy = draw(elements_of(p), of_dy, dtype, 2);
  p->gamma = draw(weights_of(p), (spread){1, 0.25, 0, false}, dtype, 3);
  p->beta = draw(weights_of(p), (spread){0, 1, 0, false}, dtype, 4);
}

static void problem_free(problem *p) {
  free(p->x);
  free(p->dy);
  free(p->gamma);
  free(p->beta);
}

/* ------------------------------------------------------------------- calls --- */

static tn_tensor *of_x(tn_device *device, tn_dtype dtype, const problem *p, const double *values) {
  return numbers(device, dtype, p->inner == 1 ? 2 : 3, SHAPE(p->n, p->c, p->inner), values);
}

static tn_tensor *of_weight(tn_device *device, tn_dtype dtype, const problem *p,
                            const double *values) {
  return numbers(device, dtype, by_row(p) && p->inner != 1 ? 2 : 1, SHAPE(p->c, p->inner), values);
}

/* Statistics are of float32 beside narrower types. */
static tn_dtype wide(tn_dtype dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

static tn_tensor *of_sets(tn_device *device, tn_dtype dtype, const problem *p,
                          const double *values) {
  if (p->which >= BATCH) return numbers(device, wide(dtype), 1, SHAPE(p->c), values);
  if (by_row(p)) return numbers(device, wide(dtype), 1, SHAPE(p->n), values);
  return numbers(device, wide(dtype), 2, SHAPE(p->n, p->which == GROUP ? GROUPS : p->c), values);
}

static results collect(int num, tn_tensor **out) {
  results r = {.num = num};
  for (int i = 0; i < num; ++i) {
    r.count[i] = tn_tensor_elements(out[i]);
    r.of[i] = values_of(out[i]);
    tn_tensor_release(out[i]);
  }
  return r;
}

static void results_free(results *r) {
  for (int i = 0; i < r->num; ++i) free(r->of[i]);
}

/* y, then mean and rstd, then the running statistics, as far as the operator has them. */
static results forward(tn_device *device, tn_dtype dtype, const problem *p) {
  tn_tensor *x = of_x(device, dtype, p, p->x), *gamma = of_weight(device, dtype, p, p->gamma);
  tn_tensor *beta = of_weight(device, dtype, p, p->beta), *out[MOST_OUT] = {NULL};
  const tn_layer_norm_attrs layer = {sizeof layer, 1, p->eps};
  const tn_rms_norm_attrs rms = {sizeof rms, 1, p->eps};
  const tn_group_norm_attrs group = {sizeof group, GROUPS, p->eps};
  const tn_instance_norm_attrs instance = {sizeof instance, p->eps};
  const tn_batch_norm_attrs batch = {sizeof batch, p->eps, 0.5};
  const tn_batch_norm_inference_attrs inference = {sizeof inference, p->eps};
  int num = 3;
  if (p->which == LAYER) ok(tn_layer_norm(NULL, x, gamma, beta, &layer, out, out + 1, out + 2));
  if (p->which == GROUP) ok(tn_group_norm(NULL, x, gamma, beta, &group, out, out + 1, out + 2));
  if (p->which == INSTANCE)
    ok(tn_instance_norm(NULL, x, gamma, beta, &instance, out, out + 1, out + 2));
  if (p->which == RMS) {
    ok(tn_rms_norm(NULL, x, gamma, &rms, out, out + 1));
    num = 2;
  } else if (p->which == BATCH) {
    double *ones = draw(p->c, (spread){1, 0, 0, false}, dtype, 5);
    out[3] = of_sets(device, dtype, p, ones);
    out[4] = of_sets(device, dtype, p, ones);
    ok(tn_batch_norm(NULL, x, gamma, beta, out[3], out[4], &batch, out, out + 1, out + 2));
    free(ones);
    num = 5;
  } else if (p->which == INFERENCE) {
    tn_tensor *mean = of_sets(device, dtype, p, p->mean), *var = of_sets(device, dtype, p, p->rstd);
    ok(tn_batch_norm_inference(NULL, x, mean, var, gamma, beta, &inference, out));
    tn_tensor_release(mean);
    tn_tensor_release(var);
    num = 1;
  }
  tn_tensor_release(x);
  tn_tensor_release(gamma);
  tn_tensor_release(beta);
  return collect(num, out);
}

/* dx, dgamma, dbeta. */
static results backward(tn_device *device, tn_dtype dtype, const problem *p) {
  tn_tensor *x = of_x(device, dtype, p, p->x), *dy = of_x(device, dtype, p, p->dy);
  tn_tensor *gamma = of_weight(device, dtype, p, p->gamma), *d[3] = {NULL};
  tn_tensor *mean = of_sets(device, dtype, p, p->mean), *rstd = of_sets(device, dtype, p, p->rstd);
  const tn_layer_norm_grad_attrs layer = {sizeof layer, 1};
  const tn_rms_norm_grad_attrs rms = {sizeof rms, 1};
  const tn_group_norm_grad_attrs group = {sizeof group, GROUPS};
  if (p->which == LAYER)
    ok(tn_layer_norm_grad(NULL, dy, x, mean, rstd, gamma, &layer, d, d + 1, d + 2));
  if (p->which == RMS) ok(tn_rms_norm_grad(NULL, dy, x, rstd, gamma, &rms, d, d + 1));
  if (p->which == GROUP)
    ok(tn_group_norm_grad(NULL, dy, x, mean, rstd, gamma, &group, d, d + 1, d + 2));
  if (p->which == INSTANCE)
    ok(tn_instance_norm_grad(NULL, dy, x, mean, rstd, gamma, d, d + 1, d + 2));
  if (p->which == BATCH) ok(tn_batch_norm_grad(NULL, dy, x, mean, rstd, gamma, d, d + 1, d + 2));
  tn_tensor *used[] = {x, dy, gamma, mean, rstd};
  for (int i = 0; i < 5; ++i) tn_tensor_release(used[i]);
  return collect(p->which == RMS ? 2 : 3, d);
}

/* ----------------------------------------------------------------- judging --- */

/* The relative norm of the error of output `o`, without leaving double's range. Numbers that
 * float does not hold are infinite in both. */
static double error_of(const results *got, const results *want, int o) {
  double most = 0, error = 0, length = 0;
  for (int64_t i = 0; i < want->count[o]; ++i) most = fmax(most, fabs(want->of[o][i]));
  if (most == 0) most = 1;
  for (int64_t i = 0; i < want->count[o]; ++i) {
    const double g = got->of[o][i], w = want->of[o][i];
    if (g == w || (isnan(g) && isnan(w)) || (double)(float)w == g) continue;
    error += (g - w) / most * ((g - w) / most);
  }
  for (int64_t i = 0; i < want->count[o]; ++i)
    if (!isnan(want->of[o][i])) length += want->of[o][i] / most * (want->of[o][i] / most);
  return sqrt(error) / (length > 0 ? sqrt(length) : 1);
}

static void judge(const problem *p, const char *what, spread s, tn_dtype dtype, const char *device,
                  const results *got, const results *want) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", names[p->which], what);
  for (int o = 0; o < want->num; ++o) {
    const bool narrow = dtype == TN_BF16 && (o == 0 || *what);
    const double bound = tolerance_of(name) + (narrow ? 0x1p-8 : 0), error = error_of(got, want, o);
    if (!(error <= bound))
      ck_abort_msg(
          "%s %s on %s, [%d, %d, %d] of mean %g, deviation %g, eps %g: output %d is off by "
          "%g, bound %g: %g for %g",
          name, tn_dtype_name(dtype), device, (int)p->n, (int)p->c, (int)p->inner, s.mean, s.std,
          s.eps, o, error, bound, got->of[o][0], want->of[o][0]);
  }
}

static const int64_t shapes[][3] = {
    {6, 300, 1}, {70, 6, 1}, {4, 6, 50}, {3, 2, 3000}, {2, 20000, 1}};
enum { NUM_SHAPES = 5 };

static void compare_forward(norm which, spread s, tn_dtype dtype, const int64_t *shape) {
  problem p = {.which = which, .n = shape[0], .c = shape[1], .inner = shape[2]};
  problem_fill(&p, s, s, dtype);
  results want = forward(b.devices[0], TN_F64, &p);
  for (int d = 1; d < b.count; ++d) {
    results got = forward(b.devices[d], dtype, &p);
    judge(&p, "", s, dtype, b.names[d], &got, &want);
    results_free(&got);
  }
  results_free(&want);
  problem_free(&p);
}

/* The gradient is given statistics as float32 holds them. */
static void compare_backward(norm which, spread s, spread of_dy, tn_dtype dtype,
                             const int64_t *shape) {
  problem p = {.which = which, .n = shape[0], .c = shape[1], .inner = shape[2]};
  problem_fill(&p, s, of_dy, dtype);
  results stats = forward(b.devices[0], TN_F64, &p);
  p.mean = stats.of[1];
  p.rstd = stats.of[which == RMS ? 1 : 2];
  for (int64_t i = 0; i < sets_of(&p); ++i) {
    p.mean[i] = rounded(p.mean[i], TN_F32);
    p.rstd[i] = rounded(p.rstd[i], TN_F32);
  }
  results want = backward(b.devices[0], TN_F64, &p);
  for (int d = 1; d < b.count; ++d) {
    results got = backward(b.devices[d], dtype, &p);
    judge(&p, "_grad", s, dtype, b.names[d], &got, &want);
    results_free(&got);
  }
  results_free(&want);
  results_free(&stats);
  problem_free(&p);
}

/* ------------------------------------------------------------------- tests --- */

static const spread spreads[] = {
    {0, 1, 1e-5, false},     {1e4, 1, 1e-5, false},  {-1e5, 1, 1e-5, false}, {1e5, 1, 0, false},
    {0, 1e20, 1e-5, true},   {0, 1e20, 0, false},    {1e20, 1e16, 0, false}, {0, 1e-25, 0, true},
    {1e-20, 1e-25, 0, true}, {0, 1e-25, 0, false},   {0, 3e38, 1e-5, true},  {1e38, 1e38, 0, true},
    {0, 1e-40, 0, true},     {0, 1e-20, 1e-5, true}, {3, 0, 1e-5, true}};
enum { NUM_SPREADS = sizeof spreads / sizeof *spreads, NUM_FORWARD = 5 };

START_TEST(forward_holds_its_bound) {
  for (int s = 0; s < NUM_SPREADS; ++s)
    for (int i = 0; i < NUM_SHAPES; ++i) {
      if (_i == GROUP && shapes[i][1] % GROUPS) continue;
      compare_forward((norm)_i, spreads[s], TN_F32, shapes[i]);
      if (spreads[s].mean == 0) compare_forward((norm)_i, spreads[s], TN_BF16, shapes[i]);
    }
}
END_TEST

/* Where the deviation of single numbers has a reciprocal in float. */
START_TEST(backward_holds_its_bound) {
  const spread dys[] = {{0, 1, 0, false}, {1e4, 1, 0, false}};
  for (int s = 0; s < NUM_SPREADS; ++s)
    for (int i = 0; i < NUM_SHAPES; ++i) {
      const bool has_rstd = spreads[s].std > 1e-37 && spreads[s].std < 1e37;
      /* Sets of one value, and sets of 2 or 3, have gradients that are nothing but rounding. */
      const bool many = shapes[i][2] * (_i == BATCH ? shapes[i][0] : 1) > 8 || _i <= RMS;
      if (!has_rstd || !many || (_i == GROUP && shapes[i][1] < 8 && shapes[i][2] == 1)) continue;
      compare_backward((norm)_i, spreads[s], dys[0], TN_F32, shapes[i]);
      compare_backward((norm)_i, spreads[s], dys[1], TN_F32, shapes[i]);
    }
}
END_TEST

/* With statistics given; p.rstd stands for the variance. */
START_TEST(inference_holds_its_bound) {
  for (int s = 0; s < NUM_SPREADS; ++s)
    for (int i = 0; i < NUM_SHAPES; ++i) {
      problem p = {.which = INFERENCE, .n = shapes[i][0], .c = shapes[i][1], .inner = shapes[i][2]};
      const double var = spreads[s].std * spreads[s].std;
      if (var > 3e38 || (var < 1e-37 && spreads[s].eps == 0)) continue;
      problem_fill(&p, spreads[s], spreads[s], TN_F32);
      p.mean = draw(p.c, (spread){spreads[s].mean, 0, 0, false}, TN_F32, 6);
      p.rstd = draw(p.c, (spread){var, 0, 0, false}, TN_F32, 7);
      results want = forward(b.devices[0], TN_F64, &p);
      for (int d = 1; d < b.count; ++d) {
        results got = forward(b.devices[d], TN_F32, &p);
        judge(&p, "", spreads[s], TN_F32, b.names[d], &got, &want);
        results_free(&got);
      }
      results_free(&want);
      free(p.mean);
      free(p.rstd);
      problem_free(&p);
    }
}
END_TEST

/* Sums over nothing are 0, whatever statistics nothing has. */
START_TEST(gradients_of_weights_over_nothing_are_zero) {
  const int64_t empty[][3] = {{0, 4, 3}, {2, 4, 0}, {0, 4, 1}};
  double nothing[8];
  for (int i = 0; i < 8; ++i) nothing[i] = (double)NAN;
  for (int which = LAYER; which <= BATCH; ++which)
    for (int i = 0; i < 3; ++i)
      for (int d = 0; d < b.count; ++d) {
        problem p = {.which = (norm)which, .n = empty[i][0], .c = 4, .inner = empty[i][2]};
        problem_fill(&p, (spread){0, 1, 0, false}, (spread){0, 1, 0, false}, TN_F32);
        p.mean = p.rstd = nothing;
        results got = backward(b.devices[d], TN_F32, &p);
        for (int o = 1; o < got.num; ++o)
          for (int64_t k = 0; k < got.count[o]; ++k)
            if (got.of[o][k] != 0)
              ck_abort_msg("%s_grad on %s over [%d, 4, %d]: output %d is %g", names[which],
                           b.names[d], (int)p.n, (int)p.inner, o, got.of[o][k]);
        results_free(&got);
        problem_free(&p);
      }
}
END_TEST

/* One value of a channel has no unbiased variance: its mean counts, its variance does not. */
START_TEST(one_value_leaves_the_running_variance) {
  for (int inner = 1; inner <= 2; ++inner)
    for (int d = 0; d < b.count; ++d) {
      problem p = {.which = BATCH, .n = 1, .c = 3, .inner = inner};
      problem_fill(&p, (spread){5, 1, 1e-5, false}, (spread){0, 1, 0, false}, TN_F32);
      results got = forward(b.devices[d], TN_F32, &p);
      for (int c = 0; c < 3; ++c) {
        ck_assert_double_eq_tol(got.of[3][c], 0.5 + 0.5 * got.of[1][c], 1e-6);
        if (inner == 1) ck_assert_double_eq(got.of[4][c], 1);
        if (inner == 2) ck_assert(got.of[4][c] != 1);
      }
      results_free(&got);
      problem_free(&p);
    }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, forward_holds_its_bound, 0, NUM_FORWARD);
  tcase_add_loop_test(tcase, backward_holds_its_bound, 0, NUM_FORWARD);
  tcase_add_test(tcase, inference_holds_its_bound);
  tcase_add_test(tcase, gradients_of_weights_over_nothing_are_zero);
  tcase_add_test(tcase, one_value_leaves_the_running_variance);
}

int main(void) { return run_suite("norm_range", add_tests); }
