/*
 * Products of pairs of bf16 and of four bytes by AMX, whose tiles hold 16 rows of 16 words. As with
 * AVX512-BF16, numbers below 2^-126 are 0. Built once, beside the tables.
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
enum { CPUID_BF16 = 1 << 22, CPUID_TILE = 1 << 24, CPUID_INT8 = 1 << 25, KEPT_TILES = 3 << 17 };
/* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of <asm/prctl.h> and the kernel's documentation. */
enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };

/* What is known, FORBIDDEN before anything is: ANSWERED with the kinds of words that there are. */
enum { FORBIDDEN, ALLOWED, ANSWERED, OF_BF16 = 4, OF_BYTES = 8 };
static atomic_int known;

static bool may_use_state(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
  return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
  return false;
#endif
}

static int ask(void) {
  unsigned a, b, c, words, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &words) || !(words & CPUID_TILE)) return 0;
  const int kinds = (words & CPUID_BF16 ? OF_BF16 : 0) | (words & CPUID_INT8 ? OF_BYTES : 0);
  if (!kinds || !__get_cpuid(1, &a, &b, &c, &words) || !(c & bit_OSXSAVE)) return 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return (low & KEPT_TILES) == KEPT_TILES && may_use_state() ? kinds : 0;
}

void tile_amx_allow(void) {
  int before = FORBIDDEN;
  (void)atomic_compare_exchange_strong(&known, &before, ALLOWED);
}

static int answer(void) {
  int now = atomic_load_explicit(&known, memory_order_relaxed);
  if (now != ALLOWED) return now;
  now = ANSWERED | ask();
  atomic_store_explicit(&known, now, memory_order_relaxed);
  return now;
}

bool tile_amx_is_there(void) { return answer() & OF_BF16; }

bool tile_amx_has_bytes(void) { return answer() & OF_BYTES; }

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

static void configure(void) {
  tile_config c = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    c.row_bytes[t] = (uint16_t)(sizeof(uint32_t) * TILE_UNIT);
    c.rows[t] = TILE_UNIT;
  }
  __asm__ volatile("" : : "r"(&c) : "memory"); /* GCC 12 knows of the first 8 bytes alone */
  _tile_loadconfig(&c);
}

enum { UNITS_WORDS = TILE_UNIT * TILE_UNIT }; /* of a tile */

#define UNITS_NAME tile_pairs_amx
#define UNITS_SUM float
#define UNITS_DOT(sum, a, b) _tile_dpbf16ps(sum, a, b)
#include "kernels/cpu/matmul/tile_amx.inc"

#define UNITS_NAME tile_bytes_ss_amx
#define UNITS_SUM int32_t
#define UNITS_DOT(sum, a, b) _tile_dpbssd(sum, a, b)
#include "kernels/cpu/matmul/tile_amx.inc"

#define UNITS_NAME tile_bytes_su_amx
#define UNITS_SUM int32_t
#define UNITS_DOT(sum, a, b) _tile_dpbsud(sum, a, b)
#include "kernels/cpu/matmul/tile_amx.inc"

#define UNITS_NAME tile_bytes_us_amx
#define UNITS_SUM int32_t
#define UNITS_DOT(sum, a, b) _tile_dpbusd(sum, a, b)
#include "kernels/cpu/matmul/tile_amx.inc"

#define UNITS_NAME tile_bytes_uu_amx
#define UNITS_SUM int32_t
#define UNITS_DOT(sum, a, b) _tile_dpbuud(sum, a, b)
#include "kernels/cpu/matmul/tile_amx.inc"
