/*
 * Operators that go where indexes or a mask say, sort short rows, or draw within bounds: at sizes
 * on both sides of those from which on the processor's kernels go another way. The reference says
 * what comes out, whatever the number of threads is.
 */
#include "compared.h"
#include "scarce.h"

static const uint32_t threads[] = {1, 3};
enum { COUNTS = sizeof threads / sizeof *threads };
static const tn_dtype types[] = {TN_F32, TN_F16, TN_F64, TN_I32, TN_I8};
enum { TYPES = sizeof types / sizeof *types };

/* Small whole numbers, whose sums are exact in every type that sums. */
static double whole(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 16 & 7) - 3;
}

/* ------------------------------------------------------- along an axis --- */

/* Data of many and few rows; rows narrower and wider than a line of cache and than the widest
 * column; updates of all and of a part of what is inside the axis, fewer and more than rows. */
static const struct {
  int rank;
  int64_t axis, data[4], update[4];
} along[] = {
    {2, 0, {300, 17}, {300, 17}},
    {2, 0, {300, 270}, {151, 257}},
    {2, 0, {5000, 17}, {5000, 17}},
    {2, 0, {5000, 17}, {2499, 16}},
    {2, 0, {4001, 2}, {9001, 2}},
    {2, 1, {3, 10001}, {3, 9001}},
    {1, 0, {20001}, {9001}},
    {4, 1, {2, 300, 5, 6}, {2, 500, 5, 6}},
    {4, 1, {2, 300, 5, 6}, {2, 200, 4, 6}},
    {4, 1, {2, 300, 5, 6}, {1, 301, 5, 5}},
    {3, 1, {2, 1, 40}, {2, 50, 40}},
    {2, 0, {0, 40}, {7, 40}},
    {2, 0, {40, 40}, {0, 40}},
};
enum { ALONG = sizeof along / sizeof *along };

/* Places from both ends, and some outside. */
static tn_tensor *places(tn_device *device, int rank, const int64_t *shape, int64_t n, bool wide) {
  int64_t count = 1;
  uint32_t seed = 11;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  double *at = malloc((size_t)(count + 1) * sizeof *at);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    at[i] = (double)((int64_t)(seed >> 4) % (2 * n + 9) - n - 4);
  }
  tn_tensor *t = numbers(device, wide ? TN_I64 : TN_I32, rank, shape, at);
  free(at);
  return t;
}

static const struct {
  const char *name;
  uint32_t op;
} scatters[] = {{"scatter", TN_OP_SCATTER},
                {"scatter_add", TN_OP_SCATTER_ADD},
                {"scatter_mul", TN_OP_SCATTER_MUL},
                {"scatter_max", TN_OP_SCATTER_MAX},
                {"scatter_min", TN_OP_SCATTER_MIN}};
enum { SCATTERS = sizeof scatters / sizeof *scatters };

/* What take_along_axis (op 0) or a scatter (from 1 on) gives on a device. */
static tn_tensor *moved(tn_device *device, int c, int op, tn_dtype type) {
  const int rank = along[c].rank;
  const bool sums = op == 2 || op == 3;
  const int64_t axis = along[c].axis - (op % 2 ? rank : 0);
  tn_tensor *data = drawn(device, type, rank, along[c].data, sums ? whole : special), *y = NULL;
  tn_tensor *index =
      places(device, rank, along[c].update, along[c].data[along[c].axis], (op + c) % 2);
  if (op) {
    tn_tensor *update = drawn(device, type, rank, along[c].update, sums ? whole : special);
    const tn_scatter_attrs attrs = {sizeof attrs, axis}; /* one layout for all of them */
    const tn_tensor *in[] = {update, index};
    const tn_call call = {.struct_size = sizeof call,
                          .op = scatters[op - 1].op,
                          .in = in,
                          .out = &data,
                          .attrs = &attrs,
                          .num_in = 2,
                          .num_out = 1};
    ok(tn_invoke(&call));
    tn_tensor_release(update);
    y = data;
  } else {
    const tn_take_along_axis_attrs attrs = {sizeof attrs, axis};
    ok(tn_take_along_axis(NULL, data, index, &attrs, &y));
    tn_tensor_release(data);
  }
  tn_tensor_release(index);
  return y;
}

START_TEST(what_goes_along_an_axis_is_the_references) {
  world w = open_world(threads[_i]);
  for (int c = 0; c < ALONG; ++c)
    for (int op = 0; op <= SCATTERS; ++op)
      for (int k = 0; k < 2; ++k) {
        const tn_dtype type = types[k ? 1 + (c + op) % (TYPES - 1) : 0];
        same(moved(w.cpu, c, op, type), moved(w.reference, c, op, type), 0,
             op ? scatters[op - 1].name : "take_along_axis");
      }
  tn_runtime_close(w.runtime);
}
END_TEST

START_TEST(sums_have_the_same_bits_for_any_threads) {
  static const int64_t shape[] = {3000, 50};
  char *first = NULL;
  for (int c = 0; c < COUNTS; ++c) {
    world w = open_world(threads[c]);
    tn_tensor *y = drawn(w.cpu, TN_F32, 2, shape, special);
    tn_tensor *update = unwritten(w.cpu, TN_F32, 2, shape);
    const tn_uniform_attrs uniform = TN_UNIFORM_DEFAULTS;
    const tn_scatter_add_attrs attrs = {sizeof attrs, 0};
    tn_tensor *index = places(w.cpu, 2, shape, 30, true);
    ok(tn_uniform(NULL, update, &uniform));
    ok(tn_scatter_add(NULL, update, index, y, &attrs));
    const size_t bytes = tn_tensor_bytes(y);
    char *bits = malloc(bytes);
    ok(tn_tensor_to_host(y, bits, bytes));
    tn_tensor_release(index);
    tn_tensor_release(update);
    tn_tensor_release(y);
    tn_runtime_close(w.runtime);
    if (first) ck_assert(!memcmp(first, bits, bytes));
    if (first)
      free(bits);
    else
      first = bits;
  }
  free(first);
}
END_TEST

/* Columns that cannot be copied are worked on where they are; sums that must be of a wider type
 * cannot, and say so. */
START_TEST(copies_are_done_without) {
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .plugins = "reference,cpu",
                                      .num_threads = 1,
                                      .allocator = &scarce_allocator};
  tn_runtime *runtime = open_runtime(&options);
  tn_device *cpu, *reference;
  ok(tn_device_find(runtime, "cpu", &cpu));
  ok(tn_device_find(runtime, "reference", &reference));
  static const int64_t shape[] = {5000, 33};
  const tn_scatter_attrs attrs = {sizeof attrs, 0};
  const tn_scatter_add_attrs add = {sizeof add, 0};
  tn_tensor *update = drawn(cpu, TN_F32, 2, shape, whole), *y[2];
  tn_tensor *index[2] = {places(cpu, 2, shape, 5000, true),
                         places(reference, 2, shape, 5000, true)};
  tn_tensor *theirs = drawn(reference, TN_F32, 2, shape, whole);
  for (int d = 0; d < 2; ++d) y[d] = drawn(d ? reference : cpu, TN_F32, 2, shape, special);
  scarce_begin(0, false);
  const tn_status moved_there = tn_scatter(NULL, update, index[0], y[0], &attrs);
  const bool short_of = scarce_end();
  ck_assert_int_eq(moved_there, TN_OK);
  ck_assert(short_of);
  scarce_begin(0, false);
  const tn_status summed = tn_scatter_add(NULL, update, index[0], y[0], &add);
  scarce_end();
  ck_assert_int_eq(summed, TN_ERR_OUT_OF_MEMORY);
  ok(tn_scatter(NULL, theirs, index[1], y[1], &attrs));
  same(y[0], y[1], 0, "scatter without memory");
  for (int d = 0; d < 2; ++d) tn_tensor_release(index[d]);
  tn_tensor_release(update);
  tn_tensor_release(theirs);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------------ hits --- */

/* One element of `every` is not zero; all are where that is 1, none where it is 0. */
static tn_tensor *sparse(tn_device *device, tn_dtype type, int rank, const int64_t *shape,
                         int every) {
  int64_t n = 1;
  uint32_t seed = 5;
  for (int d = 0; d < rank; ++d) n *= shape[d];
  double *values = malloc((size_t)(n + 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const bool hit = every && (seed >> 9) % (uint32_t)every == 0;
    values[i] = hit ? 1 + (double)(seed >> 20 & 31) : type < TN_F16 || i % 2 ? 0 : -0.0;
  }
  tn_tensor *t = numbers(device, type, rank, shape, values);
  free(values);
  return t;
}

static const struct {
  int rank;
  int64_t shape[4];
} searched[] = {{1, {0}},
                {1, {1}},
                {1, {7}},
                {1, {32768}},
                {1, {32769}},
                {1, {70003}},
                {0, {0}},
                {2, {3, 11003}},
                {2, {35001, 1}},
                {3, {3, 5001, 3}},
                {4, {2, 17, 2, 513}},
                {2, {5, 0}}};
enum { SEARCHED = sizeof searched / sizeof *searched };
static const int every[] = {2, 1, 0, 50, 20000};
enum { DENSITIES = sizeof every / sizeof *every };

START_TEST(hits_are_the_references) {
  static const tn_dtype found[] = {TN_BOOL, TN_F16, TN_F32, TN_I64};
  world w = open_world(threads[_i]);
  for (int s = 0; s < SEARCHED; ++s)
    for (int e = 0; e < DENSITIES; ++e)
      for (int k = 0; k < 4; ++k) {
        tn_tensor *y[2] = {0}, *at[2] = {0}, *count[2] = {0}, *also[2] = {0};
        const int64_t *shape = searched[s].shape;
        for (int d = 0; d < 2; ++d) {
          tn_device *device = d ? w.reference : w.cpu;
          tn_tensor *x = sparse(device, found[k], searched[s].rank, shape, every[e]);
          tn_tensor *mask = sparse(device, TN_BOOL, searched[s].rank, shape, every[e]);
          tn_tensor *values = drawn(device, found[k], searched[s].rank, shape, whole);
          ok(tn_nonzero(NULL, x, &at[d], &count[d]));
          ok(tn_masked_select(NULL, values, mask, &y[d], &also[d]));
          tn_tensor_release(x);
          tn_tensor_release(mask);
          tn_tensor_release(values);
        }
        same(at[0], at[1], 0, "nonzero");
        same(count[0], count[1], 0, "nonzero's count");
        same(y[0], y[1], 0, "masked_select");
        same(also[0], also[1], 0, "masked_select's count");
      }
  tn_runtime_close(w.runtime);
}
END_TEST

/* ------------------------------------------------------------ short rows --- */

START_TEST(short_rows_are_sorted_as_the_references) {
  static const int64_t sizes[] = {0,   1,   2,   3,   17,  32,  33,   64,   65,   80,   128, 129,
                                  255, 256, 257, 400, 512, 513, 1024, 1025, 3000, 4096, 4097};
  static const int64_t counts[] = {1, 2, 15, 17, 35};
  world w = open_world(threads[_i]);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; ++c)
      for (int k = 0; k < TYPES; k += 1 + (int)c % 2) {
        const int64_t n = sizes[s], across = (int64_t)(s + c) % 2;
        const int64_t shape[] = {across ? n : counts[c], across ? counts[c] : n};
        orders found[2];
        for (int d = 0; d < 2; ++d) {
          tn_tensor *x = drawn(d ? w.reference : w.cpu, types[k], 2, shape, special);
          found[d] =
              orders_of(x, across ? 0 : -1, (s + c) / 2 % 2, c % 2 ? n / 4 : n / 4 - (n > 3));
          tn_tensor_release(x);
        }
        same_orders(found[0], found[1]);
      }
  tn_runtime_close(w.runtime);
}
END_TEST

/* ----------------------------------------------------------------- draws --- */

START_TEST(bounded_draws_are_the_references) {
  static const int64_t sizes[] = {0, 1, 127, 129, 256, 9001};
  static const double chances[] = {0, 1, 0.5, 1e-9, 1 - 1e-9};
  static const uint64_t spans[] = {
      1, 7, UINT32_MAX, (uint64_t)1 << 32, ((uint64_t)1 << 32) + 1, INT64_MAX};
  static const double bounds[][2] = {{-2, 2}, {-0.1, 0.2}, {1, 1.5}, {-9, -7}, {3, 40}, {37, 38}};
  static const double near[] = {2e-6, 1e-3, 1e-13};
  world w = open_world(threads[_i]);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (int c = 0; c < 6; ++c) {
      tn_tensor *y[2];
      tn_bernoulli_attrs bernoulli = TN_BERNOULLI_DEFAULTS;
      tn_randint_attrs randint = TN_RANDINT_DEFAULTS;
      tn_truncated_normal_attrs normal = TN_TRUNCATED_NORMAL_DEFAULTS;
      bernoulli.seed = randint.seed = normal.seed = 9 + (uint64_t)c;
      bernoulli.p = chances[c % 5];
      normal.low = bounds[c][0], normal.high = bounds[c][1];
      for (int d = 0; d < 2; ++d) {
        y[d] = shaped(d ? w.reference : w.cpu, c % 2 ? TN_F16 : TN_BOOL, 1, &sizes[s]);
        ok(tn_bernoulli(NULL, y[d], &bernoulli));
      }
      same(y[0], y[1], 0, "bernoulli");
      for (int k = 0; k < 3; ++k) {
        static const tn_dtype integers[] = {TN_I64, TN_I32, TN_U8};
        randint.low = k || c == 5 ? 0 : -5;
        randint.high = (int64_t)((uint64_t)randint.low + (k && c > 1 ? 100 : spans[c]));
        for (int d = 0; d < 2; ++d) {
          y[d] = shaped(d ? w.reference : w.cpu, integers[k], 1, &sizes[s]);
          ok(tn_randint(NULL, y[d], &randint));
        }
        same(y[0], y[1], 0, "randint");
        for (int d = 0; d < 2; ++d) {
          y[d] = shaped(d ? w.reference : w.cpu, types[k], 1, &sizes[s]);
          ok(tn_truncated_normal(NULL, y[d], &normal));
        }
        same(y[0], y[1], near[k], "truncated_normal");
      }
    }
  tn_runtime_close(w.runtime);
}
END_TEST

/* ----------------------------------------------------------------- scale --- */

/* By the processor's own kernel, for there is no other. */
START_TEST(the_scale_of_a_loss_adapts) {
  static const struct {
    bool found;
    float scale, then;
    int64_t good, left;
  } steps[] = {{true, 64, 32, 7, 0},
               {false, 64, 64, 7, 8},
               {false, 64, 128, 9, 0},
               {false, 3e38f, 3e38f, 9, 0},
               {true, 64, 32, 9, 0}};
  const tn_runtime_options options = {.struct_size = sizeof options, .plugins = "cpu"};
  tn_runtime *runtime = open_runtime(&options);
  tn_device *cpu;
  ok(tn_device_find(runtime, "cpu", &cpu));
  tn_update_loss_scale_attrs attrs = TN_UPDATE_LOSS_SCALE_DEFAULTS;
  attrs.interval = 10;
  for (size_t s = 0; s < sizeof steps / sizeof *steps; ++s)
    for (int wide = 0; wide < 2; ++wide) {
      const uint8_t found = steps[s].found;
      const int32_t narrow = (int32_t)steps[s].good;
      tn_tensor *flag, *scale, *good;
      float scaled;
      int64_t left = 0;
      ok(tn_tensor_from_host(cpu, TN_BOOL, 0, NULL, &found, &flag));
      ok(tn_tensor_from_host(cpu, TN_F32, 0, NULL, &steps[s].scale, &scale));
      ok(tn_tensor_from_host(cpu, wide ? TN_I64 : TN_I32, 0, NULL,
                             wide ? (const void *)&steps[s].good : &narrow, &good));
      ok(tn_update_loss_scale(NULL, flag, scale, good, &attrs));
      ok(tn_tensor_to_host(scale, &scaled, sizeof scaled));
      ok(tn_tensor_to_host(good, &left, wide ? 8 : 4));
      ck_assert(scaled == steps[s].then);
      ck_assert_int_eq(left, steps[s].left);
      tn_tensor_release(flag);
      tn_tensor_release(scale);
      tn_tensor_release(good);
    }
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, what_goes_along_an_axis_is_the_references, 0, COUNTS);
  tcase_add_test(tcase, sums_have_the_same_bits_for_any_threads);
  tcase_add_test(tcase, copies_are_done_without);
  tcase_add_loop_test(tcase, hits_are_the_references, 0, COUNTS);
  tcase_add_loop_test(tcase, short_rows_are_sorted_as_the_references, 0, COUNTS);
  tcase_add_loop_test(tcase, bounded_draws_are_the_references, 0, COUNTS);
  tcase_add_test(tcase, the_scale_of_a_loss_adapts);
}

int main(void) { return run_suite("places", add_tests); }
