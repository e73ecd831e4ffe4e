/*
 * Products of bytes of the sizes that cuBLASLt takes (kernels/cuda/matmul/int8.h) against those of
 * the reference, bit for bit: sizes that need padding, batches that share an operand, zero points
 * of each row and column, transposed operands. Skipped where no GPU is.
 */
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

typedef struct product {
  tn_dtype a, b;
  int64_t items_a, items_b, m, n, k;
  bool zeros, turned;
} product;

static const product products[] = {
    {TN_U8, TN_U8, 1, 1, 128, 128, 128, false, false},
    {TN_U8, TN_U8, 1, 1, 129, 131, 133, true, false},
    {TN_I8, TN_I8, 1, 1, 192, 160, 128, false, false},
    {TN_I8, TN_I8, 1, 1, 192, 161, 127, false, true},
    {TN_I8, TN_U8, 1, 1, 97, 260, 211, true, true},
    {TN_U8, TN_I8, 3, 1, 64, 132, 130, true, false},
    {TN_U8, TN_I8, 1, 3, 66, 100, 129, true, false},
    {TN_I8, TN_I8, 3, 3, 64, 128, 128, false, false},
    {TN_U8, TN_U8, 2, 2, 17, 19, 7000, true, true},
    {TN_U8, TN_I8, 2, 2, 33, 272, 1000, true, false},
    {TN_I8, TN_I8, 1, 1, 64, 400, 1037, false, false},
    {TN_I8, TN_U8, 2, 1, 40, 144, 129, true, false},
    {TN_I8, TN_I8, 1, 1, 1, 1028, 1032, false, false},
    {TN_I8, TN_I8, 1, 1, 16, 900, 1176, false, false},
    {TN_I8, TN_I8, 1, 1, 27, 2052, 520, false, false},
    {TN_I8, TN_I8, 1, 1, 64, 100, 12008, false, false},
};

static unsigned seed;
static unsigned char *bytes_of(int64_t count) {
  unsigned char *bytes = malloc((size_t)count);
  ck_assert_ptr_nonnull(bytes);
  for (int64_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}

/* The same numbers on a device each time; [items, columns, rows] turned where `turned`. */
static tn_tensor *matrices(tn_device *d, tn_dtype dtype, int64_t items, int64_t rows,
                           int64_t columns, bool turned, unsigned with) {
  tn_tensor *t = NULL, *view = NULL;
  seed = with;
  unsigned char *bytes = bytes_of(items * rows * columns);
  ok(tn_tensor_from_host(
      d, dtype, 3, turned ? SHAPE(items, columns, rows) : SHAPE(items, rows, columns), bytes, &t));
  free(bytes);
  if (!turned) return t;
  ok(tn_tensor_permute(t, (const int32_t[]){0, 2, 1}, &view));
  tn_tensor_release(t);
  return view;
}
static tn_tensor *vector(tn_device *d, tn_dtype dtype, int64_t size, unsigned with) {
  tn_tensor *t = NULL;
  seed = with;
  unsigned char *bytes = bytes_of(size);
  ok(tn_tensor_from_host(d, dtype, 1, SHAPE(size), bytes, &t));
  free(bytes);
  return t;
}

/* y on a device, in bytes; the caller's. */
static unsigned char *multiply(tn_device *d, const product *p, bool wraps, size_t *size) {
  tn_tensor *a = matrices(d, p->a, p->items_a, p->m, p->k, p->turned, 1);
  tn_tensor *b = matrices(d, p->b, p->items_b, p->k, p->n, p->turned, 2);
  tn_tensor *za = p->zeros ? vector(d, p->a, p->m, 3) : NULL;
  tn_tensor *zb = p->zeros ? vector(d, p->b, p->n, 4) : NULL, *y = NULL;
  if (wraps)
    ok(tn_matmul_int(NULL, a, b, &y));
  else
    ok(tn_matmul_zero_points(NULL, a, b, za, zb, &y));
  *size = tn_tensor_bytes(y);
  unsigned char *read = malloc(*size);
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_to_host(y, read, *size));
  tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
  tn_tensor_release(za), tn_tensor_release(zb);
  return read;
}

typedef unsigned char *(*multiply_fn)(tn_device *, const product *, bool, size_t *);

static void compare(multiply_fn multiply_on, const product *p, bool how) {
  size_t sizes[2];
  unsigned char *got = multiply_on(gpu, p, how, &sizes[0]);
  unsigned char *wanted = multiply_on(host, p, how, &sizes[1]);
  ck_assert_uint_eq(sizes[0], sizes[1]);
  ck_assert(memcmp(got, wanted, sizes[0]) == 0);
  free(got);
  free(wanted);
}

START_TEST(sums_are_the_references) { compare(multiply, &products[_i], false); }
END_TEST

START_TEST(wrapped_products_are_the_references) {
  if (products[_i].a == products[_i].b) compare(multiply, &products[_i], true);
}
END_TEST

/* Of tn_matmul_integer: sizes on both sides of those of one launch (int8_short.cu), sums that end
 * within a panel. */
static const product plain_products[] = {
    {TN_I8, TN_I8, 1, 1, 33, 64, 16, false, false},
    {TN_I8, TN_I8, 1, 1, 100, 1008, 1040, false, false},
    {TN_I8, TN_I8, 1, 1, 129, 80, 272, false, false},
    {TN_I8, TN_I8, 1, 1, 520, 512, 528, false, false},
    {TN_I8, TN_I8, 1, 1, 64, 256, 4112, false, false},
    {TN_I8, TN_I8, 1, 1, 200, 96, 136, false, false},
    {TN_I8, TN_I8, 1, 1, 7, 2064, 1024, false, false},
    {TN_I8, TN_I8, 1, 1, 700, 704, 720, false, false},
};

/* b by rows or by columns, of which one launch takes all that it can read. */
static unsigned char *multiply_plainly(tn_device *d, const product *p, bool by_columns,
                                       size_t *size) {
  tn_tensor *a = matrices(d, p->a, 1, p->m, p->k, false, 1);
  tn_tensor *b = matrices(d, p->b, 1, p->k, p->n, by_columns, 2), *y = NULL;
  const tn_tensor *in[] = {a, b, NULL, NULL};
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_MATMUL_INTEGER,
                        .in = in,
                        .out = &y,
                        .num_in = 4,
                        .num_out = 1};
  const bool is_short = runs_by(&call, "cuda.matmul_integer.short");
  if (d == gpu && is_hopper(d) && by_columns) ck_assert(is_short == (p->k % 16 == 0));
  *size = tn_tensor_bytes(y);
  unsigned char *read = malloc(*size);
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_to_host(y, read, *size));
  tn_tensor_release(a), tn_tensor_release(b), tn_tensor_release(y);
  return read;
}

START_TEST(plain_products_are_the_references) {
  compare(multiply_plainly, &plain_products[_i], false);
  compare(multiply_plainly, &plain_products[_i], true);
}
END_TEST

static void add_tests(TCase *t) {
  const int count = sizeof products / sizeof *products;
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, sums_are_the_references, 0, count);
  tcase_add_loop_test(t, wrapped_products_are_the_references, 0, count);
  tcase_add_loop_test(t, plain_products_are_the_references, 0,
                      sizeof plain_products / sizeof *plain_products);
}

int main(void) { return run_suite_on_gpu("cuda-int8", add_tests); }
