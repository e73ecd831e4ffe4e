/*
 * dropout, uniform and normal from Philox: element i of the logical order takes the words
 * of counter offset + i / 4 (float64 numbers: offset + i / 2), whatever the threads do.
 * Loops go by blocks of PHILOX_WORDS words.
 */
#include <math.h>

#include "kernels/common/scalars.h"
#include "kernels/common/uniform.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/random/philox_block.h"

typedef struct random_call {
  const void *x;
  void *y;
  uint8_t *mask;
  int64_t n;
  uint64_t seed, offset;
  uint32_t drop; /* dropout keeps w >> 8 >= drop */
  double scale;
  double a, b; /* mean and deviation */
  uniform_range range;
} random_call;

/* One loop index is one block, of `per_block` elements. */
static tn_status random_run(const tn_kernel_args *args, random_call *call, int64_t per_block,
                            tn_range_fn fn) {
  call->n = cpu_count(args->out[0]);
  call->y = args->out[0]->data;
  return philox_run(args, call->n, per_block, fn, call);
}

/* sqrt(-2 ln u) of u = (word >> 8) + 1 in units of 2^-24, and the turn of the other word. */
static inline void normal_pair_f(const uint32_t *words, int64_t pairs, float *restrict z) {
  for (int64_t i = 0; i < pairs; i++) {
    const float u1 = (float)(int32_t)((words[2 * i] >> 8) + 1) * 0x1p-24f;
    const float u2 = (float)(int32_t)(words[2 * i + 1] >> 8) * 0x1p-24f;
    const float r = sqrtf(-2.0f * log_f(u1));
    float sine, cosine;
    turn_f(u2, &sine, &cosine);
    z[2 * i] = r * cosine;
    z[2 * i + 1] = r * sine;
  }
}

static inline double uniform_53(uint32_t low, uint32_t high) {
  return (double)(int64_t)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

static inline void normal_pair_d(const uint32_t *words, int64_t pairs, double *restrict z) {
  for (int64_t i = 0; i < pairs; i++) {
    const double u1 = uniform_53(words[4 * i], words[4 * i + 1]) + 0x1p-53;
    const double u2 = uniform_53(words[4 * i + 2], words[4 * i + 3]);
    const double r = sqrt(-2 * log(u1)), turn = 6.28318530717958647693 * u2;
    z[2 * i] = r * cos(turn);
    z[2 * i + 1] = r * sin(turn);
  }
}

#define BODY "kernels/cpu/random/random.inc"
#include "kernels/cpu/base/stamp_float.inc"
