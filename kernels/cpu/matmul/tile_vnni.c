/*
 * Products of four bytes, unsigned by signed, which AVX-512 VNNI adds to an int32 at once, without
 * the sums of 16 bits that saturate in older instructions. Built once, beside the tables.
 */
#include <immintrin.h>

#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/matmul/tile.h"

#define TILE_NAME tile_signed_a_vnni
#define TILE_WORD uint32_t
#define TILE_SUM int32_t
#define TILE_VECTOR __m512i
#define TILE_VECTORS 4
#define TILE_LOAD(p) _mm512_loadu_si512(p)
#define TILE_SPREAD(word) _mm512_set1_epi32((int32_t)(word))
#define TILE_KEEP(p, v) _mm512_storeu_si512(p, v)
#define TILE_DOT(sum, a, b) _mm512_dpbusd_epi32(sum, b, a)
#include "kernels/cpu/matmul/tile.inc"

#define TILE_NAME tile_signed_b_vnni
#define TILE_WORD uint32_t
#define TILE_SUM int32_t
#define TILE_VECTOR __m512i
#define TILE_VECTORS 4
#define TILE_LOAD(p) _mm512_loadu_si512(p)
#define TILE_SPREAD(word) _mm512_set1_epi32((int32_t)(word))
#define TILE_KEEP(p, v) _mm512_storeu_si512(p, v)
#define TILE_DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#include "kernels/cpu/matmul/tile.inc"

/* Panels need not be whole vectors wide: the last lanes are masked. */
void tile_byte_sums_vnni(int64_t steps, int64_t width, bool is_signed, const uint32_t *words,
                         int32_t *sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t j = 0; j < width; j += 16) {
    const __mmask16 lanes = (__mmask16)((1u << cpu_min(16, width - j)) - 1);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t t = 0; t < steps; t++) {
      const __m512i v = _mm512_maskz_loadu_epi32(lanes, words + t * width + j);
      sum = is_signed ? _mm512_dpbusd_epi32(sum, ones, v) : _mm512_dpbusd_epi32(sum, v, ones);
    }
    _mm512_mask_storeu_epi32(sums + j, lanes, sum);
  }
}

int32_t tile_byte_sum_vnni(int64_t steps, bool is_signed, const uint32_t *words) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t t = 0; t < steps; t += 16) {
    const __mmask16 lanes = (__mmask16)((1u << cpu_min(16, steps - t)) - 1);
    const __m512i v = _mm512_maskz_loadu_epi32(lanes, words + t);
    sum = is_signed ? _mm512_dpbusd_epi32(sum, ones, v) : _mm512_dpbusd_epi32(sum, v, ones);
  }
  return _mm512_reduce_add_epi32(sum);
}
