/*
 * Tiles of products of words (tile.inc), by what a word holds. A panel of a has 1, 2, 4 or
 * TILE_ROWS rows, of which the last may be 0; a panel of b is a multiple of TILE_SIDE words wide.
 */
#ifndef TENON_KERNELS_CPU_TILE_H
#define TENON_KERNELS_CPU_TILE_H

#include "kernels/cpu/cpu.h"

enum { TILE_ROWS = 6, TILE_SIDE = 16, TILE_WIDTH = 64 };
enum { TILE_UNIT = 16 }; /* rows of matrix units' tiles, and words of their rows */

/* Where a vector of sums goes: the lanes of `mask`, of which there are `count`, side by side from
 * `to` of their row on. `whole`: lanes behind these may be written too, before the next vector. */
typedef struct tile_places {
  int64_t to;
  uint16_t mask, count;
  bool whole;
} tile_places;
#if defined(__AVX512F__)
#define TILE_PUTS_LANES 1
#else
#define TILE_PUTS_LANES 0
#endif

/* Lines of n windows each, TILE_SIDE at the least: the next is `step` words behind in b, n in y. */
typedef struct tile_lines {
  int64_t count, n, step;
} tile_lines;

typedef struct tile_shape {
  int64_t steps, rows, width; /* words of a sum; rows of a and columns of b in their panels */
  int64_t ldy;                /* from one row of y to the next */
  bool add;                   /* to what is in y */
  const int64_t *taps;        /* of tile_windows */
  const tile_places *lanes;   /* of tile_windows, if it puts lanes: of each vector of a row */
  const float *bias;          /* of tile_floats and tile_windows: what rows get added, or NULL */
  bool relu;                  /* of these: and what is not above 0 is 0 */
} tile_shape;

/* Rows that a panel of a has for `rows` that are left. */
static inline int64_t tile_rows(int64_t rows) {
  return rows <= 2 ? rows : rows <= 4 ? 4 : TILE_ROWS;
}

static inline int64_t tile_width(int64_t columns) {
  return cpu_min(TILE_WIDTH, cpu_ceil_div(columns, TILE_SIDE) * TILE_SIDE);
}

/* Four words of each of four vectors, `across` bytes apart, to a panel of `room`. */
static inline void tile_turn(const void *x, int64_t across, uint32_t *to, int64_t room) {
  typedef uint32_t words __attribute__((vector_size(16), aligned(1), may_alias));
  const char *from = x;
  const words a = *(const words *)(const void *)from;
  const words b = *(const words *)(const void *)(from + across);
  const words c = *(const words *)(const void *)(from + 2 * across);
  const words d = *(const words *)(const void *)(from + 3 * across);
  const words ac = __builtin_shufflevector(a, c, 0, 4, 1, 5),
              ca = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const words bd = __builtin_shufflevector(b, d, 0, 4, 1, 5),
              db = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *(words *)(void *)to = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
  *(words *)(void *)(to + room) = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
  *(words *)(void *)(to + 2 * room) = __builtin_shufflevector(ca, db, 0, 4, 1, 5);
  *(words *)(void *)(to + 3 * room) = __builtin_shufflevector(ca, db, 2, 6, 3, 7);
}

/* y [rows][width] = the sums of a by b, or what is there plus these; sums of integers wrap. */

/* Words are two int16. */
void ISA(tile_pairs)(const tile_shape *s, const uint32_t *a, const uint32_t *b, int32_t *y);

/* Words are floats. */
void ISA(tile_floats)(const tile_shape *s, const float *a, const float *b, float *y);
/* The same, of a b that is no panel: row t of it begins taps[t] floats behind b. */
void ISA(tile_windows)(const tile_shape *s, const float *a, const float *b, float *y);
/* The same of many lines of windows, whose last vectors overlap those before; where sums are not
 * put in lanes. pre: !add; `width` says nothing. */
void ISA(tile_windows_of_lines)(const tile_shape *s, const tile_lines *l, const float *a,
                                const float *b, float *y);

#if TN_ISA_LEVEL == 2
/* Words are two bf16. For processors with AVX512-BF16, to which subnormal numbers are 0. */
void tile_pairs_bf16(const tile_shape *s, const uint32_t *a, const uint32_t *b, float *y);
/* The same by AMX, of a and b in tiles of TILE_UNIT by TILE_UNIT words: of a in rows of words of
 * one row, of b in rows of words of columns beside each other. Tiles of the next steps follow,
 * `group` words behind stand those of the next rows or columns. Steps and the width are multiples
 * of TILE_UNIT, and so are the rows that a and y have; what lies in more than there are does not
 * matter. */
void tile_pairs_amx(const tile_shape *s, int64_t group, const uint32_t *a, const uint32_t *b,
                    float *y);
/* The same of words of four bytes, of a and then of b signed (s) or unsigned (u). */
void tile_bytes_ss_amx(const tile_shape *s, int64_t group, const uint32_t *a, const uint32_t *b,
                       int32_t *y);
void tile_bytes_su_amx(const tile_shape *s, int64_t group, const uint32_t *a, const uint32_t *b,
                       int32_t *y);
void tile_bytes_us_amx(const tile_shape *s, int64_t group, const uint32_t *a, const uint32_t *b,
                       int32_t *y);
void tile_bytes_uu_amx(const tile_shape *s, int64_t group, const uint32_t *a, const uint32_t *b,
                       int32_t *y);
/* Words are four bytes, signed of one operand and unsigned of the other. For processors with
 * AVX-512 VNNI. */
void tile_signed_a_vnni(const tile_shape *s, const uint32_t *a, const uint32_t *b, int32_t *y);
void tile_signed_b_vnni(const tile_shape *s, const uint32_t *a, const uint32_t *b, int32_t *y);
/* Sums of each lane's bytes: of `width` words, `steps` times. */
void tile_byte_sums_vnni(int64_t steps, int64_t width, bool is_signed, const uint32_t *words,
                         int32_t *sums);
/* Sum of the bytes of `steps` words that follow each other. */
int32_t tile_byte_sum_vnni(int64_t steps, bool is_signed, const uint32_t *words);
#endif

#endif
