/*
 * Products of pairs of int16, which are summed in int32 by one instruction since SSE2. Processors
 * without it multiply the halves of words one after the other.
 */
#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/matmul/tile.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define TILE_NAME ISA(tile_pairs)
#define TILE_WORD uint32_t
#define TILE_SUM int32_t

#if defined(__AVX512BW__)
#define TILE_VECTOR __m512i
#define TILE_VECTORS 4
#define TILE_LOAD(p) _mm512_loadu_si512(p)
#define TILE_SPREAD(word) _mm512_set1_epi32((int32_t)(word))
#define TILE_KEEP(p, v) _mm512_storeu_si512(p, v)
#define TILE_DOT(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#elif defined(__AVX2__)
#define TILE_VECTOR __m256i
#define TILE_VECTORS 2
#define TILE_LOAD(p) _mm256_loadu_si256((const __m256i_u *)(const void *)(p))
#define TILE_SPREAD(word) _mm256_set1_epi32((int32_t)(word))
#define TILE_KEEP(p, v) _mm256_storeu_si256((__m256i_u *)(void *)(p), v)
#define TILE_DOT(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#elif defined(__SSE2__)
#define TILE_VECTOR __m128i
#define TILE_VECTORS 2
#define TILE_LOAD(p) _mm_loadu_si128((const __m128i_u *)(const void *)(p))
#define TILE_SPREAD(word) _mm_set1_epi32((int32_t)(word))
#define TILE_KEEP(p, v) _mm_storeu_si128((__m128i_u *)(void *)(p), v)
#define TILE_DOT(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
#else
typedef int32_t tile_lanes __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t tile_words __attribute__((vector_size(16), aligned(4), may_alias));
static inline tile_words tile_dot(tile_words sum, tile_words a, tile_words b) {
  const tile_words low =
      (tile_words)((tile_lanes)(a << 16) >> 16) * (tile_words)((tile_lanes)(b << 16) >> 16);
  return sum + low + (tile_words)((tile_lanes)a >> 16) * (tile_words)((tile_lanes)b >> 16);
}
#define TILE_VECTOR tile_words
#define TILE_VECTORS 2
#define TILE_LOAD(p) (*(const tile_words *)(const void *)(p))
#define TILE_SPREAD(word) ((tile_words){0} + (word))
#define TILE_KEEP(p, v) (*(tile_words *)(void *)(p) = (v))
#define TILE_DOT(sum, a, b) tile_dot(sum, a, b)
#endif

#include "kernels/cpu/matmul/tile.inc"
