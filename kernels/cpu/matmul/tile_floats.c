/* Products of floats, by fused multiplication and addition where the processor has that. */
#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/matmul/tile.h"

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
