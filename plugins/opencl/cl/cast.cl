/*
 * Conversions between element types: T1 to T0. To a float by rounding to nearest even once,
 * from a float to an integer towards zero with saturation and NaN to 0, to a bool by x != 0,
 * between integers modulo 2^bits.
 */
#define LOADED(T, v) (v)
#define NUMBER float

#define saturated_u8 convert_uchar_sat_rtz
#define saturated_i8 convert_char_sat_rtz
#define saturated_i16 convert_short_sat_rtz
#define saturated_i32 convert_int_sat_rtz
#define saturated_i64 convert_long_sat_rtz

#define SMALL_bool 1
#define SMALL_u8 1
#define SMALL_i8 1
#define SMALL_i16 1
#define SMALL_i32 0
#define SMALL_i64 0
#define SMALL_f16 0
#define SMALL_bf16 0
#define SMALL_f32 0
#define SMALL_f64 0
#define HALVES_f16 1
#define HALVES_bf16 1
#define HALVES_f32 0
#define HALVES_f64 0
#define HALVES_bool 0
#define HALVES_u8 0
#define HALVES_i8 0
#define HALVES_i16 0
#define HALVES_i32 0
#define HALVES_i64 0

/* A float of 24 bits whose last one says that more followed, so that the rounding to 16 bits
 * is the only one. */
static inline float odd_of_long(long x) {
  const ulong magnitude = x < 0 ? 0 - (ulong)x : (ulong)x;
  const int excess = 40 - (int)clz(magnitude | 1);
  if (excess <= 0) return (float)x;
  ulong kept = magnitude >> excess;
  if (magnitude & (((ulong)1 << excess) - 1)) kept |= 1;
  const float y = (float)kept * as_float((uint)(127 + excess) << 23);
  return x < 0 ? -y : y;
}

#if IS_BOOL(T0)
#define apply_cast(x) ((x) != 0)
#elif !IS_FLOAT(T0) && IS_FLOAT(T1)
#define apply_cast(x) ((x) != (x) ? (WORK(T0))0 : PASTE(saturated_, T0)(x))
#elif PASTE(HALVES_, T0) && IS_INT(T1) && !PASTE(SMALL_, T1)
#define apply_cast(x) odd_of_long(x)
#elif defined(HAS_FP64) && PASTE(HALVES_, T0) && IS_FLOAT(T1)
#define apply_cast(x) odd_of_double(x)
#else
#define apply_cast(x) ((WORK(T0))(x))
#endif
#define STORE(p, i, v) SAVE(T0, p, i, (WORK(T0))(v))
