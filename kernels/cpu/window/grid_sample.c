/*
 * Reading images at the places of a grid, and the gradients. Places are taken in blocks: what each
 * reads is worked out once and then read from channel after channel. The gradient by the images
 * gives each share of the threads some channels, so that none writes where another does.
 */
#include <string.h>

#include "kernels/common/grid_sample.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { GRID_BLOCK = 32, GRID_MOST = 64, GRID_CHANNELS = 16 };

typedef struct grid_call {
  const tn_host *host;
  grid_plan plan;
  const void *grid;
  const void *x, *dy;
  void *to;
  int64_t images, channels, area, points, blocks, groups, size[3];
} grid_call;

/* What the places of a block read: place p entries begin[p] <= k < begin[p + 1]. */
typedef struct grid_block {
  int64_t n;
  int32_t begin[GRID_BLOCK + 1];
  bool four; /* each four */
  int32_t at[GRID_BLOCK * GRID_MOST];
  double weight[GRID_BLOCK * GRID_MOST];
  double slope[3][GRID_BLOCK * GRID_MOST]; /* by the number of the grid for axis d; if wanted */
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

#define BODY "kernels/cpu/window/grid_sample.inc"
#include "kernels/cpu/base/stamp_float.inc"
