/*
 * Stands before every source of this folder. What a kernel says about element types it says
 * through a type's name, T0 .. T3 of the build's options (bool u8 i8 i16 i32 i64 f16 bf16 f32
 * f64):
 *
 *   STORED(T)        what an element is in memory
 *   WORK(T)          what one element is computed in: float for f16, bf16 and f32
 *   LOAD(T, p, i)    element i as WORK(T)
 *   SAVE(T, p, i, v) stores v of WORK(T), rounded to nearest even
 *   TENSOR(T, name)  two parameters; AT(T, name) then is the pointer to the first element
 *   CONST_TENSOR     likewise, read-only
 *   IS_FLOAT(T), IS_INT(T), IS_BOOL(T)  1 or 0, in #if as well
 *   WIDE             double where the device has it, else float: for sums and functions
 *   SAVE_WIDE(T, p, i, v) stores v of WIDE, rounded once
 *
 * Half precision is read and written by the core functions vload_half and vstore_half, so no
 * device needs cl_khr_fp16.
 */
#ifdef HAS_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define WIDE double
#else
#define WIDE float
#endif
#pragma OPENCL FP_CONTRACT OFF
#ifdef __has_warning
#if __has_warning("-Wpsabi") /* compilers of GPUs may know no such warning, and warn of that */
/* Said of vectors of 16 by value where registers are shorter. One compiler makes the whole program. */
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#define STORED(T) PASTE(stored_, T)
#define WORK(T) PASTE(work_, T)
#define LOAD(T, p, i) PASTE(load_, T)(p, i)
#define SAVE(T, p, i, v) PASTE(save_, T)(p, i, v)
#define TENSOR(T, name) __global STORED(T) * name##_buffer, ulong name##_first
#define CONST_TENSOR(T, name) __global const STORED(T) * name##_buffer, ulong name##_first
#define AT(T, name) (name##_buffer + name##_first)

#define is_float_f16 1
#define is_float_bf16 1
#define is_float_f32 1
#define is_float_f64 1
#define is_float_bool 0
#define is_float_u8 0
#define is_float_i8 0
#define is_float_i16 0
#define is_float_i32 0
#define is_float_i64 0
#define is_bool_bool 1
#define is_bool_u8 0
#define is_bool_i8 0
#define is_bool_i16 0
#define is_bool_i32 0
#define is_bool_i64 0
#define is_bool_f16 0
#define is_bool_bf16 0
#define is_bool_f32 0
#define is_bool_f64 0
#define IS_FLOAT(T) PASTE(is_float_, T)
#define IS_BOOL(T) PASTE(is_bool_, T)
#define IS_INT(T) (!IS_FLOAT(T) && !IS_BOOL(T))

/* Types that are computed in as they are stored. */
#define PLAIN_TYPE(T, C)                                                                           \
  typedef C stored_##T;                                                                            \
  typedef C work_##T;                                                                              \
  static inline C load_##T(__global const C *p, ulong i) { return p[i]; }                                 \
  static inline void save_##T(__global C *p, ulong i, C v) { p[i] = v; }
PLAIN_TYPE(u8, uchar)
PLAIN_TYPE(i8, char)
PLAIN_TYPE(i16, short)
PLAIN_TYPE(i32, int)
PLAIN_TYPE(i64, long)
PLAIN_TYPE(f32, float)
#ifdef HAS_FP64
PLAIN_TYPE(f64, double)
#endif

/* Any byte but 0 is true; what is written is 0 or 1. */
typedef uchar stored_bool;
typedef uchar work_bool;
static inline uchar load_bool(__global const uchar *p, ulong i) { return p[i] != 0; }
static inline void save_bool(__global uchar *p, ulong i, uchar v) { p[i] = v != 0; }

typedef half stored_f16;
typedef float work_f16;
static inline float load_f16(__global const half *p, ulong i) { return vload_half(i, p); }
static inline void save_f16(__global half *p, ulong i, float v) { vstore_half_rte(v, i, p); }

typedef ushort stored_bf16;
typedef float work_bf16;
static inline float load_bf16(__global const ushort *p, ulong i) { return as_float((uint)p[i] << 16); }
static inline ushort bf16_bits(float v) {
  uint bits = as_uint(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)(bits >> 16 | 0x40u); /* NaN, quiet */
  return (ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline void save_bf16(__global ushort *p, ulong i, float v) { p[i] = bf16_bits(v); }

/* v rounded to float such that another rounding, to 16 bits, cannot mistake it for a tie. */
#ifdef HAS_FP64
static inline float odd_of_double(double v) {
  const float f = (float)v;
  const uint bits = as_uint(f);
  if (v != v || (double)f == v || (bits & 1)) return f;
  return as_float(fabs((double)f) > fabs(v) ? bits - 1 : bits + 1);
}
#else
static inline float odd_of_double(float v) { return v; }
#endif
#define narrowed_f16(v) odd_of_double(v)
#define narrowed_bf16(v) odd_of_double(v)
#define narrowed_f32(v) ((float)(v))
#define narrowed_f64(v) (v)
#define SAVE_WIDE(T, p, i, v) SAVE(T, p, i, PASTE(narrowed_, T)(v))

/* ocl_walk of opencl.h. */
typedef struct {
  long count;
  int rank, flat;
  long size[8];
  long stride[4][8];
} walk_t;

/* ocl_dims of opencl.h. */
typedef struct {
  int rank, reserved;
  long size[8];
  long stride[8];
} dims_t;
