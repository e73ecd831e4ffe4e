/*
 * The keys of a slice's elements (kernels/common/order_key.h) and elements of keys, by loops
 * of one width each.
 */
#ifndef TENON_KERNELS_CPU_SORT_KEYS_H
#define TENON_KERNELS_CPU_SORT_KEYS_H

#include "kernels/common/order_key.h"
#include "kernels/cpu/cpu.h"

enum { KEYS = 256 /* that are made at a time */ };

/* n elements `step` apart. */
typedef struct slice {
  const char *x;
  int64_t n, step;
  order_type type;
  uint64_t flip; /* of keys: all bits where the order is falling */
} slice;

static inline order_type order_type_of(const DLTensor *x, bool descending) {
  order_type t = {.bits = x->dtype.bits, .descending = descending};
  t.is_signed = x->dtype.code == kDLInt;
  if (x->dtype.code == kDLBfloat) t.infinity = 0x7f80;
  if (x->dtype.code == kDLFloat)
    t.infinity = t.bits == 16 ? 0x7c00u : t.bits == 32 ? 0x7f800000u : 0x7ff0000000000000u;
  return t;
}

static inline slice slice_of(const DLTensor *x, int64_t first, int64_t n, int64_t step,
                             bool descending) {
  slice s = {.n = n, .step = step, .type = order_type_of(x, descending)};
  s.x = (const char *)x->data + first * (s.type.bits / 8);
  s.flip = descending ? ~(uint64_t)0 >> (64 - s.type.bits) : 0;
  return s;
}

/* Keys of type K from elements of type U; put: the element of a key, which is not that it came
 * from where the key is that of 0 or of NaN. */
#define SORT_KEYS(bits, U)                                                                         \
  static inline U key_real_##bits(U x, U infinity, U flip) {                                       \
    const U sign = (U)((U)1 << (bits - 1)), size = (U)(x & (U)~sign);                              \
    U key = x & sign ? (U)~x : (U)(x | sign);                                                      \
    key = size == 0 ? sign : key;                                                                  \
    key = size > infinity ? (U) ~(U)0 : key;                                                       \
    return (U)(key ^ flip);                                                                        \
  }                                                                                                \
  static inline U toggle_##bits(const slice *s) {                                                  \
    return (U)((s->type.is_signed ? (uint64_t)1 << (bits - 1) : 0) ^ s->flip);                     \
  }
#define SORT_FILL(bits, U, K)                                                                      \
  static void keys_##bits##_##K(const slice *s, int64_t begin, int64_t n, K *keys) {               \
    const int64_t step = s->step;                                                                  \
    const U *x = (const U *)(const void *)s->x + begin * step;                                     \
    const U infinity = (U)s->type.infinity, flip = (U)s->flip, toggle = toggle_##bits(s);          \
    if (infinity && step == 1) {                                                                   \
      for (int64_t i = 0; i < n; i++) keys[i] = key_real_##bits(x[i], infinity, flip);             \
    } else if (infinity) {                                                                         \
      for (int64_t i = 0; i < n; i++) keys[i] = key_real_##bits(x[i * step], infinity, flip);      \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) keys[i] = (U)(x[i * step] ^ toggle);                         \
    }                                                                                              \
  }
SORT_KEYS(8, uint8_t)
SORT_KEYS(16, uint16_t)
SORT_KEYS(32, uint32_t)
SORT_KEYS(64, uint64_t)
SORT_FILL(8, uint8_t, uint32_t)
SORT_FILL(16, uint16_t, uint32_t)
SORT_FILL(32, uint32_t, uint32_t)
SORT_FILL(8, uint8_t, uint64_t)
SORT_FILL(16, uint16_t, uint64_t)
SORT_FILL(32, uint32_t, uint64_t)
SORT_FILL(64, uint64_t, uint64_t)
#undef SORT_FILL

/* The keys of elements begin <= i < begin + n; of 32 bits at the most. */
static inline void keys_narrow(const slice *s, int64_t begin, int64_t n, uint32_t *keys) {
  if (s->type.bits == 8)
    keys_8_uint32_t(s, begin, n, keys);
  else if (s->type.bits == 16)
    keys_16_uint32_t(s, begin, n, keys);
  else
    keys_32_uint32_t(s, begin, n, keys);
}

static inline void keys_wide(const slice *s, int64_t begin, int64_t n, uint64_t *keys) {
  if (s->type.bits == 8)
    keys_8_uint64_t(s, begin, n, keys);
  else if (s->type.bits == 16)
    keys_16_uint64_t(s, begin, n, keys);
  else if (s->type.bits == 32)
    keys_32_uint64_t(s, begin, n, keys);
  else
    keys_64_uint64_t(s, begin, n, keys);
}

/* Whether more than one element has this key: 0 of either sign, NaN of any bits. */
static inline bool key_is_shared(const slice *s, uint64_t key) {
  const uint64_t mask = ~(uint64_t)0 >> (64 - s->type.bits), plain = key ^ s->flip;
  return s->type.infinity && (plain == mask || plain == (mask >> 1) + 1);
}

/* The element of a key, of several the number +0 or a quiet NaN. */
static inline uint64_t element_of_key(const slice *s, uint64_t key) {
  const uint64_t mask = ~(uint64_t)0 >> (64 - s->type.bits), sign = (mask >> 1) + 1;
  const uint64_t plain = key ^ s->flip;
  if (!s->type.infinity) return s->type.is_signed ? plain ^ sign : plain;
  if (plain == mask) return mask >> 1;
  return plain & sign ? plain ^ sign : ~plain & mask;
}

#endif
