/*
 * What the elementwise kernels of map.cuh share with the host code that starts them, which is no
 * template: it is told the functor's kernels and the sizes of its elements.
 */
#ifndef KERNELS_CUDA_MAP_H
#define KERNELS_CUDA_MAP_H

#include "kernels/cuda/base/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block. */
#define MAP_THREADS 256
/* Columns of a tile, which lie along y's innermost axis, and rows that a block reads at once. */
#define MAP_TILE 32
#define MAP_TILE_ROWS (MAP_THREADS / MAP_TILE)

/* How several elements a thread are handled where tensors are no dense run.
 *   wide    rows of y take whole accesses: so does each input that runs along them; others are
 *           read once where they stand still and element by element where they step
 *   spread  anything: neighbours take neighbouring elements, and a thread's own lie far apart along
 *           the dimension `split`
 *   tiled   an input runs along another axis than y: it goes through shared memory, so that both
 *           see whole lines */
enum { MAP_WIDE, MAP_SPREAD, MAP_TILED };
/* How an operand is read or written. */
enum { MAP_STEPPING, MAP_AT_ONCE, MAP_STILL, MAP_TURNED };

/* The walk over tensors whose offsets 32 bits hold. Its dimensions are those of a thread's first
 * elements, but of matrices in mode tiled. Its others are a `pitch` apart each, which is `each`
 * along a dimension of size `limit`. */
typedef struct map_walk {
  uint32_t count; /* of the places that dimensions index */
  int32_t rank, mode, split;
  uint32_t each, limit;
  uint32_t columns; /* of matrices; rows are `limit` */
  int32_t how[CUDA_MAX_OPERANDS];
  int32_t pitch[CUDA_MAX_OPERANDS];
  int32_t row_step[CUDA_MAX_OPERANDS], column_step[CUDA_MAX_OPERANDS]; /* in mode tiled */
  cuda_divisor down, across;                                           /* tiles there */
  cuda_divisor size[TN_MAX_RANK];
  int32_t stride[TN_MAX_RANK][CUDA_MAX_OPERANDS];
} map_walk;

/* A functor with its kernels, which differ in nothing that host code does but how many elements a
 * thread handles. */
typedef struct map_form {
  const void *flat, *strided;            /* kernels; flat may be NULL */
  const void *functor, *strided_functor; /* their first parameter */
  int inputs;
  int width, packs;  /* elements of a thread that one access takes, and how many such it has */
  int strided_width; /* elements of a thread */
  int size[CUDA_MAX_OPERANDS]; /* bytes of an element; the output's first */
} map_form;

/* Runs it over the call's first output and first inputs. */
tn_status cuda_map_run(const tn_kernel_args *args, const map_form *form);

/* Runs its strided kernel over tensors of a shape; data[0] is the output's. */
tn_status cuda_map_run_strided(const tn_kernel_args *args, const map_form *form, char *const *data,
                               const cuda_shape *shape);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_MAP_H */
