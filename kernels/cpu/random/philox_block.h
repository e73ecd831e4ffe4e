/*
 * Philox4x32-10 (Salmon et al. 2011) at many counters at once, all rounds of some of them in
 * registers; elsewhere by lane arrays instead of structs, so that every step is a loop that
 * vectorises. Same words as kernels/common/philox.h.
 */
#ifndef TENON_KERNELS_CPU_PHILOX_BLOCK_H
#define TENON_KERNELS_CPU_PHILOX_BLOCK_H

#include <stdint.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/cpu.h"

/* Counters in a block; four words come from each. */
#define PHILOX_COUNTERS 64
#define PHILOX_WORDS (4 * PHILOX_COUNTERS)

#if defined(__SSE2__)
/* A vector has the same of the four numbers of as many counters, in the lower half of 64 bits each:
 * that is what a product of 32 bits by 32 reads, whatever stands above. The counters' order in it
 * is such that numbers of neighbours come to stand side by side where halves are joined. */
#if defined(__AVX512F__)
typedef __m512i philox_vector;
#define PHILOX_OP(name) _mm512_##name
#define PHILOX_ALL(name) _mm512_##name##_si512
#define PHILOX_EACH _mm512_set1_epi64
#define PHILOX_ORDER _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)
enum { PHILOX_QUADS = 4 };
#elif defined(__AVX2__)
typedef __m256i philox_vector;
#define PHILOX_OP(name) _mm256_##name
#define PHILOX_ALL(name) _mm256_##name##_si256
#define PHILOX_EACH _mm256_set1_epi64x
#define PHILOX_ORDER _mm256_setr_epi64x(0, 2, 1, 3)
enum { PHILOX_QUADS = 2 };
#else
typedef __m128i philox_vector;
#define PHILOX_OP(name) _mm_##name
#define PHILOX_ALL(name) _mm_##name##_si128
#define PHILOX_EACH _mm_set1_epi64x
#define PHILOX_ORDER _mm_set_epi64x(1, 0)
enum { PHILOX_QUADS = 2 };
#endif
enum { PHILOX_LANES = (int)(sizeof(philox_vector) / sizeof(uint64_t)) };

typedef struct philox_quad {
  philox_vector c0, c1, c2, c3;
} philox_quad;

static inline philox_quad philox_begin(uint64_t first) {
  const philox_vector none = PHILOX_EACH(0);
  const philox_vector at = PHILOX_OP(add_epi64)(PHILOX_EACH((long long)first), PHILOX_ORDER);
  return (philox_quad){at, PHILOX_OP(srli_epi64)(at, 32), none, none};
}

static inline philox_quad philox_round(philox_quad q, philox_vector key0, philox_vector key1) {
  const philox_vector p0 = PHILOX_OP(mul_epu32)(q.c0, PHILOX_EACH(0xD2511F53u));
  const philox_vector p1 = PHILOX_OP(mul_epu32)(q.c2, PHILOX_EACH(0xCD9E8D57u));
  const philox_vector up0 = PHILOX_OP(srli_epi64)(p0, 32), up1 = PHILOX_OP(srli_epi64)(p1, 32);
  return (philox_quad){PHILOX_ALL(xor)(PHILOX_ALL(xor)(up1, q.c1), key0), p1,
                       PHILOX_ALL(xor)(PHILOX_ALL(xor)(up0, q.c3), key1), p0};
}

static inline void philox_store(philox_quad q, uint32_t *words) {
  const philox_vector lower = PHILOX_EACH(UINT32_MAX);
  const philox_vector a =
      PHILOX_ALL(or)(PHILOX_ALL(and)(q.c0, lower), PHILOX_OP(slli_epi64)(q.c1, 32));
  const philox_vector b =
      PHILOX_ALL(or)(PHILOX_ALL(and)(q.c2, lower), PHILOX_OP(slli_epi64)(q.c3, 32));
  PHILOX_ALL(storeu)((void *)words, PHILOX_OP(unpacklo_epi64)(a, b));
  PHILOX_ALL(storeu)((void *)(words + 2 * PHILOX_LANES), PHILOX_OP(unpackhi_epi64)(a, b));
}

/* Of PHILOX_QUADS vectors of counters, which do not wait for each other. */
static inline void philox_quads(uint64_t seed, uint64_t first, uint32_t *words) {
  philox_vector key0 = PHILOX_EACH((long long)(uint32_t)seed);
  philox_vector key1 = PHILOX_EACH((long long)(seed >> 32));
  const philox_vector step0 = PHILOX_EACH(0x9E3779B9u), step1 = PHILOX_EACH(0xBB67AE85u);
  philox_quad a = philox_begin(first), b = philox_begin(first + PHILOX_LANES);
  philox_quad c = philox_begin(first + (PHILOX_QUADS - 2) * PHILOX_LANES);
  philox_quad d = philox_begin(first + (PHILOX_QUADS - 1) * PHILOX_LANES);
  for (int round = 0; round < 10; round++) {
    a = philox_round(a, key0, key1);
    b = philox_round(b, key0, key1);
    if (PHILOX_QUADS == 4) c = philox_round(c, key0, key1);
    if (PHILOX_QUADS == 4) d = philox_round(d, key0, key1);
    key0 = PHILOX_OP(add_epi64)(key0, step0);
    key1 = PHILOX_OP(add_epi64)(key1, step1);
  }
  philox_store(a, words);
  philox_store(b, words + 4 * PHILOX_LANES);
  if (PHILOX_QUADS == 4) philox_store(c, words + 8 * PHILOX_LANES);
  if (PHILOX_QUADS == 4) philox_store(d, words + 12 * PHILOX_LANES);
}

/* words[4 i + lane] = lane of counter first + i. */
static inline void philox_block(uint64_t seed, uint64_t first, uint32_t *restrict words) {
  for (int i = 0; i < PHILOX_COUNTERS; i += PHILOX_QUADS * PHILOX_LANES)
    philox_quads(seed, first + (uint64_t)i, words + 4 * i);
}
#else
/* words[4 i + lane] = lane of counter first + i. */
static inline void philox_block(uint64_t seed, uint64_t first, uint32_t *restrict words) {
  uint32_t c0[PHILOX_COUNTERS], c1[PHILOX_COUNTERS], c2[PHILOX_COUNTERS], c3[PHILOX_COUNTERS];
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
  for (uint32_t i = 0; i < PHILOX_COUNTERS; i++) {
    c0[i] = (uint32_t)(first + i);
    c1[i] = (uint32_t)((first + i) >> 32);
    c2[i] = 0;
    c3[i] = 0;
  }
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < PHILOX_COUNTERS; i++) {
      const uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
      c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ key0;
      c1[i] = (uint32_t)p1;
      c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ key1;
      c3[i] = (uint32_t)p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < PHILOX_COUNTERS; i++) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}
#endif

/* Runs fn over blocks of `per_block` of n elements: an index is a block. */
static inline tn_status philox_run(const tn_kernel_args *args, int64_t n, int64_t per_block,
                                   tn_range_fn fn, void *ctx) {
  const int64_t blocks = cpu_ceil_div(n, per_block);
  if (blocks <= 32) return fn(ctx, 0, blocks);
  return args->host->parallel_for(args->host, blocks, 32, fn, ctx);
}

#endif
