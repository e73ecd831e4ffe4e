/*
 * How a product in tiles (matmul_tiles.inc) is cut: into blocks of some rows by a strip of columns
 * and, where these are few and sums are long, each sum into shares. Shares depend on the extents
 * alone and an element's sum on nothing else, so that threads do not change its bits.
 */
#ifndef TENON_KERNELS_CPU_TILED_H
#define TENON_KERNELS_CPU_TILED_H

#include <stdatomic.h>

#include "kernels/cpu/matmul/deep.h"
#include "kernels/cpu/matmul/tile.h"

/* Rows of a block, between which there is what threads want: its sums stay in cache. Words of b
 * that are laid out at a time. Words of a share at the least, and blocks that are enough without
 * shares. */
enum { TILED_ROWS = 192, TILED_ROWS_LEAST = 48, TILED_DEPTH = 256 };
/* With matrix units. */
enum { TILED_ROWS_OF_UNITS = 512 };
#ifndef TILED_DEPTH_OF_UNITS
#define TILED_DEPTH_OF_UNITS 256
#endif
/* Words of b that need not be laid out again if each is once for all blocks of rows: fewer are not
 * worth a loop over the threads. Words that would take too much memory. */
enum { TILED_ONCE_LEAST = 1 << 18, TILED_ONCE_MOST = 1 << 26 };
enum { TILED_SHARE = 1024, TILED_BLOCKS = 16 };
/* Rows for which float32 columns of b are read where they lie. */
enum { TILED_IN_PLACE = 24 };

typedef struct tiled_product {
  const matmul_call *call;
  bool pairs, units;     /* pairs of bf16, by matrix units */
  int64_t steps, slices; /* words of a sum; shares of it */
  int64_t block_m, blocks_m, blocks_n, blocks;
  /* Of a: [own matrices, panels, steps, rows of a panel], for matrix units matmul_units.inc. */
  uint32_t *memory, *panels;
  /* Of b: [own matrices, blocks_n, steps, width of a strip], for matrix units [own matrices,
   * blocks_n, groups of TILE_UNIT columns, steps, TILE_UNIT], or NULL. */
  uint32_t *strips;
  float *partial; /* sums of shares: [blocks, slices, tiled_block_room] */
} tiled_product;

/* Words first <= t < last of a panel of `room` vectors. */
typedef struct tile_part {
  int64_t first, last, room;
} tile_part;

/* A block of y: its place, its extents, and where its operands begin: in rows of the panels, in
 * elements, and in words of strips. */
typedef struct tiled_block {
  int64_t j, rows, columns, a, a_data, b, strip, y;
} tiled_block;

/* Whether an operand has a number that pairs of bf16 would lose. */
typedef struct search {
  const matmul_call *call;
  const operand *in;
  atomic_bool found;
} search;

/* What a thread has. */
typedef struct tiled_room {
  void *memory;
  float *sums;
  uint32_t *a, *b;
  int64_t *taps; /* rows of b, where they are read in place */
} tiled_room;

static inline int64_t tiled_block_room(const tiled_product *p) {
  const int64_t rows = p->units ? TILE_UNIT : TILE_ROWS;
  return cpu_ceil_div(p->block_m, rows) * rows * TILE_WIDTH;
}

static tiled_product tiled_product_of(const matmul_call *call, bool pairs, bool units) {
  tiled_product p = {.call = call, .pairs = pairs, .units = units, .slices = 1};
  const int64_t side = units ? 2 * TILE_UNIT : TILE_ROWS;
  const int64_t threads = call->host->num_threads > 1 ? (int64_t)call->host->num_threads : 0;
  p.steps = pairs ? cpu_ceil_div(call->k, 2) : call->k;
  if (units) p.steps = cpu_ceil_div(p.steps, TILE_UNIT) * TILE_UNIT;
  p.blocks_n = cpu_ceil_div(call->n, TILE_WIDTH);
  const int64_t strips = call->batches * p.blocks_n;
  const int64_t wanted = cpu_max(1, cpu_ceil_div(4 * threads, strips));
  const int64_t most = units ? TILED_ROWS_OF_UNITS : TILED_ROWS;
  const int64_t blocks = cpu_max(wanted, cpu_ceil_div(call->m, most)); /* of equal work */
  const int64_t few = cpu_ceil_div(call->m, units ? 2 * side : TILED_ROWS_LEAST);
  p.block_m = cpu_ceil_div(call->m, cpu_min(blocks, few) * side) * side;
  p.blocks_m = cpu_ceil_div(call->m, p.block_m);
  p.blocks = strips * p.blocks_m;
  const int64_t least = strips * cpu_ceil_div(call->m, TILED_ROWS_LEAST);
  p.slices = cpu_max(1, cpu_min(TILED_BLOCKS / least, p.steps / TILED_SHARE));
  return p;
}

static tn_status tiled_no_memory(const tn_host *host, int64_t bytes) {
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld bytes of a product in tiles",
                    (long long)bytes);
}

/* Words of b that are worth laying out once; 0 of one that is not. */
static int64_t tiled_strips(const tiled_product *p) {
  const int64_t matrices = own_matrices(p->call, &p->call->b), row = p->blocks_n * TILE_WIDTH;
  const int64_t again = p->call->batches * p->blocks_m - matrices;
  if (p->units) return matrices * row * p->steps; /* which want tiles */
  if (p->call->deep || again <= 0 || matrices > TILED_ONCE_MOST / row) return 0;
  if (p->steps > TILED_ONCE_MOST / (matrices * row)) return 0;
  return again * row >= cpu_ceil_div(TILED_ONCE_LEAST, cpu_max(1, p->steps))
             ? matrices * row * p->steps
             : 0;
}

/* All in one piece of memory, which the C library keeps for the next call of its size; strips are
 * done without where there is none for them. */
static tn_status tiled_product_open(tiled_product *p) {
  const matmul_call *call = p->call;
  const int64_t matrices = own_matrices(call, &call->a);
  const int64_t side = p->units ? TILE_UNIT : TILE_ROWS;
  const int64_t rows = matrices * cpu_ceil_div(call->m, side) * side;
  const bool has_panels = !p->call->deep && (p->blocks_n > 1 || p->units);
  const int64_t panels =
      has_panels ? cpu_ceil_div(rows * p->steps, TILE_SIDE) * TILE_SIDE + TILE_SIDE : 0;
  const int64_t sums = p->slices > 1 ? p->blocks * p->slices * tiled_block_room(p) : 0;
  int64_t strips = tiled_strips(p), words = panels + sums + strips;
  if (words == 0) return TN_OK;
  p->memory = call->host->alloc(call->host, (size_t)words * sizeof *p->memory, 64);
  if (!p->memory && strips) {
    words -= strips, strips = 0;
    if (words) p->memory = call->host->alloc(call->host, (size_t)words * sizeof *p->memory, 64);
    if (!words) return TN_OK;
  }
  if (!p->memory) return tiled_no_memory(call->host, words * (int64_t)sizeof *p->memory);
  if (panels) p->panels = p->memory;
  if (sums) p->partial = (float *)(void *)(p->memory + panels);
  if (strips) p->strips = p->memory + panels + sums;
  return TN_OK;
}

static tiled_block tiled_block_at(const tiled_product *p, int64_t unit) {
  const matmul_call *call = p->call;
  const int64_t per = p->blocks_m * p->blocks_n, batch = unit / per;
  const int64_t i = unit % per / p->blocks_n * p->block_m, j = unit % p->blocks_n * TILE_WIDTH;
  const int64_t side = p->units ? TILE_UNIT : TILE_ROWS;
  const int64_t rows = cpu_ceil_div(call->m, side) * side;
  const int64_t per_row = p->blocks_n, strip = p->steps * TILE_WIDTH;
  return (tiled_block){
      .j = j,
      .rows = cpu_min(p->block_m, call->m - i),
      .columns = cpu_min(TILE_WIDTH, call->n - j),
      .a = own_matrix(call, &call->a, batch) * rows + i,
      .a_data = batch_offset(call, &call->a, batch) + i * call->a.row,
      .b = batch_offset(call, &call->b, batch) + j * call->b.col,
      .strip = (own_matrix(call, &call->b, batch) * per_row + unit % per_row) * strip,
      .y = batch_offset(call, &call->y, batch) + i * call->y.row + j * call->y.col};
}

static tn_status tiled_room_open(const tiled_product *p, bool in_place, tiled_room *room) {
  const matmul_call *call = p->call;
  const int64_t sums = tiled_block_room(p), a = TILED_DEPTH * TILE_ROWS;
  const int64_t words = sums + (p->call->deep ? DEEP_ROOM : a + TILED_DEPTH * TILE_WIDTH);
  in_place &= call->m <= TILED_IN_PLACE && call->b.col == 1 && !p->call->deep;
  const int64_t taps = in_place ? cpu_min(p->steps, TILED_DEPTH) * (int64_t)sizeof(int64_t) : 0;
  const int64_t bytes = words * (int64_t)sizeof(uint32_t) + taps;
  char *memory = call->host->alloc(call->host, (size_t)bytes, 64);
  if (!memory) return tiled_no_memory(call->host, bytes);
  *room = (tiled_room){.memory = memory, .sums = (float *)(void *)memory};
  room->a = (uint32_t *)(void *)(room->sums + sums);
  room->b = room->a + a;
  if (!in_place) return TN_OK;
  room->taps = (int64_t *)(void *)(memory + bytes - taps);
  for (int64_t t = 0; t < cpu_min(p->steps, TILED_DEPTH); t++) room->taps[t] = t * call->b.row;
  return TN_OK;
}

#endif
