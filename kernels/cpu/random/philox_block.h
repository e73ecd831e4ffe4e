/*
 * Philox4x32-10 (Salmon et al. 2011) at many counters at once: lane arrays instead of
 * structs, so that every step is a loop that vectorises. Same words as kernels/common/philox.h.
 */
#ifndef TENON_KERNELS_CPU_PHILOX_BLOCK_H
#define TENON_KERNELS_CPU_PHILOX_BLOCK_H

#include <stdint.h>

#include "kernels/cpu/cpu.h"

/* Counters in a block; four words come from each. */
#define PHILOX_COUNTERS 64
#define PHILOX_WORDS (4 * PHILOX_COUNTERS)

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

/* Runs fn over blocks of `per_block` of n elements: an index is a block. */
static inline tn_status philox_run(const tn_kernel_args *args, int64_t n, int64_t per_block,
                                   tn_range_fn fn, void *ctx) {
  const int64_t blocks = cpu_ceil_div(n, per_block);
  if (blocks <= 32) return fn(ctx, 0, blocks);
  return args->host->parallel_for(args->host, blocks, 32, fn, ctx);
}

#endif
