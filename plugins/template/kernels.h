/* The functions that rows of kernels consist of. */
#ifndef SIM_KERNELS_H
#define SIM_KERNELS_H

#include "backend.h"
#include "programs.h"

/* What a row's `user` points to. */
typedef struct sim_row {
  chip_program program;
} sim_row;

/* Any program of sim_map_params: inputs of elementwise operators come expanded to the output's
 * shape, and the output may be an input. */
tn_status sim_run_map(const tn_kernel_args *args);
tn_status sim_run_fill(const tn_kernel_args *args);
tn_status sim_run_sum(const tn_kernel_args *args);

tn_status sim_run_softmax(const tn_kernel_args *args);
/* A workspace is memory of the device, taken and given back by the dispatcher in stream order:
 * it may be used until the program has run. */
tn_status sim_softmax_workspace(const tn_kernel_args *args, size_t *bytes);

tn_status sim_run_matmul(const tn_kernel_args *args);
/* What the program can take. A call that is refused goes to the row of next priority, and where
 * there is none, to the host. Asked at every call: it compares, and computes nothing. */
bool sim_matmul_supports(const tn_kernel_args *args);

#endif
