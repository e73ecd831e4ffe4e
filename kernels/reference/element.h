/*
 * Elements of any type as double or int64: the only place that knows how each type lies
 * in memory. Loading is exact; storing converts as tn_cast does, rounding once.
 */
#ifndef TENON_KERNELS_REFERENCE_ELEMENT_H
#define TENON_KERNELS_REFERENCE_ELEMENT_H

#include "tenon/plugin.h"

static inline bool dtype_is_float(tn_dtype dtype) {
  return TN_SET(dtype) & (TN_SET_FLOAT | TN_SET_F8);
}

/* Loads n elements, `stride` elements apart. int64 values are rounded to double. */
void load_f64(tn_dtype dtype, const void *from, int64_t stride, int64_t n, double *to);

/* pre: dtype is an integer type or TN_BOOL. */
void load_i64(tn_dtype dtype, const void *from, int64_t stride, int64_t n, int64_t *to);

/* To a float: nearest even, of 8 bits saturating. To an integer: towards zero, saturating, NaN to
 * 0. To a bool: x != 0. */
void store_f64(tn_dtype dtype, void *to, int64_t stride, int64_t n, const double *from);

/* To a float: nearest even, of 8 bits saturating. To an integer: modulo 2^bits. To a bool: x != 0.
 */
void store_i64(tn_dtype dtype, void *to, int64_t stride, int64_t n, const int64_t *from);

/* To an 8-bit float: nearest even; what is too large becomes infinite, in E4M3 NaN. */
void store_f8_unsaturated(tn_dtype dtype, void *to, int64_t stride, int64_t n, const double *from);

#endif
