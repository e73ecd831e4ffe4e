/*
 * Products of pairs of bf16 by AMX, whose tiles hold 16 rows of 16 words: four tiles of sums at a
 * time, of two tiles of rows of a by two of columns of b. As with AVX512-BF16, numbers below 2^-126
 * are 0. Built once, beside the tables.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/matmul/tile_amx.h"

/* --- whether there are any --- */

/* What the processor says at leaf 7, and what of its state the system keeps. */
enum { CPUID_BF16 = 1 << 22, CPUID_TILE = 1 << 24, KEPT_TILES = 3 << 17 };
/* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of <asm/prctl.h> and the kernel's documentation. */
enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };

static bool ask(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if ((d & (CPUID_BF16 | CPUID_TILE)) != (CPUID_BF16 | CPUID_TILE)) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  if ((low & KEPT_TILES) != KEPT_TILES) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
  return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
  return false;
#endif
}

/* What is known: FORBIDDEN before anything is. */
enum { FORBIDDEN, ALLOWED, ABSENT, THERE };
static atomic_int known;

void tile_amx_allow(void) {
  int before = FORBIDDEN;
  (void)atomic_compare_exchange_strong(&known, &before, ALLOWED);
}

bool tile_amx_is_there(void) {
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer != ALLOWED) return answer == THERE;
  answer = ask() ? THERE : ABSENT;
  atomic_store_explicit(&known, answer, memory_order_relaxed);
  return answer == THERE;
}

/* --- products --- */

/* Tiles, by numbers that the compiler's macros make names of: four of sums, by row and column, two
 * of a and two of b. */
#define SUMS_00 0
#define SUMS_01 1
#define SUMS_10 2
#define SUMS_11 3
#define ROWS_0 4
#define ROWS_1 5
#define COLUMNS_0 6
#define COLUMNS_1 7

/* What _tile_loadconfig reads. */
typedef struct tile_config {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

/* Tiles for `words` words of a sum at a time. */
static void configure(int words) {
  tile_config c = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    c.row_bytes[t] =
        (uint16_t)(sizeof(uint32_t) * (t == ROWS_0 || t == ROWS_1 ? words : TILE_UNIT));
    c.rows[t] = (uint8_t)(t == COLUMNS_0 || t == COLUMNS_1 ? words : TILE_UNIT);
  }
  __asm__ volatile("" : : "r"(&c) : "memory"); /* GCC 12 knows of the first 8 bytes alone */
  _tile_loadconfig(&c);
}

/* Sums of one or two tiles of rows by one or two of columns: `tall` and `wide` are constants where
 * this is inlined. */
__attribute__((always_inline)) static inline void sum_tiles(const bool tall, const bool wide,
                                                            const tile_shape *s, const uint32_t *a,
                                                            int64_t a_row, const uint32_t *b,
                                                            float *y) {
  const size_t across_a = (size_t)a_row * sizeof *a, across_b = (size_t)s->width * sizeof *b;
  const size_t across_y = (size_t)s->ldy * sizeof *y;
  float *below = y + TILE_UNIT * s->ldy;
  if (s->add) {
    _tile_loadd(SUMS_00, y, across_y);
    if (wide) _tile_loadd(SUMS_01, y + TILE_UNIT, across_y);
    if (tall) _tile_loadd(SUMS_10, below, across_y);
    if (tall && wide) _tile_loadd(SUMS_11, below + TILE_UNIT, across_y);
  } else {
    _tile_zero(SUMS_00);
    _tile_zero(SUMS_01);
    _tile_zero(SUMS_10);
    _tile_zero(SUMS_11);
  }
  for (int64_t t = 0; t < s->steps; t += TILE_UNIT) {
    _tile_loadd(ROWS_0, a + t, across_a);
    _tile_loadd(COLUMNS_0, b + t * s->width, across_b);
    _tile_dpbf16ps(SUMS_00, ROWS_0, COLUMNS_0);
    if (wide) {
      _tile_loadd(COLUMNS_1, b + t * s->width + TILE_UNIT, across_b);
      _tile_dpbf16ps(SUMS_01, ROWS_0, COLUMNS_1);
    }
    if (!tall) continue;
    _tile_loadd(ROWS_1, a + TILE_UNIT * a_row + t, across_a);
    _tile_dpbf16ps(SUMS_10, ROWS_1, COLUMNS_0);
    if (wide) _tile_dpbf16ps(SUMS_11, ROWS_1, COLUMNS_1);
  }
  _tile_stored(SUMS_00, y, across_y);
  if (wide) _tile_stored(SUMS_01, y + TILE_UNIT, across_y);
  if (tall) _tile_stored(SUMS_10, below, across_y);
  if (tall && wide) _tile_stored(SUMS_11, below + TILE_UNIT, across_y);
}

/* All rows by all columns. */
static void sum_all(const tile_shape *s, const uint32_t *a, int64_t a_row, const uint32_t *b,
                    float *y) {
  for (int64_t j = 0; j < s->width; j += 2 * TILE_UNIT) {
    const bool wide = j + TILE_UNIT < s->width;
    for (int64_t i = 0; i < s->rows; i += 2 * TILE_UNIT) {
      const uint32_t *rows = a + i * a_row, *columns = b + j;
      float *to = y + i * s->ldy + j;
      const bool tall = i + TILE_UNIT < s->rows;
      if (tall && wide)
        sum_tiles(true, true, s, rows, a_row, columns, to);
      else if (tall)
        sum_tiles(true, false, s, rows, a_row, columns, to);
      else if (wide)
        sum_tiles(false, true, s, rows, a_row, columns, to);
      else
        sum_tiles(false, false, s, rows, a_row, columns, to);
    }
  }
}

void tile_pairs_amx(const tile_shape *s, const uint32_t *a, int64_t a_row, const uint32_t *b,
                    float *y) {
  tile_shape part = *s;
  const int64_t rest = s->steps % TILE_UNIT, whole = s->steps - rest;
  if (whole) {
    configure(TILE_UNIT);
    part.steps = whole;
    sum_all(&part, a, a_row, b, y);
  }
  if (rest) {
    configure((int)rest);
    part.steps = rest;
    part.add = s->add || whole;
    sum_all(&part, a + whole, a_row, b + whole * s->width, y);
  }
  _tile_release();
}
