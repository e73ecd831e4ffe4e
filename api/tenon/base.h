/*
 * Base types shared by host programs (tenon.h) and plugins (plugin.h): version,
 * status codes, element types, limits. Every number here is ABI: values are
 * appended, never changed.
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenon/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0
#define TN_VERSION_STRING "0.1.0"

/* Most dimensions a tensor can have. */
#define TN_MAX_RANK 8
/* Most inputs, and most outputs, that one operator can have; a list counts once. */
#define TN_MAX_ARGS 12
/* Most tensors in a list among an operator's arguments. */
#define TN_MAX_LIST 4096
/* Most type variables in one operator's schema. */
#define TN_MAX_TYPE_VARS 4

/* What a call came to. 0 is success; anything else leaves outputs and registries
 * as they were and a message behind in tn_last_error(). */
typedef enum tn_status {
  TN_OK = 0,
  TN_ERR_INVALID_ARGUMENT = 1,     /* the caller's mistake: NULL, shape, dtype, device mix, range */
  TN_ERR_UNSUPPORTED = 2,          /* well-formed, but no kernel or feature for it */
  TN_ERR_OUT_OF_MEMORY = 3,        /* host memory */
  TN_ERR_DEVICE_OUT_OF_MEMORY = 4, /* device memory, after the cache was emptied */
  TN_ERR_PLUGIN_REFUSED = 5,       /* a plugin could not be taken; the report says why */
  TN_ERR_NOT_FOUND = 6,            /* a named device, plugin, operator or file does not exist */
  TN_ERR_DEVICE_LOST = 7,          /* the device faulted; every later call on it says so */
  TN_ERR_FORKED = 8,               /* a runtime from before fork() was used in the child */
  TN_ERR_IO = 9,                   /* a file could not be read or written */
  TN_ERR_BACKEND = 10,             /* a vendor library or driver reported an error */
  TN_ERR_INTERNAL = 11,            /* an invariant of Tenon or of a plugin is broken */
  TN_ERR_NOT_READY = 12,           /* asked without waiting, and the work is not done yet */
  TN_ERR_CLOSED = 13,              /* the runtime was closed */
} tn_status;

/* Element types. The order is dense so that it can index tables. */
typedef enum tn_dtype {
  TN_DTYPE_NONE = 0,
  TN_BOOL = 1, /* one byte, 0 or 1 */
  TN_U8 = 2,
  TN_I8 = 3,
  TN_I16 = 4,
  TN_I32 = 5,
  TN_I64 = 6,
  TN_F16 = 7,  /* IEEE 754 binary16 */
  TN_BF16 = 8, /* the upper half of a binary32 */
  TN_F32 = 9,
  TN_F64 = 10,
  TN_F8_E4M3 = 11, /* 4 bits of exponent, 3 of fraction, no infinities: OCP FP8, kDLFloat8_e4m3fn */
  TN_F8_E5M2 = 12, /* 5 bits of exponent, 2 of fraction, as IEEE 754 would have it: OCP FP8 */
} tn_dtype;

/* One more than the largest tn_dtype that may ever be: the width of dtype tables. */
#define TN_DTYPE_SLOTS 32

/* A set of element types: bit (1 << dtype) for each member. */
typedef uint32_t tn_dtype_set;
#define TN_SET(dtype) ((tn_dtype_set)1u << (dtype))
#define TN_SET_FLOAT (TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32) | TN_SET(TN_F64))
#define TN_SET_INT                                                                                 \
  (TN_SET(TN_U8) | TN_SET(TN_I8) | TN_SET(TN_I16) | TN_SET(TN_I32) | TN_SET(TN_I64))
#define TN_SET_BYTE (TN_SET(TN_U8) | TN_SET(TN_I8))
#define TN_SET_INDEX (TN_SET(TN_I32) | TN_SET(TN_I64))
#define TN_SET_NARROW (TN_SET_BYTE | TN_SET(TN_I16))
#define TN_SET_WORD (TN_SET_NARROW | TN_SET(TN_I32))
#define TN_SET_NUMBER (TN_SET_FLOAT | TN_SET_INT)
#define TN_SET_BITS (TN_SET_INT | TN_SET(TN_BOOL))
/* The types in which operators compute: a row of tn_kernel that says 0 takes these at the most. */
#define TN_SET_ALL (TN_SET_NUMBER | TN_SET(TN_BOOL))
/* The 8-bit floats, which are stored, moved, converted and multiplied with scales. */
#define TN_SET_F8 (TN_SET(TN_F8_E4M3) | TN_SET(TN_F8_E5M2))
/* Every element type. */
#define TN_SET_STORED (TN_SET_ALL | TN_SET_F8)
#define TN_SET_QUANT (TN_SET_NARROW | TN_SET_F8)
#define TN_SET_DEQUANT (TN_SET_WORD | TN_SET_F8)

/* Bytes of one element, 0 for an unknown type. */
static inline size_t tn_dtype_size(tn_dtype dtype) {
  static const uint8_t size[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
  return (unsigned)dtype < sizeof size ? size[dtype] : 0;
}

/* The element type that a DLPack tensor's dtype says, TN_DTYPE_NONE for any that is no tn_dtype:
 * other kinds and widths, and vectors (lanes other than 1). */
static inline tn_dtype tn_dtype_of(DLDataType type) {
  if (type.lanes != 1) return TN_DTYPE_NONE;
  switch (type.code << 8 | type.bits) {
  case kDLBool << 8 | 8:
    return TN_BOOL;
  case kDLUInt << 8 | 8:
    return TN_U8;
  case kDLInt << 8 | 8:
    return TN_I8;
  case kDLInt << 8 | 16:
    return TN_I16;
  case kDLInt << 8 | 32:
    return TN_I32;
  case kDLInt << 8 | 64:
    return TN_I64;
  case kDLFloat << 8 | 16:
    return TN_F16;
  case kDLBfloat << 8 | 16:
    return TN_BF16;
  case kDLFloat << 8 | 32:
    return TN_F32;
  case kDLFloat << 8 | 64:
    return TN_F64;
  case kDLFloat8_e4m3fn << 8 | 8:
    return TN_F8_E4M3;
  case kDLFloat8_e5m2 << 8 | 8:
    return TN_F8_E5M2;
  default:
    return TN_DTYPE_NONE;
  }
}

/* The type in which sums over elements of a type are kept: float32 of the 16-bit floats. */
static inline tn_dtype tn_dtype_wide(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype;
}

/* Whether sums over elements of `from` may be asked for in `to`: floats in a float as wide or
 * wider, integers in their own type or i64, bool in i64. */
static inline bool tn_dtype_widens(tn_dtype from, tn_dtype to) {
  if (TN_SET(from) & TN_SET_FLOAT & ~TN_SET(TN_F64))
    return to == from || to == TN_F64 || (to == TN_F32 && from != TN_F64);
  return (to == from && from != TN_BOOL) || (to == TN_I64 && TN_SET(from) & TN_SET_BITS);
}

/* A list of axes as operators take it; negative axes count from the end and
 * count == 0 means every axis. */
typedef struct tn_axes {
  int32_t count;
  int32_t axis[TN_MAX_RANK];
} tn_axes;

/* A list of sizes or counts, one per axis or as the operator says; count == 0 means that
 * none was given. */
typedef struct tn_dims {
  int32_t count;
  int32_t reserved;
  int64_t dim[TN_MAX_RANK];
} tn_dims;

/* How float32 products may be computed. */
typedef enum tn_math {
  TN_MATH_IEEE = 0, /* float32 means float32 */
  TN_MATH_TF32 = 1, /* products may round their inputs to 10 bits of mantissa */
  TN_MATH_FAST = 2, /* products may use 16-bit inputs and approximate activations */
} tn_math;

/* What pad puts around a tensor. */
typedef enum tn_pad_mode {
  TN_PAD_CONSTANT = 0, /* a value */
  TN_PAD_REFLECT = 1,  /* the tensor mirrored at its edge, the edge itself not repeated */
  TN_PAD_EDGE = 2,     /* the nearest element of the edge */
} tn_pad_mode;

/* What a loss does with the values of its targets. */
typedef enum tn_reduction {
  TN_REDUCTION_NONE = 0, /* one value per target */
  TN_REDUCTION_MEAN = 1, /* their mean, a scalar */
  TN_REDUCTION_SUM = 2,  /* their sum, a scalar */
} tn_reduction;

/* From which elements of an image resize makes one of its output, along each axis. */
typedef enum tn_resize_mode {
  TN_RESIZE_NEAREST = 0,       /* the one at floor(i size / out), or the nearest corner-aligned */
  TN_RESIZE_BILINEAR = 1,      /* two */
  TN_RESIZE_BICUBIC = 2,       /* four */
  TN_RESIZE_NEAREST_EXACT = 3, /* the one whose centre is nearest; of two, the later */
} tn_resize_mode;

/* How resample weighs the elements of x around a place. */
typedef enum tn_resample_filter {
  TN_RESAMPLE_NEAREST_DOWN = 0, /* the nearest; of two, the one before */
  TN_RESAMPLE_NEAREST_UP = 1,   /* the nearest; of two, the one behind */
  TN_RESAMPLE_FLOOR = 2,        /* the one at or before the place */
  TN_RESAMPLE_CEIL = 3,         /* the one at or behind it */
  TN_RESAMPLE_LINEAR = 4,       /* two, or more where the filter is stretched */
  TN_RESAMPLE_CUBIC = 5,        /* four, likewise */
} tn_resample_filter;

/* From which elements of an image grid_sample makes one of its output, along each axis. */
typedef enum tn_grid_mode {
  TN_GRID_LINEAR = 0,  /* two */
  TN_GRID_NEAREST = 1, /* the nearest; of two, the even one */
  TN_GRID_CUBIC = 2,   /* four */
} tn_grid_mode;

/* What lies outside an image that grid_sample reads. */
typedef enum tn_grid_padding {
  TN_GRID_ZEROS = 0,
  TN_GRID_BORDER = 1,     /* the nearest element of the border */
  TN_GRID_REFLECTION = 2, /* the image mirrored: at its corners' centres where these are aligned,
                             else at its sides */
} tn_grid_padding;

/* A function applied to every element of a result before it is written. */
typedef enum tn_activation {
  TN_ACTIVATION_NONE = 0,
  TN_ACTIVATION_RELU = 1,
  TN_ACTIVATION_GELU = 2,      /* x Phi(x) */
  TN_ACTIVATION_GELU_TANH = 3, /* its approximation by tanh */
  TN_ACTIVATION_RELU6 = 4,     /* x clamped to 0 and 6; this and what follows: convolutions alone */
  TN_ACTIVATION_HARDSWISH = 5, /* x relu6(x + 3) / 6 */
  TN_ACTIVATION_SILU = 6,      /* x sigmoid(x) */
  TN_ACTIVATION_SIGMOID = 7,
} tn_activation;

typedef enum tn_log_level {
  TN_LOG_NONE = 0,
  TN_LOG_ERROR = 1,
  TN_LOG_WARN = 2,
  TN_LOG_INFO = 3,
  TN_LOG_DEBUG = 4,
} tn_log_level;

#ifdef __cplusplus
}
#endif
#endif /* TENON_BASE_H */
