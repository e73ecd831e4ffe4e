/*
 * cast between all pairs of element types. One kernel per source type; the destination
 * chooses the inner loop.
 */
#include <math.h>

#include "kernels/common/float8.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

/* The integer above 2^53 nearest below or above a double with its last bit set: as
 * float_to_odd, one rounding further down then comes out right. */
static inline double double_to_odd(int64_t x) {
  const int64_t cut = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0 ? 0x800 : 0);
  return x < (1ll << 53) && x > -(1ll << 53) ? (double)x : (double)cut;
}

/* Side by side; the loop that GCC 12 makes of it takes twice as long. */
static void brains_of_floats(int64_t n, const float *x, uint16_t *y) {
  int64_t i = 0;
#if defined(__AVX2__) && !defined(__AVX512F__)
  const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7fff);
  const __m256i quiet = _mm256_set1_epi32(0x40);
  for (; i + 16 <= n; i += 16) {
    __m256i some[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * k);
      const __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
      const __m256i even = _mm256_add_epi32(_mm256_and_si256(top, one), half);
      const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(u, even), 16);
      const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      some[k] = _mm256_blendv_epi8(near, _mm256_or_si256(top, quiet), is_nan);
    }
    /* Of each half of both registers, the halves put in order. */
    const __m256i all = _mm256_permute4x64_epi64(_mm256_packus_epi32(some[0], some[1]), 0xd8);
    _mm256_storeu_si256((void *)(y + i), all);
  }
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = bf16_store(x[i]);
}

#define BODY "kernels/cpu/elementwise/cast.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_f8.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
