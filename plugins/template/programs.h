/* The programs that run on the chip, and their parameters. Parameters are copied when a
 * program is launched and must hold all it needs: what a kernel got as tn_kernel_args is gone
 * when the program runs. */
#ifndef SIM_PROGRAMS_H
#define SIM_PROGRAMS_H

#include <tenon/base.h>

#include "chip.h"

/* A tensor in the chip's memory; sizes and strides count elements. */
typedef struct sim_view {
  chip_address data;
  tn_dtype dtype;
  int32_t rank;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} sim_view;

/* Element by element; y, a and b have one shape. */
typedef struct sim_map_params {
  sim_view y, a, b; /* b is a again where there is one input */
} sim_map_params;
bool sim_program_add(chip *c, const void *params);
bool sim_program_sub(chip *c, const void *params);
bool sim_program_mul(chip *c, const void *params);
bool sim_program_relu(chip *c, const void *params);
bool sim_program_exp(chip *c, const void *params);
bool sim_program_copy(chip *c, const void *params);

typedef struct sim_fill_params {
  sim_view y;
  uint64_t element; /* its bytes, as they shall lie in memory */
} sim_fill_params;
bool sim_program_fill(chip *c, const void *params);

/* x has the axes of y first and then the axes to sum over, `count` elements in all. */
typedef struct sim_sum_params {
  sim_view y, x;
  int64_t count;
} sim_sum_params;
bool sim_program_sum(chip *c, const void *params);

/* x and y are without the axis that the softmax goes along. */
typedef struct sim_softmax_params {
  sim_view y, x;
  int64_t size, y_stride, x_stride; /* of that axis */
  chip_address scratch;             /* `size` doubles */
} sim_softmax_params;
bool sim_program_softmax(chip *c, const void *params);

/* y[..., i, j] = sum over k of a[..., i, j, k] b[..., i, j, k], and then bias and relu: a and b
 * are expanded to the axes of y, with stride 0 along j and i, and so is the bias. */
typedef struct sim_matmul_params {
  sim_view y, a, b, bias;
  bool has_bias, relu;
} sim_matmul_params;
bool sim_program_matmul(chip *c, const void *params);

#endif
