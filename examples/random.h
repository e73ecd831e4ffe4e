/* Random numbers of the host, the same everywhere: SplitMix64 (Steele, Lea and Flood 2014). */
#ifndef EXAMPLES_RANDOM_H
#define EXAMPLES_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

/* The state of stream `number` of a seed. */
static inline uint64_t random_stream(uint64_t seed, uint64_t number) {
  uint64_t state = seed;
  return random_next(&state) ^ number;
}

#endif
