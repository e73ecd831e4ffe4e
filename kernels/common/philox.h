/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011: "Parallel random numbers: as easy as
 * 1, 2, 3"), the generator behind every random operator, and how its words become
 * uniform numbers. The same code serves C and CUDA, so every device draws the same bits.
 */
#ifndef TENON_KERNELS_PHILOX_H
#define TENON_KERNELS_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define TN_PHILOX_FN static __host__ __device__ inline
#else
#define TN_PHILOX_FN static inline
#endif

typedef struct philox_words {
  uint32_t w[4];
} philox_words;

TN_PHILOX_FN philox_words philox4x32_round(philox_words c, uint32_t key0, uint32_t key1) {
  uint64_t p0 = (uint64_t)0xD2511F53u * c.w[0], p1 = (uint64_t)0xCD9E8D57u * c.w[2];
  philox_words r;
  r.w[0] = (uint32_t)(p1 >> 32) ^ c.w[1] ^ key0;
  r.w[1] = (uint32_t)p1;
  r.w[2] = (uint32_t)(p0 >> 32) ^ c.w[3] ^ key1;
  r.w[3] = (uint32_t)p0;
  return r;
}

TN_PHILOX_FN philox_words philox4x32_10(philox_words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    counter = philox4x32_round(counter, key0, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/* The four words at one place of the sequence that a seed names. */
TN_PHILOX_FN philox_words philox_at(uint64_t seed, uint64_t counter) {
  philox_words c;
  c.w[0] = (uint32_t)counter;
  c.w[1] = (uint32_t)(counter >> 32);
  c.w[2] = 0;
  c.w[3] = 0;
  return philox4x32_10(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* 24 bits of a word as a number in [0, 1). */
TN_PHILOX_FN float philox_uniform24(uint32_t word) {
  return (float)(word >> 8) * (1.0f / 16777216.0f);
}

/* The same in (0, 1], whose logarithm is finite. */
TN_PHILOX_FN float philox_uniform24_positive(uint32_t word) {
  return (float)((word >> 8) + 1) * (1.0f / 16777216.0f);
}

/* 53 bits of two words as a number in [0, 1). */
TN_PHILOX_FN double philox_uniform53(uint32_t low, uint32_t high) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * (1.0 / 9007199254740992.0);
}

TN_PHILOX_FN double philox_uniform53_positive(uint32_t low, uint32_t high) {
  return (double)((((uint64_t)high << 32 | low) >> 11) + 1) * (1.0 / 9007199254740992.0);
}

#endif
