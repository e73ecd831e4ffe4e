/*
 * From an element type known at run time to one known to the compiler: for_float and its
 * like call a function with an element of a tensor's type, whose decltype is that type.
 *
 *   return for_float(args, args->out[0], [&](auto t) { return run_softmax<decltype(t)>(args); });
 *
 * What the function calls is compiled once per type of the set. Sets are those of
 * tenon/op_rows.h, so that they are the same as the operator table's.
 */
#ifndef KERNELS_CUDA_DISPATCH_CUH
#define KERNELS_CUDA_DISPATCH_CUH

#include <type_traits>

#include "kernels/cuda/base/common.cuh"
#include "tenon/op_rows.h"

/* Element types in C++, by the names of tenon/op_rows.h. */
using element_b8 = bool_t;
using element_u8 = uint8_t;
using element_i8 = int8_t;
using element_i16 = int16_t;
using element_i32 = int32_t;
using element_i64 = int64_t;
using element_f16 = half_t;
using element_bf16 = bfloat_t;
using element_f32 = float;
using element_f64 = double;

/* No run function sees another dtype: the row's types keep it out. */
static inline tn_status bad_dtype(const tn_kernel_args *args) {
  return args->host->fail(TN_ERR_INTERNAL, "%s: a dtype outside the row's types",
                          args->kernel->name);
}

#define DISPATCH_CASE(fn, d, DTYPE)                                                                \
  case TN_##DTYPE:                                                                                 \
    return fn(element_##d());

template <class Fn>
static tn_status for_float(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
    TN_EACH_FLOAT(DISPATCH_CASE, fn)
  default:
    return bad_dtype(args);
  }
}

template <class Fn>
static tn_status for_int(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
    TN_EACH_INT(DISPATCH_CASE, fn)
  default:
    return bad_dtype(args);
  }
}

template <class Fn>
static tn_status for_number(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
    TN_EACH_NUMBER(DISPATCH_CASE, fn)
  default:
    return bad_dtype(args);
  }
}

template <class Fn>
static tn_status for_bits(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
    TN_EACH_BITS(DISPATCH_CASE, fn)
  default:
    return bad_dtype(args);
  }
}

template <class Fn>
static tn_status for_all(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
    TN_EACH_ALL(DISPATCH_CASE, fn)
  default:
    return bad_dtype(args);
  }
}

/* With an unsigned integer of the element's size: for kernels that only move elements. */
template <class Fn> static tn_status for_size(const DLTensor *tensor, Fn fn) {
  switch (tensor->dtype.bits) {
  case 8:
    return fn(uint8_t());
  case 16:
    return fn(uint16_t());
  case 32:
    return fn(uint32_t());
  default:
    return fn(uint64_t());
  }
}

/* What stands for T in kernels that do not tell a bool from an unsigned byte, so that both
 * types share one. */
template <class T> struct byte_for_bool { using type = T; };
template <> struct byte_for_bool<bool_t> { using type = uint8_t; };
template <class T> using byte_for_bool_t = typename byte_for_bool<T>::type;

/* The same for kernels to which a signed byte is no different either. */
template <class T> struct byte_for_bytes { using type = byte_for_bool_t<T>; };
template <> struct byte_for_bytes<int8_t> { using type = uint8_t; };
template <class T> using byte_for_bytes_t = typename byte_for_bytes<T>::type;

#endif /* KERNELS_CUDA_DISPATCH_CUH */
