/*
 * The reference kernels, one per row of ops.def: plain C, every element type that the
 * row allows, any strides, computed in double (integers in int64) and rounded once on
 * store. They are the oracle of the tests and the safety net under host-memory devices.
 */
#ifndef TENON_KERNELS_REFERENCE_KERNELS_H
#define TENON_KERNELS_REFERENCE_KERNELS_H

#include "tenon/plugin.h"

#define OP(id, name, NAME, ...) tn_status reference_##name(const tn_kernel_args *args);
#include "ops.def"

#endif
