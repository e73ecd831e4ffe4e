/* Products of floats, by fused multiplication and addition where the processor has that. */
#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/matmul/tile.h"

static inline FLOATS tile_finish(const tile_shape *s, int row, FLOATS sum) {
  if (s->bias) sum += FLOATS_SPREAD(s->bias[row]);
  return s->relu ? FLOATS_AND(sum, (FLOATS) ~(sum <= (FLOATS){0})) : sum;
}

#if defined(__AVX512F__)
static inline void tile_put(float *row, const tile_places *lanes, FLOATS sum) {
  const FLOATS dense = _mm512_maskz_compress_ps(lanes->mask, sum);
  if (lanes->whole)
    FLOATS_KEEP(row + lanes->to, dense);
  else if (lanes->count)
    FLOATS_KEEP_FIRST(row + lanes->to, FLOATS_FIRST(lanes->count), dense);
}
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
#define TILE_FINISH(s, i, sum) tile_finish(s, i, sum)
#include "kernels/cpu/matmul/tile.inc"

#define TILE_NAME ISA(tile_windows)
#define TILE_TAPS
#if !TILE_PUTS_LANES
#define TILE_LINES ISA(tile_windows_of_lines)
#endif
#if defined(__AVX512F__)
#define TILE_PUT(p, lanes, sum) tile_put(p, lanes, sum)
#endif
#define TILE_WORD float
#define TILE_SUM float
#define TILE_VECTOR FLOATS
#define TILE_VECTORS FLOATS_BESIDE
#define TILE_LOAD(p) FLOATS_LOAD(p)
#define TILE_SPREAD(x) FLOATS_SPREAD(x)
#define TILE_KEEP(p, v) FLOATS_KEEP(p, v)
#define TILE_DOT(sum, a, b) FLOATS_DOT(sum, a, b)
#define TILE_FINISH(s, i, sum) tile_finish(s, i, sum)
#include "kernels/cpu/matmul/tile.inc"
