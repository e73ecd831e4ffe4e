/*
 * topk of long rows, found by delegates (kernels/cuda/index/select_delegates.cu), against a sort on
 * the host: values to the bit and places, for sizes on both sides of every line that plans draw
 * (select_plan.c), every type of up to 32 bits, and rows that leave much to choose or nothing.
 * Skipped where no GPU is.
 */
#include "kernels/common/order_key.h"
#include "tests/cuda/gpu.h"

static tn_runtime *rt;
static tn_device *gpu;

static void setup(void) {
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

static const struct {
  tn_dtype dtype;
  order_type order; /* rising */
} types[] = {
    {TN_F32, {32, false, 0x7f800000, false}},
    {TN_F16, {16, false, 0x7c00, false}},
    {TN_BF16, {16, false, 0x7f80, false}},
    {TN_I32, {32, true, 0, false}},
    {TN_U8, {8, false, 0, false}},
    {TN_I16, {16, true, 0, false}},
    {TN_I8, {8, true, 0, false}},
    {TN_BOOL, {8, false, 0, false}},
};
enum { TYPES = sizeof types / sizeof *types };

/* What rows hold. TOGETHER: those to be found stand in neighbouring tiles. ODD: infinities, zeros
 * of both signs, denormals, NaN of many bits. LAST: what comes last of all, among NaN. */
enum { BITS, RISING, FALLING, EQUAL, FEW, TOGETHER, ODD, NANS, LAST, KINDS };

static uint64_t mixed(uint64_t i) {
  uint64_t h = i * UINT64_C(0x9e3779b97f4a7c15) + 77;
  for (int k = 0; k < 2; ++k) h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
  return h ^ h >> 32;
}

/* The element whose key is that. */
static uint32_t element_of(uint64_t key, order_type t) {
  const uint64_t mask = ~UINT64_C(0) >> (64 - t.bits), sign = UINT64_C(1) << (t.bits - 1);
  key &= mask;
  if (t.infinity) return (uint32_t)(key & sign ? key ^ sign : ~key & mask);
  return (uint32_t)(t.is_signed ? key ^ sign : key);
}

static uint32_t odd_element(uint64_t h, order_type t) {
  const uint32_t sign = (uint32_t)(h >> 40 & 1) << (t.bits - 1);
  const uint32_t infinity = (uint32_t)t.infinity, mask = ~0u >> (32 - t.bits);
  if (!infinity) return h >> 20 & 1 ? (uint32_t)h & mask : h >> 21 & 1 ? mask : 0;
  switch (h >> 20 & 15) {
  case 0:
    return sign | infinity | (1 + (uint32_t)h % 50);
  case 1:
    return sign | infinity;
  case 2:
    return sign;
  case 3:
    return sign | ((uint32_t)h & 7);
  default:
    return (uint32_t)h & mask;
  }
}

/* Element i of a row. */
static uint32_t element(int kind, order_type t, bool largest, int64_t row, int64_t i, int64_t n) {
  const uint64_t h = mixed((uint64_t)(row * n + i)), all = UINT64_C(1) << t.bits;
  const uint64_t along = (uint64_t)i * all / (uint64_t)n, half = all / 2;
  switch (kind) {
  case BITS:
    return (uint32_t)(h & (all - 1));
  case RISING:
    return element_of(along, t);
  case FALLING:
    return element_of(all - 1 - along, t);
  case EQUAL:
    return element_of(half + 1, t);
  case FEW:
    return element_of((h & 7) * (all / 9), t);
  case TOGETHER:
    return element_of(h % half + ((i > n / 3 && i < n / 3 + 1500) == largest ? half : 0), t);
  case NANS:
    return (uint32_t)t.infinity | (t.infinity ? 1u + (uint32_t)h % 50 : 0);
  case LAST:
    if (h % 5000 == 0) return odd_element(h >> 8, t);
    return t.infinity ? (uint32_t)t.infinity | (largest ? 1u << (t.bits - 1) : 1)
                      : element_of(largest ? 0 : all - 1, t);
  default:
    return odd_element(h, t);
  }
}

static uint32_t element_at(const void *x, int64_t i, int bits) {
  return bits == 32   ? ((const uint32_t *)x)[i]
         : bits == 16 ? ((const uint16_t *)x)[i]
                      : ((const uint8_t *)x)[i];
}

static void *drawn(int kind, int type, bool largest, int64_t rows, int64_t n) {
  const order_type t = types[type].order;
  void *x = malloc((size_t)(rows * n) * 4);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < rows * n; ++i) {
    uint32_t bits = element(kind, t, largest, i / n, i % n, n);
    if (types[type].dtype == TN_BOOL) bits &= 1;
    if (t.bits == 32)
      ((uint32_t *)x)[i] = bits;
    else if (t.bits == 16)
      ((uint16_t *)x)[i] = (uint16_t)bits;
    else
      ((uint8_t *)x)[i] = (uint8_t)bits;
  }
  return x;
}

static int by_item(const void *a, const void *b) {
  const uint64_t u = *(const uint64_t *)a, v = *(const uint64_t *)b;
  return (u > v) - (u < v);
}

/* Lets the greatest item of a heap down to where none below it is greater. */
static void sift(uint64_t *heap, int64_t count, int64_t at) {
  for (int64_t below; (below = 2 * at + 1) < count; at = below) {
    if (below + 1 < count && heap[below + 1] > heap[below]) below++;
    if (heap[below] <= heap[at]) return;
    const uint64_t item = heap[at];
    heap[at] = heap[below];
    heap[below] = item;
  }
}

/* The first k of row `row` in order, keys above places. */
static void first_of(const void *x, order_type t, int64_t row, int64_t n, int64_t k,
                     uint64_t *items) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t item = order_key(element_at(x, row * n + i, t.bits), t) << 32 | (uint64_t)i;
    if (i < k) items[i] = item;
    if (i == k - 1)
      for (int64_t at = k / 2; at >= 0; --at) sift(items, k, at);
    if (i < k || item > items[0]) continue;
    items[0] = item;
    sift(items, k, 0);
  }
  qsort(items, (size_t)k, sizeof *items, by_item);
}

typedef struct shape {
  int64_t rows, n, k;
} shape;

/* x lies in host memory as the device's elements do. */
static void compare(const shape *s, const void *x, int kind, int type, bool largest, tn_tensor *y,
                    tn_tensor *index) {
  order_type t = types[type].order;
  const size_t count = (size_t)(s->rows * s->k), bytes = (size_t)t.bits / 8;
  uint8_t *got = malloc(count * bytes);
  int64_t *places = malloc(count * sizeof *places);
  uint64_t *items = malloc((size_t)s->k * sizeof *items);
  ck_assert(got && places && items);
  ok(tn_tensor_to_host(y, got, count * bytes));
  ok(tn_tensor_to_host(index, places, count * sizeof *places));
  t.descending = largest;
  for (int64_t row = 0; row < s->rows; ++row) {
    first_of(x, t, row, s->n, s->k, items);
    for (int64_t e = 0; e < s->k; ++e) {
      const int64_t at = row * s->k + e, place = (int64_t)(items[e] & 0xffffffff);
      const uint32_t bits = element_at(x, row * s->n + place, t.bits);
      if (places[at] != place || element_at(got, at, t.bits) != bits)
        ck_abort_msg("%s %dx%d, k %d, %s, kind %d, row %d: at %d is %x of place %d, not %x of %d",
                     tn_dtype_name(types[type].dtype), (int)s->rows, (int)s->n, (int)s->k,
                     largest ? "largest" : "smallest", kind, (int)row, (int)e,
                     element_at(got, at, t.bits), (int)places[at], bits, (int)place);
    }
  }
  free(got), free(places), free(items);
}

static void check(const shape *s, int kind, int type, bool largest) {
  const int64_t size[] = {s->rows, s->n};
  tn_tensor *x = NULL, *y = NULL, *index = NULL;
  void *values = drawn(kind, type, largest, s->rows, s->n);
  ok(tn_tensor_from_host(gpu, types[type].dtype, 2, size, values, &x));
  const tn_topk_attrs attrs = {sizeof attrs, .k = s->k, .axis = -1, .largest = largest};
  ok(tn_topk(NULL, x, &attrs, &y, &index));
  compare(s, values, kind, type, largest, y, index);
  tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(index);
  free(values);
}

/* Both sides of a plan's lines on a device of 132 multiprocessors and 227 KB for a block. */
static const shape shapes[] = {
    /* registers, then a block for each row: lists of 4,096 and 8,192 elements, and of 22,528 */
    {3, 2048, 100},
    {3, 2049, 1},
    {3, 2049, 512},
    {2, 4095, 1000},
    {1, 4096, 1024},
    {2, 4097, 1024},
    {2, 8191, 225},
    {2, 8191, 226},
    {1, 8192, 481},
    {1, 8192, 1024},
    {33, 8193, 482},
    {33, 16384, 225},
    {33, 16386, 226},
    {33, 16386, 482},
    {40, 32768, 28},
    {33, 32768, 1000},
    /* many rows: of blocks of 256 threads, 512 and 1,024 */
    {132, 32769, 7},
    {140, 9001, 100},
    {528, 9000, 225},
    {530, 8999, 226},
    {529, 8193, 1024},
    {132, 40001, 600},
    /* many blocks for a row, one level: a block of 512 threads at the end, and of 1,024 */
    {1, 8193, 10},
    {1, 8193, 225},
    {3, 8193, 226},
    {32, 16385, 100},
    {2, 32769, 3},
    {1, 131072, 1},
    {1, 131072, 225},
    {1, 131073, 225},
    {3, 100001, 10},
    {1, 22528, 1024},
    {1, 22529, 1024},
    {7, 70003, 1000},
    {1, 720896, 1024},
    {1, 1000003, 44},
    {1, 1000003, 45},
    /* two */
    {1, 720897, 1024},
    {2, 1000003, 1000},
    {1, 3000000, 345},
    {1, 3000000, 346},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Of large inputs some kinds, others for every type. */
START_TEST(rows_are_as_sorted) {
  const shape *s = &shapes[_i];
  const int64_t size = s->rows * s->n;
  const int step = size < 100000 ? 1 : size < 1000000 ? 3 : 9;
  for (int type = 0; type < TYPES; ++type)
    for (int kind = (type + _i) % step; kind < KINDS; kind += step)
      for (int largest = 0; largest < 2; ++largest) check(s, kind, type, largest);
}
END_TEST

/* As long as one level takes for 44 elements, and two levels for more. */
START_TEST(long_rows_are_as_sorted) {
  static const shape longest[] = {
      {1, 1 << 24, 10},     {1, 1 << 24, 100},        {1, 1 << 24, 1000},
      {1, 45056 * 512, 44}, {1, 45056 * 512 + 1, 10}, {1, 45056 * 512, 1024},
  };
  static const int kinds[] = {BITS, RISING, TOGETHER, EQUAL, ODD, FALLING};
  const shape *s = &longest[_i];
  for (int type = 0; type < 4; ++type) check(s, kinds[(_i + type) % 6], type, (_i + type) % 2);
}
END_TEST

/* Rows of what comes last of all, as what lies beyond a row does; few elements in the last tile. */
START_TEST(what_lies_beyond_a_row_is_not_found) {
  static const int64_t tails[] = {1, 2, 3, 4, 5, 127, 128, 129, 511};
  for (int type = 0; type < TYPES; ++type)
    for (unsigned i = 0; i < sizeof tails / sizeof *tails; ++i) {
      const shape s[] = {{2, 4096 + tails[i], 600},
                         {1, 8192 + tails[i], 225},
                         {3, 16384 + tails[i], 225},
                         {1, 65536 + tails[i], 1000}};
      for (int k = 0; k < 4; ++k) {
        check(&s[k], LAST, type, i % 2);
        check(&s[k], NANS, type, (i + 1) % 2);
      }
    }
}
END_TEST

/* Rows of x that begin at any element. */
START_TEST(rows_may_begin_anywhere) {
  static const shape inner[] = {{1, 9000, 100}, {1, 70000, 30}, {1, 5000, 10}};
  for (int type = 0; type < TYPES; ++type)
    for (int k = 0; k < 3; ++k)
      for (int first = 1; first < 5; ++first) {
        const shape *s = &inner[k];
        const order_type t = types[type].order;
        tn_tensor *whole = NULL, *x = NULL, *y = NULL, *index = NULL;
        char *values = drawn(ODD, type, true, 1, s->n + 5);
        const int64_t size = s->n + 5;
        ok(tn_tensor_from_host(gpu, types[type].dtype, 1, &size, values, &whole));
        ok(tn_tensor_slice(whole, 0, first, first + s->n, 1, &x));
        const tn_topk_attrs attrs = {sizeof attrs, .k = s->k, .axis = -1, .largest = first % 2};
        ok(tn_topk(NULL, x, &attrs, &y, &index));
        compare(s, values + first * t.bits / 8, ODD, type, first % 2, y, index);
        tn_tensor_release(whole), tn_tensor_release(x), tn_tensor_release(y);
        tn_tensor_release(index);
        free(values);
      }
}
END_TEST

/* Again and again, on one stream, in workspace that has been used. */
START_TEST(calls_follow_each_other) {
  static const shape turns[] = {
      {1, 1000003, 10}, {1, 720897, 1024}, {64, 20000, 100}, {2, 200000, 40}, {1, 1000003, 1000}};
  enum { TURNS = 5, ROUNDS = 20 };
  void *values[TURNS];
  tn_tensor *x[TURNS] = {0}, *y[ROUNDS][TURNS] = {{0}}, *index[ROUNDS][TURNS] = {{0}};
  for (int i = 0; i < TURNS; ++i) {
    const int64_t size[] = {turns[i].rows, turns[i].n};
    values[i] = drawn(BITS, i % 4, true, size[0], size[1]);
    ok(tn_tensor_from_host(gpu, types[i % 4].dtype, 2, size, values[i], &x[i]));
  }
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < TURNS; ++i) {
      const tn_topk_attrs attrs = {sizeof attrs, .k = turns[i].k, .axis = -1, .largest = 1};
      ok(tn_topk(NULL, x[i], &attrs, &y[round][i], &index[round][i]));
    }
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < TURNS; ++i) {
      compare(&turns[i], values[i], BITS, i % 4, true, y[round][i], index[round][i]);
      tn_tensor_release(y[round][i]), tn_tensor_release(index[round][i]);
    }
  for (int i = 0; i < TURNS; ++i) {
    tn_tensor_release(x[i]);
    free(values[i]);
  }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, rows_are_as_sorted, 0, SHAPES);
  tcase_add_loop_test(tcase, long_rows_are_as_sorted, 0, 6);
  tcase_add_test(tcase, what_lies_beyond_a_row_is_not_found);
  tcase_add_test(tcase, rows_may_begin_anywhere);
  tcase_add_test(tcase, calls_follow_each_other);
}

int main(void) { return run_suite_on_gpu("cuda-select", add_tests); }
