/*
 * The texts of cl/ as the library carries them, some of several files. A new one is added here
 * and in meson.build.
 */
#ifndef OPENCL_SOURCES_H
#define OPENCL_SOURCES_H

#include "opencl.h"

extern const ocl_source ocl_source_cast;
extern const ocl_source ocl_source_class_loss;
extern const ocl_source ocl_source_conv;
extern const ocl_source ocl_source_conv_wide;
extern const ocl_source ocl_source_gradients;
extern const ocl_source ocl_source_index;
extern const ocl_source ocl_source_loss;
extern const ocl_source ocl_source_matmul;
extern const ocl_source ocl_source_matmul_cpu;
extern const ocl_source ocl_source_move;
extern const ocl_source ocl_source_norm;
extern const ocl_source ocl_source_optimise;
extern const ocl_source ocl_source_pad_grad;
extern const ocl_source ocl_source_pair_loss;
extern const ocl_source ocl_source_plain;
extern const ocl_source ocl_source_pool;
extern const ocl_source ocl_source_prelude;
extern const ocl_source ocl_source_random;
extern const ocl_source ocl_source_reduce;
extern const ocl_source ocl_source_resize;
extern const ocl_source ocl_source_softmax;
extern const ocl_source ocl_source_wide;

#endif
