/*
 * Attention of a decoder: few queries to the keys that a cache holds so far, a view of a longer
 * buffer whose rest is NaN, in both orders of heads and positions, to outputs that are views
 * themselves. Sizes lie on both sides of what devices have kernels for, and heads on both sides of
 * the blocks that share their keys.
 */
#include "numeric.h"

typedef struct decoder {
  int64_t b, h, g, s, d;
  bool heads_last; /* the buffers are [b, positions, heads, d] */
  int causal;
} decoder;

enum { CACHE = 1100, MOST_KEYS = 1030 };

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* A buffer of positions, the first `filled` of them drawn and the others NaN, as [b, heads,
 * positions, d] whatever its order in memory. */
static tn_tensor *buffer(tn_device *device, tn_dtype dtype, const decoder *x, int64_t heads,
                         int64_t positions, int64_t filled, uint32_t seed) {
  const int64_t shape[] = {x->b, x->heads_last ? positions : heads,
                           x->heads_last ? heads : positions, x->d};
  const int64_t count = x->b * heads * positions * x->d;
  double *values = malloc((size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i / x->d,
                  position = x->heads_last ? row / heads % positions : row % positions;
    seed = seed * 1664525u + 1013904223u;
    values[i] = position < filled ? (double)(seed >> 16) / 32768 - 1 : NAN;
  }
  tn_tensor *stored = numbers(device, dtype, 4, shape, values), *view = NULL;
  free(values);
  if (!x->heads_last) return stored;
  ok(tn_tensor_permute(stored, (int32_t[]){0, 2, 1, 3}, &view));
  tn_tensor_release(stored);
  return view;
}

/* The first `count` positions of a buffer, which is released. */
static tn_tensor *first_of(tn_tensor *stored, int64_t count) {
  tn_tensor *view = NULL;
  ok(tn_tensor_slice(stored, 2, 0, count, 1, &view));
  tn_tensor_release(stored);
  return view;
}

static void attend(tn_device *device, tn_dtype dtype, const decoder *x, int64_t t, tn_tensor **y,
                   tn_tensor **lse) {
  tn_tensor *in[5] = {buffer(device, dtype, x, x->h, x->s, x->s, 1),
                      first_of(buffer(device, dtype, x, x->g, CACHE, t, 2), t),
                      first_of(buffer(device, dtype, x, x->g, CACHE, t, 3), t)};
  tn_tensor *out[2] = {
      first_of(buffer(device, dtype, x, x->h, x->s + 1, 0, 0), x->s),
      unwritten(device, dtype == TN_F64 ? TN_F64 : TN_F32, 3, (int64_t[]){x->b, x->h, x->s})};
  const tn_scaled_dot_product_attention_attrs attrs = {sizeof attrs, 0, x->causal != 0,
                                                       x->causal == 2};
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_SCALED_DOT_PRODUCT_ATTENTION,
                        .stream = tn_device_default_stream(device),
                        .in = (const tn_tensor *const *)in,
                        .out = out,
                        .attrs = &attrs,
                        .num_in = 5,
                        .num_out = 2};
  ok(tn_invoke(&call));
  for (int i = 0; i < 3; ++i) tn_tensor_release(in[i]);
  *y = out[0], *lse = out[1];
}

/* Values are at most 1, so that a step between numbers of 16 bits is at most this. */
static double step_of(tn_dtype dtype) {
  return dtype == TN_F16 ? 0x1p-11 : dtype == TN_BF16 ? 0x1p-8 : dtype == TN_F32 ? 4e-6 : 1e-13;
}

static void compare(const decoder *x, tn_dtype dtype, int64_t t) {
  tn_tensor *y, *lse;
  attend(b.devices[0], dtype, x, t, &y, &lse);
  const int64_t count = tn_tensor_elements(y), queries = tn_tensor_elements(lse);
  double *want = values_of(y), *want_lse = values_of(lse);
  tn_tensor_release(y);
  tn_tensor_release(lse);
  for (int d = 1; d < b.count; ++d) {
    attend(b.devices[d], dtype, x, t, &y, &lse);
    must_be(&b, "result", d, y, count, want, step_of(dtype));
    must_be(&b, "lse", d, lse, queries, want_lse, 1e-5);
  }
  free(want);
  free(want_lse);
}

static const decoder decoders[] = {
    {2, 4, 2, 1, 64, false, 0},  {1, 8, 1, 1, 128, true, 0},   {2, 3, 3, 1, 80, true, 1},
    {1, 12, 2, 3, 40, false, 1}, {1, 4, 1, 4, 256, true, 2},   {1, 5, 1, 1, 72, false, 0},
    {1, 10, 1, 6, 64, true, 1},  {1, 33, 1, 2, 32, false, 0},  {1, 2, 1, 1, 20, true, 0},
    {1, 2, 2, 1, 8, true, 2},    {20, 16, 16, 1, 8, false, 0},
};

START_TEST(as_the_reference) {
  static const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
  static const int64_t keys[] = {1, 127, 128, 300, MOST_KEYS};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    for (size_t j = 0; j < sizeof keys / sizeof *keys; ++j)
      compare(&decoders[_i], types[i], keys[j]);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof decoders / sizeof *decoders));
}

int main(void) { return run_suite("decoding", add_tests); }
