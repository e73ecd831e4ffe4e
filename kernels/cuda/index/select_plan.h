/*
 * How the first k of long rows are found by delegates (select_delegates.cu): which kernels, in
 * which sizes. A function of sizes alone, so that it can be tested without a GPU.
 */
#ifndef KERNELS_CUDA_INDEX_SELECT_PLAN_H
#define KERNELS_CUDA_INDEX_SELECT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tile is a warp's: a unit of four elements a lane, four times. */
enum {
  CUDA_SELECT_TILE = 512,
  CUDA_SELECT_LANE = 16,    /* elements of a tile that a lane has */
  CUDA_SELECT_WARPS = 8,    /* of a block that finds delegates */
  CUDA_SELECT_AT_ONCE = 2,  /* tiles of a warp */
  CUDA_SELECT_SHORT = 2048, /* elements of a row that fit a block's registers, as before */
  CUDA_SELECT_WANTED = 1024,
  CUDA_SELECT_BLOCK_BYTES = 9 * 1024, /* shared memory that a block has beside its lists */
};

typedef enum cuda_select_way {
  CUDA_SELECT_OTHERWISE, /* not by delegates */
  CUDA_SELECT_ALONE,     /* a block finds the delegates of its row, and the elements */
  CUDA_SELECT_ONE,       /* many blocks find delegates, one block of each row the elements */
  CUDA_SELECT_TWO,       /* the same, but tiles are chosen first, and then lanes of those */
} cuda_select_way;

typedef struct cuda_select_plan {
  cuda_select_way way;
  int threads;           /* of the block of a row */
  int lane_bits;         /* 2^lane_bits lanes of a tile make a group, which has a delegate */
  uint32_t tiles;        /* of a row */
  uint32_t groups;       /* of a row */
  uint32_t stride;       /* from the delegates of a row to those of the next */
  uint32_t most_groups;  /* whose elements are looked at */
  uint32_t most_tiles;   /* that are chosen, where lanes are then */
  uint32_t list, finals; /* elements that a block has room for, and of which it sorts */
} cuda_select_plan;

/* pre: 1 <= k <= n < 2^32. A block may have so many bytes of shared memory. */
cuda_select_plan cuda_select_plan_of(int64_t rows, int64_t n, int64_t k, int multiprocessors,
                                     size_t shared_bytes);

/* Of the plan's block of a row beside CUDA_SELECT_BLOCK_BYTES; and the most that any plan of that
 * many threads asks for on the device. */
size_t cuda_select_shared_bytes(const cuda_select_plan *plan);
size_t cuda_select_most_shared_bytes(const cuda_select_plan *plan);

/* Workspace: from its beginning, which is aligned to 16 bytes, on. */
typedef struct cuda_select_memory {
  size_t keys;     /* delegates; 32 bits each, as all are */
  size_t lanes;    /* of those of chosen tiles, 32 each */
  size_t chosen;   /* tiles */
  size_t how_many; /* are chosen, of each row */
  size_t bytes;    /* of all */
} cuda_select_memory;
cuda_select_memory cuda_select_memory_of(const cuda_select_plan *plan, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_INDEX_SELECT_PLAN_H */
