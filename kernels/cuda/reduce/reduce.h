/*
 * How a reduction is spread over the device: computed from shapes alone, so that the
 * same call adds in the same order every time.
 */
#ifndef KERNELS_CUDA_REDUCE_H
#define KERNELS_CUDA_REDUCE_H

#include "kernels/cuda/base/layout.h"
#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions of either side, merged. Counts that 31 bits do not hold (`wide`) are divided by
 * reciprocals. Operand 0 is x, operand 1 is y. */
typedef struct cuda_walk {
  int64_t count;
  int rank;
  int wide;
  int64_t size[TN_MAX_RANK];
  double reciprocal[TN_MAX_RANK];
  cuda_divisor divisor[TN_MAX_RANK]; /* unset where wide */
  int64_t stride[2][TN_MAX_RANK];
} cuda_walk;

typedef struct cuda_reduce_plan {
  cuda_walk kept;    /* outputs */
  cuda_walk reduced; /* elements of one output */
  int lanes;         /* threads of a block along the reduced elements; the others along outputs */
  int by_row;        /* 1: neighbouring threads take neighbouring reduced elements */
  int packs;         /* 1: x can be read 16 bytes at a time, along rows or across columns */
  int64_t blocks;    /* along the outputs */
  int64_t splits;    /* blocks that share one output; above 1 needs scratch and a second kernel */
  int64_t share;     /* elements of an output that one of them takes; of packs in rows, at a time:
                      * then it goes on behind those of the others */
} cuda_reduce_plan;

enum { cuda_reduce_threads = 256 };

/* Elements of a column that a thread has under way together, at most. */
enum { cuda_reduce_ahead = 8 };

/* Packs of a row that it takes in turn. */
enum { cuda_reduce_turn = 4 };

/* Bytes of one partial result, for every operator and type. */
enum { cuda_reduce_partial_bytes = 16 };

void cuda_reduce_plan_of(cuda_reduce_plan *plan, const DLTensor *x, const DLTensor *y,
                         const tn_axes *axes, bool keepdims, const cuda_info *info);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_REDUCE_H */
