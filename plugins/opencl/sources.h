/*
 * The files of cl/ as the library carries them. A new one is added here and in meson.build.
 */
#ifndef OPENCL_SOURCES_H
#define OPENCL_SOURCES_H

#include "opencl.h"

extern const ocl_source ocl_source_map;
extern const ocl_source ocl_source_prelude;
extern const ocl_source ocl_source_class_loss;
extern const ocl_source ocl_source_conv;
extern const ocl_source ocl_source_gradients;
extern const ocl_source ocl_source_index;
extern const ocl_source ocl_source_loss;
extern const ocl_source ocl_source_move;
extern const ocl_source ocl_source_norm;
extern const ocl_source ocl_source_optimise;
extern const ocl_source ocl_source_pair_loss;
extern const ocl_source ocl_source_pool;

#endif
