/*
 * The files of cl/ as the library carries them. A new one is added here and in meson.build.
 */
#ifndef OPENCL_SOURCES_H
#define OPENCL_SOURCES_H

#include "opencl.h"

extern const ocl_source ocl_source_map;
extern const ocl_source ocl_source_prelude;

#endif
