/*
 * Scans, sorts, permutations and scattering at the sizes where CUDA's kernels go another way,
 * against the reference, bit for bit: numbers are such that sums and products are exact in any
 * order. Skipped where no GPU is; TENON_TEST_DEVICE names another device to try the test itself on.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/gpu.h"

static tn_runtime *rt;
static tn_device *gpu, *host;

static void setup(void) {
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
  ok(tn_device_find(rt, "reference", &host));
}
static void teardown(void) { tn_runtime_close(rt); }

static uint32_t hash(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

enum values {
  SMALL,  /* -3 to 3, that sums stay exact */
  SIGNS,  /* 1 and -1 */
  CLIMBS, /* equal ones for a while, then greater ones, up to 1000, and again */
  MIXED,  /* few different ones, zeros of both signs, infinities and NaN */
  VAST,   /* whose sums a float does not hold, but a double exactly */
  POWERS, /* whose products a float does not hold, but a double exactly */
};

static float value_at(enum values kind, int64_t i) {
  static const float mixed[] = {0.0f, -0.0f, 1.5f, -1.5f, INFINITY, -INFINITY, NAN, 2.0f};
  const uint32_t h = hash((uint32_t)i);
  switch (kind) {
  case SMALL:
    return (float)(int)(h % 7) - 3;
  case SIGNS:
    return h % 2 ? 1 : -1;
  case CLIMBS:
    return (float)(i / 977 % 1000);
  case VAST:
    return i % 4 < 2 ? 0x1p127f : -0x1p127f;
  case POWERS:
    return i / 50 % 2 ? 0x1p-14f : 0x1p14f;
  default:
    return h % 3 ? (float)(h % 251) : mixed[h / 3 % 8];
  }
}

/* The same numbers on the reference, and what they are in a type. */
static tn_tensor *on_host(tn_dtype dtype, const int64_t shape[3], enum values kind) {
  const int64_t n = shape[0] * shape[1] * shape[2];
  float *values = malloc((size_t)n * sizeof *values);
  ck_assert_ptr_nonnull(values);
  for (int64_t i = 0; i < n; i++) values[i] = value_at(kind, i);
  tn_tensor *t = NULL, *cast = NULL;
  ok(tn_tensor_from_host(host, TN_F32, 3, shape, values, &t));
  free(values);
  if (dtype == TN_F32) return t;
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = dtype;
  ok(tn_cast(NULL, t, &attrs, &cast));
  tn_tensor_release(t);
  return cast;
}

static void *bytes_of(const tn_tensor *t) {
  void *bytes = malloc(tn_tensor_bytes(t));
  ck_assert_ptr_nonnull(bytes);
  ok(tn_tensor_to_host(t, bytes, tn_tensor_bytes(t)));
  return bytes;
}

static tn_tensor *on_gpu(const tn_tensor *t, tn_dtype dtype, const int64_t shape[3]) {
  tn_tensor *copy = NULL;
  void *bytes = bytes_of(t);
  ok(tn_tensor_from_host(gpu, dtype, 3, shape, bytes, &copy));
  free(bytes);
  return copy;
}

/* Releases both. */
static void same(tn_tensor *got, tn_tensor *wanted) {
  const size_t size = tn_tensor_bytes(wanted);
  ck_assert_uint_eq(tn_tensor_bytes(got), size);
  unsigned char *a = bytes_of(got), *b = bytes_of(wanted);
  size_t at = 0;
  while (at < size && a[at] == b[at]) at++;
  ck_assert_msg(at == size, "byte %zu of %zu is %d, not %d", at, size, at < size ? a[at] : 0,
                at < size ? b[at] : 0);
  free(a), free(b);
  tn_tensor_release(got), tn_tensor_release(wanted);
}

typedef struct line {
  tn_dtype dtype;
  int64_t shape[3], axis;
} line;

/* Rows of a warp, of blocks of two warps and of eight; those of which a block has all tiles, which
 * takes 16 rows for each multiprocessor; those whose tiles look back, over more than 1,024 of them.
 * Columns alone, in strips that wait for those above or, where they are few, for groups of such,
 * and in strips that a block has all of. All with sizes that let elements be read several at a
 * time and with others. */
static const line lines[] = {
    {TN_F32, {1, 1, 33}, 2},
    {TN_F32, {9, 5, 1000}, 2},
    {TN_F16, {9, 5, 1001}, 2},
    {TN_F32, {3, 1, 2049}, 2},
    {TN_BF16, {4300, 1, 2056}, 2},
    {TN_F64, {2, 2, 8192}, 2},
    {TN_F32, {1, 2, 3 * 32 * 8192 + 4}, 2},
    {TN_F32, {1, 1, 1100 * 8192}, 2},
    {TN_F32, {1, 1, 1030 * 8192 + 5}, 2},
    {TN_F16, {1, 1, 1030 * 16384 + 8}, 2},
    {TN_I32, {1, 1, 1030 * 4096 + 1}, 2},
    {TN_F64, {1, 1, 1030 * 4096}, 2},
    {TN_F32, {2300, 1, 8200}, 2},
    {TN_F16, {2300, 1, 9999}, 2},
    {TN_U8, {2300, 1, 2200}, 2},
    {TN_F32, {3, 700, 130}, 1},
    {TN_F16, {1, 5000, 257}, 1},
    {TN_F32, {1, 5000, 128}, 1},
    {TN_BF16, {2, 129, 1024}, 1},
    {TN_F16, {1, 1100, 6400}, 1},
    {TN_F64, {1, 4000, 48}, 1},
    {TN_F64, {2, 300, 40}, 1},
    {TN_I64, {2, 300, 33}, 1},
    {TN_F32, {600, 140, 66}, 1},
    {TN_F16, {1100, 140, 33}, 1},
    {TN_F32, {2, 3000, 3}, 1},
};

START_TEST(sums) {
  const line *l = &lines[_i];
  tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
  attrs.axis = l->axis;
  tn_tensor *x = on_host(l->dtype, l->shape, SMALL), *x_gpu = on_gpu(x, l->dtype, l->shape);
  for (int k = 0; k < 2; k++) {
    tn_tensor *got = NULL, *wanted = NULL;
    attrs.reverse = (k + _i) % 2;
    attrs.exclusive = k;
    ok(tn_cumsum(NULL, x_gpu, &attrs, &got));
    ok(tn_cumsum(NULL, x, &attrs, &wanted));
    same(got, wanted);
  }
  tn_tensor_release(x), tn_tensor_release(x_gpu);
}
END_TEST

/* Results that are wider than what was read. */
START_TEST(wider_sums) {
  const line *l = &lines[_i];
  tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
  attrs.axis = l->axis;
  if (l->dtype == TN_F64 || l->dtype == TN_I64) return;
  const bool whole = l->dtype == TN_U8 || l->dtype == TN_I32;
  attrs.dtype = whole ? TN_I64 : l->dtype == TN_F16 && _i % 2 ? TN_F32 : TN_F64;
  attrs.reverse = _i % 3 == 1;
  tn_tensor *x = on_host(l->dtype, l->shape, SMALL), *x_gpu = on_gpu(x, l->dtype, l->shape);
  tn_tensor *got = NULL, *wanted = NULL;
  ok(tn_cumsum(NULL, x_gpu, &attrs, &got));
  ok(tn_cumsum(NULL, x, &attrs, &wanted));
  same(got, wanted);
  tn_tensor_release(x), tn_tensor_release(x_gpu);
}
END_TEST

START_TEST(products) {
  const line *l = &lines[_i];
  tn_cumprod_attrs attrs = TN_CUMPROD_DEFAULTS;
  attrs.axis = l->axis;
  attrs.reverse = _i % 2;
  attrs.exclusive = _i / 2 % 2;
  tn_tensor *x = on_host(l->dtype, l->shape, SIGNS), *x_gpu = on_gpu(x, l->dtype, l->shape);
  tn_tensor *got = NULL, *wanted = NULL;
  ok(tn_cumprod(NULL, x_gpu, &attrs, &got));
  ok(tn_cumprod(NULL, x, &attrs, &wanted));
  same(got, wanted);
  tn_tensor_release(x), tn_tensor_release(x_gpu);
}
END_TEST

/* Of 16 bits, by float and where that does not do by double. */
static const line wild[] = {
    {TN_BF16, {1, 1, 70001}, 2},  {TN_F16, {3, 1, 40008}, 2},  {TN_BF16, {5000, 1, 2048}, 2},
    {TN_BF16, {1, 1000, 200}, 1}, {TN_F16, {1, 1000, 200}, 1},
};

START_TEST(sums_and_products_beyond_float) {
  const line *l = &wild[_i];
  tn_cumprod_attrs product = TN_CUMPROD_DEFAULTS;
  tn_cumsum_attrs sum = TN_CUMSUM_DEFAULTS;
  product.axis = sum.axis = l->axis;
  for (int k = 0; k < 4; k++) {
    const bool adds = k < 2 && l->dtype == TN_BF16;
    tn_tensor *x = on_host(l->dtype, l->shape, adds ? VAST : POWERS);
    tn_tensor *x_gpu = on_gpu(x, l->dtype, l->shape), *got = NULL, *wanted = NULL;
    product.reverse = sum.reverse = k % 2;
    product.exclusive = sum.exclusive = (k + _i) % 2;
    ok(adds ? tn_cumsum(NULL, x_gpu, &sum, &got) : tn_cumprod(NULL, x_gpu, &product, &got));
    ok(adds ? tn_cumsum(NULL, x, &sum, &wanted) : tn_cumprod(NULL, x, &product, &wanted));
    same(got, wanted);
    tn_tensor_release(x), tn_tensor_release(x_gpu);
  }
}
END_TEST

START_TEST(maxima) {
  const line *l = &lines[_i];
  tn_cummax_attrs attrs = TN_CUMMAX_DEFAULTS;
  attrs.axis = l->axis;
  tn_tensor *x = on_host(l->dtype, l->shape, CLIMBS), *x_gpu = on_gpu(x, l->dtype, l->shape);
  for (int k = 0; k < 3; k++) {
    tn_tensor *got[2] = {NULL, NULL}, *wanted[2] = {NULL, NULL};
    attrs.reverse = k % 2;
    ok(tn_cummax(NULL, x_gpu, &attrs, &got[0], k == 2 ? NULL : &got[1]));
    ok(tn_cummax(NULL, x, &attrs, &wanted[0], k == 2 ? NULL : &wanted[1]));
    same(got[0], wanted[0]);
    if (k != 2) same(got[1], wanted[1]);
  }
  tn_tensor_release(x), tn_tensor_release(x_gpu);
}
END_TEST

/* Within a tile, at its end, and over many of them. */
static const line picked[] = {
    {TN_F32, {2, 50, 33}, 2},    {TN_F32, {1, 1, 8192}, 2},    {TN_F16, {4, 256, 2049}, 2},
    {TN_BF16, {3, 100, 111}, 2}, {TN_F64, {1, 700, 901}, 2},   {TN_U8, {1, 1, 300001}, 2},
    {TN_I64, {1, 1, 65535}, 2},  {TN_F32, {9, 1000, 1001}, 2},
};

START_TEST(picks) {
  const line *l = &picked[_i];
  const bool real = l->dtype >= TN_F16 && l->dtype != TN_BOOL;
  tn_tensor *x = on_host(l->dtype, l->shape, real ? MIXED : CLIMBS), *mask = NULL;
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = TN_BOOL;
  ok(tn_cast(NULL, x, &attrs, &mask));
  tn_tensor *x_gpu = on_gpu(x, l->dtype, l->shape), *mask_gpu = on_gpu(mask, TN_BOOL, l->shape);
  tn_tensor *got[4] = {0}, *wanted[4] = {0};
  ok(tn_nonzero(NULL, x_gpu, &got[0], &got[1]));
  ok(tn_nonzero(NULL, x, &wanted[0], &wanted[1]));
  ok(tn_masked_select(NULL, x_gpu, mask_gpu, &got[2], &got[3]));
  ok(tn_masked_select(NULL, x, mask, &wanted[2], &wanted[3]));
  for (int k = 0; k < 4; k++) same(got[k], wanted[k]);
  tn_tensor_release(x), tn_tensor_release(x_gpu);
  tn_tensor_release(mask), tn_tensor_release(mask_gpu);
}
END_TEST

/* Rows of one block of 128 threads and of 256, at both ends, and longer ones, sorted together by
 * keys that fit 32 bits with the row's number and by such that do not. */
static const line sorted[] = {
    {TN_F32, {40, 1, 1000}, 2}, {TN_F32, {3, 1, 1024}, 2},    {TN_F32, {3, 1, 1025}, 2},
    {TN_F32, {3, 1, 2048}, 2},  {TN_F32, {3, 1, 2049}, 2},    {TN_F16, {40, 1, 1024}, 2},
    {TN_F16, {7, 1, 1025}, 2},  {TN_BF16, {3, 1, 2048}, 2},   {TN_F64, {5, 1, 900}, 2},
    {TN_I64, {3, 1, 2048}, 2},  {TN_F64, {3, 1, 2500}, 2},    {TN_U8, {5, 1, 1024}, 2},
    {TN_U8, {9, 1, 3000}, 2},   {TN_F32, {2, 1000, 3}, 1},    {TN_F16, {2, 1500, 3}, 1},
    {TN_F32, {2, 3000, 3}, 1},  {TN_F32, {1, 1, 300000}, 2},  {TN_F16, {300, 1, 2100}, 2},
    {TN_I32, {5, 1, 1}, 2},     {TN_I32, {1, 1, 1 << 20}, 2}, {TN_I16, {3, 1, 1023}, 2},
};

START_TEST(orders) {
  const line *l = &sorted[_i];
  tn_sort_attrs attrs = TN_SORT_DEFAULTS;
  tn_argsort_attrs alone = TN_ARGSORT_DEFAULTS;
  attrs.axis = alone.axis = l->axis;
  const bool real = l->dtype >= TN_F16 && l->dtype != TN_BOOL;
  const enum values kind = real ? MIXED : CLIMBS;
  tn_tensor *x = on_host(l->dtype, l->shape, kind), *x_gpu = on_gpu(x, l->dtype, l->shape);
  for (int k = 0; k < 2; k++) {
    tn_tensor *got[3] = {NULL, NULL, NULL}, *wanted[3] = {NULL, NULL, NULL};
    attrs.descending = alone.descending = k;
    ok(tn_sort(NULL, x_gpu, &attrs, &got[0], k ? NULL : &got[1]));
    ok(tn_sort(NULL, x, &attrs, &wanted[0], k ? NULL : &wanted[1]));
    ok(tn_argsort(NULL, x_gpu, &alone, &got[2]));
    ok(tn_argsort(NULL, x, &alone, &wanted[2]));
    same(got[0], wanted[0]);
    if (!k) same(got[1], wanted[1]);
    same(got[2], wanted[2]);
  }
  tn_tensor_release(x), tn_tensor_release(x_gpu);
}
END_TEST

/* A million keys share upper halves some hundred times. */
START_TEST(permutations) {
  static const int64_t sizes[] = {1, 2, 1000, 1 << 20, (1 << 22) + 3};
  tn_tensor *got = NULL, *wanted = NULL;
  const tn_dtype dtype = _i % 2 ? TN_I64 : TN_I32;
  tn_randperm_attrs attrs = TN_RANDPERM_DEFAULTS;
  attrs.seed = 77;
  attrs.offset = (uint64_t)_i;
  ok(tn_tensor_empty(gpu, dtype, 1, &sizes[_i], &got));
  ok(tn_tensor_empty(host, dtype, 1, &sizes[_i], &wanted));
  ok(tn_randperm(NULL, got, &attrs));
  ok(tn_randperm(NULL, wanted, &attrs));
  same(got, wanted);
}
END_TEST

/* Updates to few of many places: sorted from 2^18 of them on, which several share. */
static void scatter_on(tn_device *d, int64_t updates, int64_t places, tn_tensor **y) {
  float *values = calloc((size_t)places, sizeof *values);
  int64_t *index = malloc((size_t)updates * sizeof *index);
  ck_assert(values && index);
  for (int64_t i = 0; i < updates; i++) {
    values[i] = (float)(i + 1);
    index[i] = (int64_t)(hash((uint32_t)i) % 100000) * 83;
    if (i % 1001 == 0) index[i] = places + i; /* nowhere */
    if (i % 1003 == 0) index[i] = -1 - i / 1003;
  }
  tn_tensor *x = NULL, *at = NULL;
  ok(tn_tensor_from_host(d, TN_F32, 1, &updates, values, &x));
  ok(tn_tensor_from_host(d, TN_I64, 2, SHAPE(updates, 1), index, &at));
  memset(values, 0, (size_t)places * sizeof *values);
  ok(tn_tensor_from_host(d, TN_F32, 1, &places, values, y));
  ok(tn_scatter_nd(NULL, x, at, *y, NULL));
  free(values), free(index);
  tn_tensor_release(x), tn_tensor_release(at);
}

START_TEST(sparse_updates) {
  static const int64_t updates[] = {(1 << 18) - 1, 1 << 18, 300001};
  tn_tensor *got = NULL, *wanted = NULL;
  scatter_on(gpu, updates[_i], (1 << 23) + 7, &got);
  scatter_on(host, updates[_i], (1 << 23) + 7, &wanted);
  same(got, wanted);
}
END_TEST

static void add_tests(TCase *t) {
  const int count = sizeof lines / sizeof *lines;
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, sums, 0, count);
  tcase_add_loop_test(t, wider_sums, 0, count);
  tcase_add_loop_test(t, products, 0, count);
  tcase_add_loop_test(t, maxima, 0, count);
  tcase_add_loop_test(t, sums_and_products_beyond_float, 0, (int)(sizeof wild / sizeof *wild));
  tcase_add_loop_test(t, picks, 0, (int)(sizeof picked / sizeof *picked));
  tcase_add_loop_test(t, orders, 0, (int)(sizeof sorted / sizeof *sorted));
  tcase_add_loop_test(t, permutations, 0, 5);
  tcase_add_loop_test(t, sparse_updates, 0, 3);
}

int main(void) { return run_suite_on_gpu("cuda-lines", add_tests); }
