/*
 * Halves: every one of them to float32, float32 to the nearest of them, and elementwise loops over
 * them, wherever they start and however they lie; by the instructions of each instruction set.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

enum { HALVES = 1 << 16, FLOATS = 60000, LONG = 1333 }; /* the last: two blocks and a part of one */

typedef struct view {
  int64_t begin, end, step;
} view;

static tn_tensor *view_of(const tn_tensor *x, view v) {
  tn_tensor *part = NULL;
  ok(tn_tensor_slice(x, 0, v.begin, v.end, v.step, &part));
  return part;
}

static tn_tensor *cast_to(const tn_tensor *x, tn_dtype dtype) {
  const tn_cast_attrs to = {sizeof to, (int32_t)dtype};
  tn_tensor *y = NULL;
  ok(tn_cast(NULL, x, &to, &y));
  return y;
}

/* The same elements of what the reference and the CPU make of x in another type, to the bit. */
static void check_cast(tn_dtype from, tn_dtype to, const void *elements, int64_t n) {
  const view views[] = {{0, n, 1}, {1, n, 1}, {3, 20, 1}, {5, 38, 1}, {7, 8, 1}, {0, n, 2}};
  tn_tensor *x[2];
  for (int d = 0; d < 2; ++d)
    ok(tn_tensor_from_host(b.devices[d], from, 1, SHAPE(n), elements, &x[d]));
  for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
    tn_tensor *part[2] = {view_of(x[0], views[i]), view_of(x[1], views[i])};
    tn_tensor *right = cast_to(part[0], to);
    double *want = values_of(right);
    must_be(&b, "cast", 1, cast_to(part[1], to), tn_tensor_elements(right), want, 0);
    free(want);
    tn_tensor_release(right), tn_tensor_release(part[0]), tn_tensor_release(part[1]);
  }
  tn_tensor_release(x[0]), tn_tensor_release(x[1]);
}

START_TEST(every_half_widens_exactly) {
  uint16_t *all = malloc(HALVES * sizeof *all);
  for (int i = 0; i < HALVES; ++i) all[i] = (uint16_t)i;
  check_cast(TN_F16, TN_F32, all, HALVES);
  free(all);
}
END_TEST

/* All kinds of floats, then halves, what lies between two of them, and the floats beside that. */
START_TEST(floats_round_to_the_nearest_half) {
  uint32_t *some = malloc(FLOATS * sizeof *some);
  for (uint32_t i = 0; i < FLOATS; ++i) {
    const uint32_t sign = i << 31, tie = 0x33000000u + (i / 6 << 12);
    some[i] = i < FLOATS / 2 ? i * 143165u : sign | (tie + i / 2 % 3 - 1);
  }
  check_cast(TN_F32, TN_F16, some, FLOATS);
  free(some);
}
END_TEST

typedef tn_status binary(tn_stream *stream, const tn_tensor *a, const tn_tensor *b, tn_tensor **y);

static const struct {
  const char *name;
  binary *f;
  tn_dtype type;
} binaries[] = {{"add", tn_add, TN_F16},
                {"div", tn_div, TN_F16},
                {"less", tn_less, TN_BOOL},
                {"copysign", tn_copysign, TN_F16}};
enum { BINARIES = sizeof binaries / sizeof *binaries };

/* y = f(x0, x1) of views of twice as many halves; what comes back has y's gaps too. */
static tn_tensor *binary_of(tn_device *device, int k, const view *v, const view *to) {
  tn_tensor *x[2], *part[2], *y = unwritten(device, binaries[k].type, 1, SHAPE(2 * LONG));
  for (int i = 0; i < 2; ++i) {
    x[i] = whole_numbers(device, TN_F16, 1, SHAPE(2 * LONG), 900, 7 + (uint32_t)i);
    part[i] = view_of(x[i], v[i]);
  }
  tn_tensor *out = view_of(y, *to);
  ok(binaries[k].f(NULL, part[0], part[1], &out));
  for (int i = 0; i < 2; ++i) tn_tensor_release(part[i]), tn_tensor_release(x[i]);
  tn_tensor_release(out);
  return y;
}

START_TEST(loops_of_two_halves_however_they_lie) {
  static const view dense = {0, LONG, 1}, later = {3, LONG + 3, 1}, apart = {1, 2 * LONG, 2},
                    one = {11, 12, 1};
  const view cases[][3] = {{dense, dense, dense}, {later, dense, later}, {dense, one, dense},
                           {one, later, dense},   {apart, dense, dense}, {dense, dense, apart},
                           {apart, one, apart}};
  char what[64];
  for (int k = 0; k < BINARIES; ++k)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
      tn_tensor *y = binary_of(b.devices[0], k, cases[i], &cases[i][2]);
      double *want = values_of(y);
      snprintf(what, sizeof what, "%s, case %d", binaries[k].name, (int)i);
      must_be(&b, what, 1, binary_of(b.devices[1], k, cases[i], &cases[i][2]), 2 * LONG, want, 0);
      tn_tensor_release(y), free(want);
    }
}
END_TEST

START_TEST(loops_of_halves_write_over_their_input) {
  tn_tensor *x = whole_numbers(b.devices[1], TN_F16, 1, SHAPE(LONG), 900, 7);
  double *want = values_of(x);
  for (int i = 0; i < LONG; ++i) want[i] = want[i] > 0 ? 2 * want[i] : 0;
  tn_tensor *out = x;
  ok(tn_relu(NULL, x, &out));
  ok(tn_add(NULL, x, x, &out));
  must_be(&b, "2 relu", 1, x, LONG, want, 0);
  free(want);
}
END_TEST

/* Operators that do little, whose loops are in registers. Rounding to float first changes nothing
 * of what they give, but of bfloat16 below its least normal number. */
static const struct {
  const char *op;
  int inputs;
} cheap[] = {{"neg", 1},     {"relu", 1},    {"abs", 1},       {"sign", 1},     {"square", 1},
             {"floor", 1},   {"ceil", 1},    {"round", 1},     {"trunc", 1},    {"sqrt", 1},
             {"add", 2},     {"sub", 2},     {"mul", 2},       {"div", 2},      {"reciprocal", 1},
             {"maximum", 2}, {"minimum", 2}, {"relu_grad", 2}, {"copysign", 2}, {"prelu", 2}};
enum { CHEAP = sizeof cheap / sizeof *cheap };

static tn_tensor *cheap_of(int d, int k, tn_dtype type, const uint16_t *u, const uint16_t *v,
                           int64_t n) {
  tn_tensor *x[2] = {NULL, NULL}, *y = unwritten(b.devices[d], type, 1, SHAPE(n + 1));
  tn_tensor *out = view_of(y, (view){0, n, 1});
  ok(tn_tensor_from_host(b.devices[d], type, 1, SHAPE(n), u, &x[0]));
  ok(tn_tensor_from_host(b.devices[d], type, 1, SHAPE(n), v, &x[1]));
  const tn_tensor *in[] = {x[0], x[1]};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &out, .num_out = 1};
  call.stream = tn_device_default_stream(b.devices[d]);
  call.num_in = cheap[k].inputs;
  ok(tn_op_find(b.runtime, cheap[k].op, &call.op));
  ok(tn_invoke(&call));
  tn_tensor_release(x[0]), tn_tensor_release(x[1]), tn_tensor_release(out);
  return y;
}

/* Every number of the type as the first, and scattered ones as the second. */
static void check_cheap(int k, tn_dtype type, int64_t n) {
  uint16_t *u = malloc((HALVES + 1) * sizeof *u), *v = malloc((HALVES + 1) * sizeof *v);
  for (int i = 0; i <= HALVES; ++i) u[i] = (uint16_t)i, v[i] = (uint16_t)(i * 40503u + 12345u);
  tn_tensor *right = cheap_of(0, k, type, u, v, n), *y = cheap_of(1, k, type, u, v, n);
  double *want = values_of(right), *got = values_of(y);
  for (int64_t i = 0; i <= n; ++i) {
    const double twice = fabs(want[i]) < 0x1p-125 ? 0x1p-133 : 0;
    if (isnan(want[i]) ? !isnan(got[i]) : !(got[i] == want[i] || fabs(got[i] - want[i]) <= twice))
      ck_abort_msg("%s of %d %s, element %d of %#x and %#x: %.9g, not %.9g", cheap[k].op, (int)n,
                   tn_dtype_name(type), (int)i, u[i], v[i], got[i], want[i]);
  }
  free(u), free(v), free(want), free(got);
  tn_tensor_release(right), tn_tensor_release(y);
}

START_TEST(every_number_through_cheap_operators) {
  static const tn_dtype types[] = {TN_F16, TN_BF16};
  for (int t = 0; t < 2; ++t) {
    check_cheap(_i, types[t], HALVES - case_step(1) + 1);
    for (int64_t n = 1; n < 50; n += case_step(1)) check_cheap(_i, types[t], n);
  }
}
END_TEST

/* The same bits of every number but NaN wherever it stands, so that they do not depend on where
 * threads cut the work: side by side, alone, and with gaps. */
static const struct {
  const char *op;
  int inputs;
} placed[] = {
    {"tanh_grad", 2},   {"sigmoid_grad", 2},     {"hardswish", 1},     {"hardswish_grad", 2},
    {"hardsigmoid", 1}, {"hardsigmoid_grad", 2}, {"leaky_relu", 1},    {"leaky_relu_grad", 2},
    {"rsqrt", 1},       {"thresholded_relu", 1}, {"silu", 1},          {"silu_grad", 2},
    {"elu", 1},         {"elu_grad", 2},         {"softplus_grad", 2}, {"mul", 2},
    {"sqrt", 1},        {"relu_grad", 2},        {"sigmoid", 1}};
enum { PLACED = sizeof placed / sizeof *placed, FEW = 1009 };

static void run_placed(int k, tn_tensor *const *x, view from, tn_tensor *y, view to) {
  tn_tensor *part[2] = {view_of(x[0], from), view_of(x[1], from)}, *out = view_of(y, to);
  const tn_tensor *in[] = {part[0], part[1]};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &out, .num_out = 1};
  call.stream = tn_device_default_stream(b.devices[1]);
  call.num_in = placed[k].inputs;
  ok(tn_op_find(b.runtime, placed[k].op, &call.op));
  ok(tn_invoke(&call));
  tn_tensor_release(part[0]), tn_tensor_release(part[1]), tn_tensor_release(out);
}

static bool is_nan(tn_dtype type, uint16_t bits) {
  return (bits & 0x7fff) > (type == TN_F16 ? 0x7c00 : 0x7f80);
}

static bool are_same(tn_dtype type, uint16_t x, uint16_t y) {
  return x == y || (is_nan(type, x) && is_nan(type, y));
}

static void check_placed(int k, tn_dtype type, uint32_t first) {
  uint16_t bits[2][2 * FEW] = {{0}}, dense[FEW], apart[2 * FEW], cut[FEW];
  tn_tensor *near[2], *far[2], *y[3];
  const int64_t n[] = {FEW, 2 * FEW, FEW};
  uint16_t near_bits[2][FEW];
  for (uint32_t i = 0; i < FEW; ++i) {
    near_bits[0][i] = bits[0][2 * i] = (uint16_t)(first + i * 67);
    near_bits[1][i] = bits[1][2 * i] = (uint16_t)(first * 5 + i * 40503u);
  }
  for (int i = 0; i < 2; ++i) {
    ok(tn_tensor_from_host(b.devices[1], type, 1, SHAPE(FEW), near_bits[i], &near[i]));
    ok(tn_tensor_from_host(b.devices[1], type, 1, SHAPE(2 * FEW), bits[i], &far[i]));
  }
  for (int i = 0; i < 3; ++i) y[i] = unwritten(b.devices[1], type, 1, &n[i]);
  run_placed(k, near, (view){0, FEW, 1}, y[0], (view){0, FEW, 1});
  run_placed(k, far, (view){0, 2 * FEW, 2}, y[1], (view){0, 2 * FEW, 2});
  for (int64_t i = 0, m; i < FEW; i += m) {
    m = 1 + i % 37 < FEW - i ? 1 + i % 37 : FEW - i;
    run_placed(k, near, (view){i, i + m, 1}, y[2], (view){i, i + m, 1});
  }
  ok(tn_tensor_to_host(y[0], dense, sizeof dense));
  ok(tn_tensor_to_host(y[1], apart, sizeof apart));
  ok(tn_tensor_to_host(y[2], cut, sizeof cut));
  for (int i = 0; i < FEW; ++i)
    if (!are_same(type, dense[i], apart[2 * i]) || !are_same(type, dense[i], cut[i]))
      ck_abort_msg("%s of %s: of %#x and %#x %#x side by side, %#x with gaps, %#x cut",
                   placed[k].op, tn_dtype_name(type), near_bits[0][i], near_bits[1][i], dense[i],
                   apart[2 * i], cut[i]);
  for (int i = 0; i < 2; ++i) tn_tensor_release(near[i]), tn_tensor_release(far[i]);
  for (int i = 0; i < 3; ++i) tn_tensor_release(y[i]);
}

START_TEST(bits_are_the_same_wherever_numbers_stand) {
  for (uint32_t first = 0; first < 67; first += (uint32_t)case_step(1)) {
    check_placed(_i, TN_F16, first);
    check_placed(_i, TN_BF16, first);
  }
}
END_TEST

/* Eight numbers are added in float: BEYOND's are so large that they come to more than a float
 * holds, while all come to 0; BROKEN has one that is infinite and one that is none; LOST's small
 * one is lost where it is added in float to a large one that is taken away again. */
typedef enum { MIXED, BEYOND, BROKEN, LOST } summands;

static double summand(summands kind, int64_t j) {
  if (kind == LOST)
    return j % 1024 == 5 ? 32768 : j % 1024 == 69 ? 0x1p-14 : j % 1024 == 517 ? -32768 : 0;
  if (kind == BEYOND) return j / 64 % 8 < 4 ? 0x1p127 : -0x1p127;
  if (kind == BROKEN && j % 1000 == 77) return j % 2000 == 77 ? (double)INFINITY : (double)NAN;
  return (double)(j * 7919 % 2003 - 901) / 64;
}

static double sum_on(tn_device *device, tn_dtype type, summands kind, int64_t n, tn_dtype wide) {
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  attrs.dtype = (int32_t)wide;
  tn_tensor *x = NULL, *y = NULL, *halves = NULL, *part;
  double *elements = malloc((size_t)(n + 3) * sizeof *elements);
  for (int64_t j = 0; j < n + 3; ++j) elements[j] = summand(kind, j);
  ok(tn_tensor_from_host(device, TN_F64, 1, SHAPE(n + 3), elements, &x));
  halves = cast_to(x, type);
  part = view_of(halves, (view){n % 3, n % 3 + n, 1});
  ok(tn_sum(NULL, part, &attrs, &y));
  double *values = values_of(y), sum = values[0];
  free(values), free(elements);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(halves), tn_tensor_release(part);
  return sum;
}

static void check_sum(tn_dtype type, summands kind, int64_t n, tn_dtype wide, double most) {
  const double want = sum_on(b.devices[0], type, kind, n, wide);
  const double got = sum_on(b.devices[1], type, kind, n, wide);
  if (isnan(want) ? !isnan(got) : !(want == got || fabs(got - want) <= most * fabs(want)))
    ck_abort_msg("sum of %lld %s, kind %d, in %s: %.17g, not %.17g", (long long)n,
                 tn_dtype_name(type), (int)kind, tn_dtype_name(wide), got, want);
}

START_TEST(sums_are_right_where_eights_are_added_in_float) {
  static const int64_t sizes[] = {63, 64, 511, 512, 513, 1024, 4133, 70000, 1200000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int64_t n = sizes[i];
    for (summands kind = MIXED; kind <= LOST; ++kind) {
      check_sum(TN_BF16, kind, n, TN_F64, 0);
      check_sum(TN_BF16, kind, n, TN_F32, 0);
      if (kind != LOST) check_sum(TN_BF16, kind, n, TN_DTYPE_NONE, 0x1p-8);
      if (kind == BEYOND) continue;
      check_sum(TN_F16, kind, n, TN_F64, 0);
      check_sum(TN_F16, kind, n, TN_F32, 0);
    }
    check_sum(TN_F16, MIXED, n < 5000 ? n : 5000, TN_DTYPE_NONE, 0x1p-11);
  }
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, every_half_widens_exactly);
  tcase_add_test(c, floats_round_to_the_nearest_half);
  tcase_add_test(c, loops_of_two_halves_however_they_lie);
  tcase_add_test(c, loops_of_halves_write_over_their_input);
  tcase_add_loop_test(c, every_number_through_cheap_operators, 0, CHEAP);
  tcase_add_test(c, sums_are_right_where_eights_are_added_in_float);
  tcase_add_loop_test(c, bits_are_the_same_wherever_numbers_stand, 0, PLACED);
}

int main(void) { return run_suite("halves", add_tests); }
