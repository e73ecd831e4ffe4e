/*
 * Products of pairs of bf16, which AVX512-BF16 adds to a float, rounding to nearest; numbers below
 * 2^-126, in words and in sums, are 0 to it. Built once, beside the tables.
 */
#include <immintrin.h>

#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/matmul/tile.h"

#define TILE_NAME tile_pairs_bf16
#define TILE_WORD uint32_t
#define TILE_SUM float
#define TILE_VECTOR __m512
#define TILE_VECTORS 4
#define TILE_LOAD(p) _mm512_loadu_ps(p)
#define TILE_SPREAD(word) _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)(word)))
#define TILE_KEEP(p, v) _mm512_storeu_ps(p, v)
#define TILE_DOT(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#include "kernels/cpu/matmul/tile.inc"
