/*
 * Reading images at the places of a grid, and the gradients. Places are taken in blocks: what each
 * reads is worked out once and then read from channel after channel. The gradient by the images
 * gives each share of the threads some channels, so that none writes where another does.
 */
#include <string.h>

#include "kernels/common/grid_sample.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

enum {
  GRID_PLACES = 512,   /* of a block at the most, so that a plane is fetched for many */
  GRID_MOST = 64,      /* elements that a place reads at the most */
  GRID_ENTRIES = 2048, /* that all places of a block read at the most */
  GRID_FEW = 32,       /* places that a block has even where threads go without */
  GRID_OFTEN = 8,      /* elements to a place of a plane of halves that is widened */
  GRID_CHANNELS = 16
};

typedef struct grid_call {
  const tn_host *host;
  grid_plan plan;
  const void *grid;
  const void *x, *dy;
  void *to;
  int64_t images, channels, area, points, block, blocks, groups, size[3]; /* block: of places */
} grid_call;

/* What the places of a block read: place p entries begin[p] <= k < begin[p + 1]. */
typedef struct grid_block {
  int64_t n;
  int32_t begin[GRID_PLACES + 1];
  int16_t order[GRID_PLACES];   /* places by how many entries they read */
  int32_t group[GRID_MOST + 2]; /* where those that read k of them begin in order */
  int32_t at[GRID_ENTRIES];
  double weight[GRID_ENTRIES];
  double slope[3][GRID_ENTRIES]; /* by the number of the grid for axis d; if wanted */
} grid_block;

/* The elements around one place, and with `slopes` how their weights change. */
static int32_t grid_around(const grid_call *call, const double *g, bool slopes, grid_block *b,
                           int64_t first) {
  const grid_plan *p = &call->plan;
  const int taps = p->taps, axes = p->axes;
  int32_t n = 0;
  grid_reading r[3];
  for (int d = 0; d < axes; d++) r[d] = grid_read(p, g[axes - 1 - d], call->size[d]);
  for (int d = axes; d < 3; d++) r[d] = (grid_reading){.weight = {1}};
  for (int i = 0; i < taps; i++)
    for (int j = 0; j < (axes > 1 ? taps : 1); j++)
      for (int k = 0; k < (axes > 2 ? taps : 1); k++) {
        if (r[0].at[i] < 0 || r[1].at[j] < 0 || r[2].at[k] < 0) continue;
        const double w[3] = {r[0].weight[i], r[1].weight[j], r[2].weight[k]};
        const int64_t e = first + n++;
        b->at[e] =
            (int32_t)((r[0].at[i] * call->size[1] + r[1].at[j]) * call->size[2] + r[2].at[k]);
        b->weight[e] = w[0] * w[1] * w[2];
        if (!slopes) continue;
        b->slope[0][e] = r[0].slope[i] * w[1] * w[2];
        b->slope[1][e] = w[0] * r[1].slope[j] * w[2];
        b->slope[2][e] = w[0] * w[1] * r[2].slope[k];
      }
  return n;
}

/* Groups places by how many entries they read, so that loops over these are as long as the last. */
static void grid_order(grid_block *b) {
  int32_t next[GRID_MOST + 1], sum = 0;
  memset(b->group, 0, sizeof b->group);
  for (int64_t p = 0; p < b->n; p++) b->group[b->begin[p + 1] - b->begin[p]]++;
  for (int k = 0; k <= GRID_MOST + 1; k++) {
    const int32_t count = b->group[k];
    b->group[k] = sum;
    if (k <= GRID_MOST) next[k] = sum;
    sum += count;
  }
  for (int64_t p = 0; p < b->n; p++) b->order[next[b->begin[p + 1] - b->begin[p]]++] = (int16_t)p;
}

/* Places of a block, so many that all threads have some. */
static int64_t grid_block_of(const grid_call *call) {
  int64_t entries = 1;
  for (int d = 0; d < call->plan.axes; d++) entries *= call->plan.taps;
  const int64_t share =
      cpu_ceil_div(call->images * call->points, 4 * (int64_t)call->host->num_threads);
  const int64_t most = cpu_min(GRID_PLACES, GRID_ENTRIES / entries);
  return cpu_max(GRID_FEW, cpu_min(most, share));
}

#define BODY "kernels/cpu/window/grid_sample.inc"
#include "kernels/cpu/base/stamp_float.inc"
