/*
 * Copies between tensors that lie along different axes: of every size of an element, with sides
 * around those of a kernel's tiles and accesses, from and into parts of wider tensors that begin
 * anywhere. Bytes are drawn, and what lies around the part that is written stays as it was.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static const tn_dtype types[] = {TN_I8, TN_I16, TN_F16, TN_F32, TN_I64};
enum { TYPES = sizeof types / sizeof *types };

/* A part of a tensor [batch, rows + more, columns + more], from (skipped, skipped) on. */
typedef struct place {
  int64_t more, skipped;
} place;

typedef struct turn {
  int64_t batch, rows, columns; /* of y; x is [batch, columns, rows] in memory */
  place x, y;
} turn;

static tn_tensor *whole_of(tn_device *device, tn_dtype dtype, const int64_t shape[3],
                           uint32_t seed) {
  const size_t bytes = (size_t)(shape[0] * shape[1] * shape[2]) * tn_dtype_size(dtype);
  unsigned char *data = malloc(bytes);
  tn_tensor *t = NULL;
  for (size_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (unsigned char)(seed >> 24);
  }
  ok(tn_tensor_from_host(device, dtype, 3, shape, data, &t));
  free(data);
  return t;
}

static tn_tensor *part_of(const tn_tensor *whole, const place *p, int64_t rows, int64_t columns) {
  tn_tensor *band = NULL, *part = NULL;
  ok(tn_tensor_slice(whole, 1, p->skipped, p->skipped + rows, 1, &band));
  ok(tn_tensor_slice(band, 2, p->skipped, p->skipped + columns, 1, &part));
  tn_tensor_release(band);
  return part;
}

static void check_turn(int d, tn_dtype dtype, const turn *t) {
  const size_t size = tn_dtype_size(dtype);
  const int64_t wide_x[] = {t->batch, t->columns + t->x.more, t->rows + t->x.more};
  const int64_t wide_y[] = {t->batch, t->rows + t->y.more, t->columns + t->y.more};
  tn_tensor *from = whole_of(b.devices[d], dtype, wide_x, 3);
  tn_tensor *to = whole_of(b.devices[d], dtype, wide_y, 5);
  const size_t bytes_x = tn_tensor_bytes(from), bytes_y = tn_tensor_bytes(to);
  unsigned char *x = malloc(bytes_x), *y = malloc(bytes_y), *got = malloc(bytes_y);
  ok(tn_tensor_to_host(from, x, bytes_x));
  ok(tn_tensor_to_host(to, y, bytes_y));
  for (int64_t n = 0; n < t->batch; ++n)
    for (int64_t r = 0; r < t->rows; ++r)
      for (int64_t c = 0; c < t->columns; ++c) {
        const int64_t at_y = (n * wide_y[1] + t->y.skipped + r) * wide_y[2] + t->y.skipped + c;
        const int64_t at_x = (n * wide_x[1] + t->x.skipped + c) * wide_x[2] + t->x.skipped + r;
        memcpy(y + (size_t)at_y * size, x + (size_t)at_x * size, size);
      }
  tn_tensor *source = part_of(from, &t->x, t->columns, t->rows), *turned = NULL;
  tn_tensor *target = part_of(to, &t->y, t->rows, t->columns);
  ok(tn_tensor_permute(source, (int32_t[]){0, 2, 1}, &turned));
  ok(tn_copy(NULL, turned, &target));
  ok(tn_tensor_to_host(to, got, bytes_y));
  for (size_t i = 0; i < bytes_y; ++i)
    if (got[i] != y[i])
      ck_abort_msg("%s on %s: [%d, %d, %d] at %d and %d: byte %zu is %d, not %d",
                   tn_dtype_name(dtype), b.names[d], (int)t->batch, (int)t->rows, (int)t->columns,
                   (int)t->x.skipped, (int)t->y.skipped, i, got[i], y[i]);
  tn_tensor *all[] = {source, turned, target, from, to};
  for (int i = 0; i < 5; ++i) tn_tensor_release(all[i]);
  free(x), free(y), free(got);
}

static const int64_t sides[] = {1,  15,  16,  31,  32,  33,  64,  68,
                                96, 124, 128, 130, 192, 256, 260, 272};
enum { SIDES = sizeof sides / sizeof *sides };
/* Dense, rows of whole accesses in every type, of whole ones of 8 bytes in 16 bits, and any. */
static const place places[] = {{0, 0}, {32, 16}, {12, 4}, {3, 1}};
enum { PLACES = sizeof places / sizeof *places };

START_TEST(sides_around_tiles) {
  const int64_t rows = sides[_i];
  for (int d = 0; d < b.count; ++d)
    for (int c = 0; c < SIDES; c += case_step(1))
      for (int k = 0; k < TYPES; ++k) {
        const int at = (_i + c + k) % PLACES;
        const turn dense = {1 + (c + k) % 3, rows, sides[c], {0, 0}, {0, 0}};
        turn part = dense;
        part.x = places[at], part.y = places[(at + c / 4 + k) % PLACES];
        check_turn(d, types[k], &dense);
        check_turn(d, types[k], &part);
      }
}
END_TEST

/* Images that change their layout: many matrices of few channels, few of many. */
START_TEST(images) {
  static const turn image[] = {{5, 64, 196, {0, 0}, {0, 0}},
                               {2, 3136, 64, {0, 0}, {0, 0}},
                               {3, 49, 512, {0, 0}, {0, 0}},
                               {2, 3, 4096, {0, 0}, {0, 0}},
                               {70, 16, 16, {0, 0}, {0, 0}}};
  for (int d = 0; d < b.count; ++d)
    for (size_t i = 0; i < sizeof image / sizeof *image; ++i)
      for (int k = 0; k < TYPES; ++k) check_turn(d, types[k], &image[i]);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, sides_around_tiles, 0, SIDES);
  tcase_add_test(tc, images);
}

int main(void) { return run_suite("turned copies", add_tests); }
