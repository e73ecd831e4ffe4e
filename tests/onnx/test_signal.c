/*
 * Fourier transforms of every length that is served, whose tables are bounded: impulses, whose
 * transforms are known without a sum.
 */
#include <math.h>

#include "tests/onnx/trial.h"

enum { ROWS = 2, IMPULSES = 3, LONGEST = 8192 };
static const double TAU = 6.283185307179586476925286766559;

typedef struct shape {
  int64_t n, length, parts; /* length 0: n */
  bool inverse, onesided;
} shape;

/* Where impulse i of a row stands, and its parts. */
static int64_t place(const shape *s, int64_t row, int64_t i) {
  return (row * 7 + i * (s->n / IMPULSES) + 1) % s->n;
}
static double part(const shape *s, int64_t row, int64_t i, int64_t p) {
  return p < s->parts ? 1.5 + (double)row - (double)i + 0.25 * (double)p : 0;
}

static double *impulses(const shape *s) {
  double *x = calloc((size_t)(ROWS * s->n * s->parts), sizeof *x);
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t i = 0; i < IMPULSES; i++)
      for (int64_t p = 0; p < s->parts; p++)
        x[(r * s->n + place(s, r, i)) * s->parts + p] += part(s, r, i, p);
  return x;
}

/* Bin k of a row. */
static void bin_of(const shape *s, int64_t row, int64_t k, double bin[2]) {
  const int64_t length = s->length ? s->length : s->n;
  bin[0] = bin[1] = 0;
  for (int64_t i = 0; i < IMPULSES; i++) {
    const int64_t at = place(s, row, i);
    const double angle = TAU * (double)(at * k % length) / (double)length * (s->inverse ? 1 : -1);
    const double re = part(s, row, i, 0), im = part(s, row, i, 1);
    const double size = s->inverse ? 1 / (double)length : 1;
    if (at >= length) continue; /* cut off */
    bin[0] += (re * cos(angle) - im * sin(angle)) * size;
    bin[1] += (re * sin(angle) + im * cos(angle)) * size;
  }
}

/* The node for a shape; its numbers are the caller's to free. */
static void *begin(trial *t, const shape *s, int64_t *length) {
  void *x = impulses(s);
  *length = s->length;
  trial_begin(t, "DFT", s->length ? 2 : 1, 1);
  input(t, 0, TN_F64, 3, SHAPE(ROWS, s->n, s->parts), x);
  if (s->length) input(t, 1, TN_I64, 0, NULL, length);
  whole(t, "inverse", s->inverse);
  whole(t, "onesided", s->onesided);
  return x;
}

static const shape served[] = {
    {1, 0, 1, false, false},      {7, 0, 2, false, false},    {12, 0, 2, true, false},
    {9, 16, 1, false, true},      {16, 9, 2, false, false},   {2048, 0, 1, false, true},
    {2048, 0, 2, false, false},   {8192, 0, 2, false, false}, {8192, 0, 2, true, false},
    {8192, 0, 1, false, true},    {8190, 0, 1, false, false}, {5000, 6000, 2, false, false},
    {8192, 4096, 2, true, false}, {6561, 0, 2, false, true},  {1, 8192, 2, false, false},
};

START_TEST(impulses_become_waves) {
  const shape *s = &served[_i];
  int64_t length;
  trial t;
  void *x = begin(&t, s, &length);
  ck_assert_int_eq(node_run(&t.at), TN_OK);
  ck_assert_str_eq(t.at.cannot, "");
  length = s->length ? s->length : s->n;
  const int64_t bins = s->onesided ? length / 2 + 1 : length;
  double *y = malloc((size_t)(ROWS * bins * 2) * sizeof *y), bin[2];
  ck_assert_int_eq(tn_tensor_elements(t.at.y[0]), ROWS * bins * 2);
  ok(tn_tensor_to_host(t.at.y[0], y, (size_t)(ROWS * bins * 2) * sizeof *y));
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t k = 0; k < bins; k++) {
      bin_of(s, r, k, bin);
      for (int p = 0; p < 2; p++)
        ck_assert_msg(fabs(y[(r * bins + k) * 2 + p] - bin[p]) < 1e-12, "row %d, bin %d: %g not %g",
                      (int)r, (int)k, y[(r * bins + k) * 2 + p], bin[p]);
    }
  free(x), free(y);
  trial_end(&t);
}
END_TEST

START_TEST(what_wants_a_large_table_is_refused) {
  static const struct {
    shape of;
    const char *words;
  } cases[] = {{{7919, 0, 2, false, false}, "a transform of 7919 numbers, which have a prime"},
               {{8002, 0, 1, false, false}, "a transform of 8002 numbers, which have a prime"},
               {{LONGEST + 1, 0, 1, false, false}, "a transform of 8193 numbers; up to 8192"},
               {{LONGEST + 1, 16, 1, false, false}, "a transform of 8193 numbers; up to 8192"},
               {{4, LONGEST + 1, 1, false, false}, "a transform of 8193 numbers; up to 8192"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t length;
    trial t;
    void *x = begin(&t, &cases[i].of, &length);
    refuses(&t, cases[i].words);
    free(x);
  }
}
END_TEST

/* Frames that overlap may be many more numbers than the signal. */
START_TEST(frames_have_a_limit) {
  static float signal[16];
  int64_t step = 1, length = 4096;
  trial t;
  trial_begin(&t, "STFT", 4, 1);
  input(&t, 0, TN_F32, 3, SHAPE(1, 16, 1), signal);
  t.at.in[0].shape[1] = (int64_t)1 << 40;
  input(&t, 1, TN_I64, 0, NULL, &step);
  input(&t, 3, TN_I64, 0, NULL, &length);
  refuses(&t, "frames of 4096 numbers");
}
END_TEST

/* A frame of each step, long enough to be transformed in two. */
START_TEST(frames_are_transformed) {
  enum { N = 4096, STEP = 512, FRAMES = 3, ALL = N + (FRAMES - 1) * STEP, BINS = N };
  static float signal[ALL], y[FRAMES * BINS * 2];
  int64_t step = STEP, length = N;
  trial t;
  signal[700] = 2;
  trial_begin(&t, "STFT", 4, 1);
  input(&t, 0, TN_F32, 3, SHAPE(1, ALL, 1), signal);
  input(&t, 1, TN_I64, 0, NULL, &step);
  input(&t, 3, TN_I64, 0, NULL, &length);
  whole(&t, "onesided", 0);
  gives(&t, FRAMES * BINS * 2, y);
  for (int64_t f = 0; f < FRAMES; f++)
    for (int64_t k = 0; k < BINS; k++) {
      const int64_t at = 700 - f * STEP;
      const double angle = TAU * (double)(at * k % N) / N, size = at < 0 ? 0 : 2;
      ck_assert_double_eq_tol((double)y[(f * BINS + k) * 2], size * cos(angle), 1e-5);
      ck_assert_double_eq_tol((double)y[(f * BINS + k) * 2 + 1], -size * sin(angle), 1e-5);
    }
  trial_end(&t);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_loop_test(t, impulses_become_waves, 0, sizeof served / sizeof *served);
  tcase_add_test(t, what_wants_a_large_table_is_refused);
  tcase_add_test(t, frames_have_a_limit);
  tcase_add_test(t, frames_are_transformed);
}

int main(void) { return run_suite("onnx signal", add_tests); }
