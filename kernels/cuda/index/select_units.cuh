/*
 * Delegates of groups: the least key of some elements of a tile. Elements are compared as they
 * stand in words, floats by the processor's own minima, whole numbers by unsigned ones: a pass over
 * all of a row then costs what reading it does. Included by select_delegates.cu.
 */
#ifndef KERNELS_CUDA_INDEX_SELECT_UNITS_CUH
#define KERNELS_CUDA_INDEX_SELECT_UNITS_CUH

#include "kernels/cuda/index/select_plan.h"
#include "kernels/cuda/index/sort.cuh"

enum { tile_size = CUDA_SELECT_TILE, tile_units = 4, unit_size = 4 };

/* What a launch works on. */
struct delegation {
  rows r;
  bool vectors;  /* whether units may be read at once */
  int lane_bits; /* as in cuda_select_plan, from here on */
  uint32_t tiles, groups, stride, most_groups, most_tiles, list, finals;
  uint32_t *keys, *lanes, *chosen, *how_many; /* memory of rows */
};

/* Four elements in a row, as they stand in memory. */
template <int BITS> using unit = pack<uint32_t, BITS / 8>;

/* The kinds: first() is of two words the one that holds what comes first of their elements, place
 * by place; which of equal ones does not matter. Words are turned() before. `last` is a turned word
 * of what comes last of all, as elements beyond a row do, each of which is a filler().
 * key_of_word() is the least key in a turned word. */
template <bool LARGEST> struct floats {
  static constexpr int bits = 32;
  order_type type;
  __device__ explicit floats(const order_type &t) : type(t) {}
  static constexpr uint32_t last = LARGEST ? 0xff800000u : 0x7fffffffu; /* -Inf, or NaN */
  __device__ __forceinline__ uint32_t turned(uint32_t word) const { return word; }
  __device__ __forceinline__ uint32_t filler() const { return last; }
  __device__ __forceinline__ uint32_t first(uint32_t a, uint32_t b) const {
    float r;
    if constexpr (LARGEST)
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(__uint_as_float(a)), "f"(__uint_as_float(b)));
    else
      asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(__uint_as_float(a)), "f"(__uint_as_float(b)));
    return __float_as_uint(r);
  }
  __device__ __forceinline__ uint32_t key_of_word(uint32_t word) const {
    return narrow_key(word, type);
  }
};

#define FIRST_OF_PAIRS(kind, suffix, infinity)                                                     \
  template <bool LARGEST> struct kind {                                                            \
    static constexpr int bits = 16;                                                                \
    order_type t;                                                                                  \
    __device__ explicit kind(const order_type &of) : t(of) {}                                      \
    static constexpr uint32_t last = LARGEST ? 0x80008000u + infinity * 0x10001u : 0x7fff7fffu;    \
    __device__ __forceinline__ uint32_t turned(uint32_t word) const { return word; }               \
    __device__ __forceinline__ uint32_t filler() const { return last & 0xffff; }                   \
    __device__ __forceinline__ uint32_t first(uint32_t a, uint32_t b) const {                      \
      uint32_t r;                                                                                  \
      if constexpr (LARGEST)                                                                       \
        asm("max.NaN." suffix " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                          \
      else                                                                                         \
        asm("min." suffix " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                              \
      return r;                                                                                    \
    }                                                                                              \
    __device__ __forceinline__ uint32_t key_of_word(uint32_t word) const {                         \
      return umin(narrow_key(word & 0xffff, t), narrow_key(word >> 16, t));                        \
    }                                                                                              \
  };
FIRST_OF_PAIRS(halves, "f16x2", 0x7c00u)
FIRST_OF_PAIRS(bfloats, "bf16x2", 0x7f80u)
#undef FIRST_OF_PAIRS

/* Turned, whole numbers are their keys. */
template <int BITS> struct wholes {
  static constexpr int bits = BITS;
  static constexpr uint32_t last = ~0u;
  uint32_t flip;
  __device__ explicit wholes(const order_type &t) {
    flip = t.is_signed ? BITS == 32 ? 0x80000000u : BITS == 16 ? 0x80008000u : 0x80808080u : 0;
    if (t.descending) flip = ~flip;
  }
  __device__ __forceinline__ uint32_t turned(uint32_t word) const { return word ^ flip; }
  __device__ __forceinline__ uint32_t filler() const { return ~flip & (~0u >> (32 - BITS)); }
  __device__ __forceinline__ uint32_t first(uint32_t a, uint32_t b) const {
    if constexpr (BITS == 32) return umin(a, b);
    if constexpr (BITS == 16) return __vminu2(a, b);
    return __vminu4(a, b);
  }
  __device__ __forceinline__ uint32_t key_of_word(uint32_t word) const {
    if constexpr (BITS == 32) return word;
    if constexpr (BITS == 16) return umin(word & 0xffff, word >> 16);
    const uint32_t two = __vminu4(word, word >> 16);
    return umin(two & 0xff, two >> 8 & 0xff);
  }
};

/* Calls fn with a pointer to the kind of a type, NULL; on the host or the device. */
#pragma nv_exec_check_disable
template <class Fn> __host__ __device__ __forceinline__ void with_kind(const order_type &t, Fn fn) {
  if (!t.infinity) {
    if (t.bits == 32) return fn((wholes<32> *)0);
    return t.bits == 16 ? fn((wholes<16> *)0) : fn((wholes<8> *)0);
  }
  if (t.bits == 32) return t.descending ? fn((floats<true> *)0) : fn((floats<false> *)0);
  if (t.infinity == 0x7c00) return t.descending ? fn((halves<true> *)0) : fn((halves<false> *)0);
  return t.descending ? fn((bfloats<true> *)0) : fn((bfloats<false> *)0);
}

__device__ __forceinline__ const char *row_of(const delegation &d, int64_t row) {
  return (const char *)d.r.x + row * d.r.n * (d.r.type.bits / 8);
}

/* The unit from element i of a row on, element by element. */
template <class K>
__device__ __forceinline__ unit<K::bits> edge_unit(const K &kind, const void *x, int64_t i,
                                                   int64_t n) {
  unit<K::bits> v = {};
#pragma unroll
  for (int e = 0; e < unit_size; e++) {
    const uint32_t one = i + e < n ? (uint32_t)bits_at(x, i + e, K::bits) : kind.filler();
    v.v[e * K::bits / 32] |= one << e * K::bits % 32;
  }
  return v;
}

/* This lane's units of U tiles, each `apart` from the one before; of those beyond the row none. */
template <int U, class K>
__device__ __forceinline__ void units_of_tiles(const K &kind, const delegation &d, const char *x,
                                               uint32_t tile, uint32_t apart,
                                               unit<K::bits> (&v)[U][tile_units]) {
  constexpr int bytes = K::bits / 8;
  const uint32_t lane = threadIdx.x % 32;
  if (d.vectors && (int64_t)(tile + (U - 1) * apart + 1) * tile_size <= d.r.n) {
    const char *from = x + ((int64_t)tile * tile_size + lane * unit_size) * bytes;
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int j = 0; j < tile_units; j++)
        v[u][j] =
            *(const unit<K::bits> *)(from +
                                     ((int64_t)u * apart * tile_size + j * 32 * unit_size) * bytes);
    return;
  }
#pragma unroll
  for (int u = 0; u < U; u++)
#pragma unroll
    for (int j = 0; j < tile_units; j++) {
      const int64_t i =
          (int64_t)(tile + u * apart) * tile_size + j * 32 * unit_size + lane * unit_size;
      if (tile + u * apart >= d.tiles) continue;
      if (d.vectors && i + unit_size <= d.r.n)
        v[u][j] = *(const unit<K::bits> *)(x + i * bytes);
      else
        v[u][j] = edge_unit(kind, x, i, d.r.n);
    }
}

/* In every lane of a group, its delegate. */
template <class K>
__device__ __forceinline__ uint32_t delegate_of(const K &kind, const unit<K::bits> (&v)[tile_units],
                                                int lane_bits) {
  uint32_t word = K::last;
#pragma unroll
  for (int j = 0; j < tile_units; j++)
#pragma unroll
    for (int w = 0; w < K::bits / 8; w++) word = kind.first(word, kind.turned(v[j].v[w]));
  uint32_t key = kind.key_of_word(word);
  if (lane_bits == 5) return __reduce_min_sync(~0u, key);
  for (int step = 1; step < 1 << lane_bits; step *= 2)
    key = umin(key, __shfl_xor_sync(~0u, key, step));
  return key;
}

/* Writes the delegates of this warp's U tiles to `keys`, a row's. */
template <int U, class K>
__device__ __forceinline__ void put_delegates(const K &kind, const delegation &d, const char *x,
                                              uint32_t tile, uint32_t apart, uint32_t *keys) {
  const uint32_t lane = threadIdx.x % 32;
  unit<K::bits> v[U][tile_units];
  units_of_tiles<U>(kind, d, x, tile, apart, v);
#pragma unroll
  for (int u = 0; u < U; u++) {
    if (tile + u * apart >= d.tiles) break;
    const uint32_t key = delegate_of(kind, v[u], d.lane_bits);
    if ((lane & ((1u << d.lane_bits) - 1)) == 0)
      keys[((tile + u * apart) << (5 - d.lane_bits)) + (lane >> d.lane_bits)] = key;
  }
}

/* The elements of a unit. */
struct four {
  uint32_t v[unit_size];
};

__device__ __forceinline__ four four_from(const delegation &d, const char *x, int64_t i) {
  const int bits = d.r.type.bits;
  four f = {};
  if (!d.vectors || i + unit_size > d.r.n) {
#pragma unroll
    for (int e = 0; e < unit_size; e++)
      if (i + e < d.r.n) f.v[e] = (uint32_t)bits_at(x, i + e, bits);
  } else if (bits == 32) {
    const unit<32> u = *(const unit<32> *)(x + i * 4);
    f = {u.v[0], u.v[1], u.v[2], u.v[3]};
  } else if (bits == 16) {
    const unit<16> u = *(const unit<16> *)(x + i * 2);
    f = {u.v[0] & 0xffff, u.v[0] >> 16, u.v[1] & 0xffff, u.v[1] >> 16};
  } else {
    const uint32_t u = *(const uint32_t *)(x + i);
    f = {u & 0xff, u >> 8 & 0xff, u >> 16 & 0xff, u >> 24};
  }
  return f;
}

#endif /* KERNELS_CUDA_INDEX_SELECT_UNITS_CUH */
