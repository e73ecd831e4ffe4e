/* Products of floats, by fused multiplication and addition where the processor has that. */
#include "kernels/cpu/matmul/tile.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define FLOATS __m512
#define FLOATS_BESIDE 4
#define FLOATS_LOAD(p) _mm512_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm512_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm512_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#elif defined(__AVX2__)
#define FLOATS __m256
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm256_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm256_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm256_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#elif defined(__SSE2__)
#define FLOATS __m128
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm_add_ps(sum, _mm_mul_ps(a, b))
#elif defined(__aarch64__)
#define FLOATS float32x4_t
#define FLOATS_BESIDE 4
#define FLOATS_LOAD(p) vld1q_f32(p)
#define FLOATS_SPREAD(x) vdupq_n_f32(x)
#define FLOATS_KEEP(p, v) vst1q_f32(p, v)
#define FLOATS_DOT(sum, a, b) vfmaq_f32(sum, a, b)
#else
typedef float tile_lanes __attribute__((vector_size(16), aligned(4), may_alias));
#define FLOATS tile_lanes
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) (*(const tile_lanes *)(const void *)(p))
#define FLOATS_SPREAD(x) ((tile_lanes){0} + (x))
#define FLOATS_KEEP(p, v) (*(tile_lanes *)(void *)(p) = (v))
#define FLOATS_DOT(sum, a, b) ((sum) + (a) * (b))
#endif

#define TILE_NAME ISA(tile_floats)
#define TILE_WORD float
#define TILE_SUM float
#define TILE_VECTOR FLOATS
#define TILE_VECTORS FLOATS_BESIDE
#define TILE_LOAD(p) FLOATS_LOAD(p)
#define TILE_SPREAD(x) FLOATS_SPREAD(x)
#define TILE_KEEP(p, v) FLOATS_KEEP(p, v)
#define TILE_DOT(sum, a, b) FLOATS_DOT(sum, a, b)
#include "kernels/cpu/matmul/tile.inc"

#define TILE_NAME ISA(tile_windows)
#define TILE_TAPS
#define TILE_WORD float
#define TILE_SUM float
#define TILE_VECTOR FLOATS
#define TILE_VECTORS FLOATS_BESIDE
#define TILE_LOAD(p) FLOATS_LOAD(p)
#define TILE_SPREAD(x) FLOATS_SPREAD(x)
#define TILE_KEEP(p, v) FLOATS_KEEP(p, v)
#define TILE_DOT(sum, a, b) FLOATS_DOT(sum, a, b)
#include "kernels/cpu/matmul/tile.inc"
