/* Part of tenon/tenon.hpp: element types, shapes, and the lists that attributes are made of. */
#ifndef TENON_CPP_ELEMENT_HPP
#define TENON_CPP_ELEMENT_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "tenon/cpp/error.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

/* Element types: tenon::f32 and so on. */
using dtype = tn_dtype;
inline constexpr tn_dtype boolean = TN_BOOL, u8 = TN_U8, i8 = TN_I8, i16 = TN_I16, i32 = TN_I32,
                          i64 = TN_I64, f16 = TN_F16, bf16 = TN_BF16, f32 = TN_F32, f64 = TN_F64,
                          f8_e4m3 = TN_F8_E4M3, f8_e5m2 = TN_F8_E5M2;

inline const char *name(tn_dtype type) noexcept { return tn_dtype_name(type); }

/* Elements of 16-bit floats as they lie in memory; tenon::cast makes numbers of them. */
struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

/* The element type of a C++ type; for others it does not compile. */
template <class T> constexpr tn_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return TN_BOOL;
  else if constexpr (std::is_same_v<T, float16>)
    return TN_F16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return TN_BF16;
  else if constexpr (std::is_same_v<T, float>)
    return TN_F32;
  else if constexpr (std::is_same_v<T, double>)
    return TN_F64;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 1 ? TN_I8 : sizeof(T) == 2 ? TN_I16 : sizeof(T) == 4 ? TN_I32 : TN_I64;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 1, "no element type of Tenon's");
    return TN_U8;
  }
}
static_assert(sizeof(bool) == 1, "a bool tensor has one byte for each element");

/* Sizes or strides, borrowed: of braces, a std::vector, a std::array or a tensor's. */
class extents {
public:
  constexpr extents() noexcept = default;
  constexpr extents(const std::int64_t *data, std::size_t rank) noexcept
      : data_(data), rank_(rank) {}
  constexpr extents(std::initializer_list<std::int64_t> list) noexcept {
    data_ = list.begin(); /* until the end of the statement with the braces */
    rank_ = list.size();
  }
  extents(const std::vector<std::int64_t> &list) noexcept
      : data_(list.data()), rank_(list.size()) {}
  template <std::size_t N>
  constexpr extents(const std::array<std::int64_t, N> &list) noexcept
      : data_(list.data()), rank_(N) {}

  constexpr const std::int64_t *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return rank_; }
  constexpr std::int32_t rank() const noexcept { return static_cast<std::int32_t>(rank_); }
  constexpr const std::int64_t *begin() const noexcept { return data_; }
  constexpr const std::int64_t *end() const noexcept { return data_ + rank_; }
  constexpr std::int64_t operator[](std::size_t axis) const { return data_[axis]; }
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }

  friend constexpr bool operator==(extents a, extents b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (a.data_[i] != b.data_[i]) return false;
    return true;
  }
  friend constexpr bool operator!=(extents a, extents b) noexcept { return !(a == b); }

private:
  const std::int64_t *data_ = nullptr;
  std::size_t rank_ = 0;
};

/* An attribute with a number for each of N axes of an image: 2 for all of them, or {2, 1}. */
template <std::size_t N> class per_axis {
public:
  constexpr per_axis(std::int64_t all) noexcept : value_{} {
    for (auto &v : value_) v = all;
  }
  template <class... Rest, std::enable_if_t<sizeof...(Rest) + 1 == N && (N > 1), int> = 0>
  constexpr per_axis(std::int64_t first, Rest... rest) noexcept
      : value_{first, static_cast<std::int64_t>(rest)...} {}
  constexpr std::int64_t operator[](std::size_t axis) const { return value_[axis]; }

private:
  std::int64_t value_[N];
};

namespace detail {
/* A list of at most TN_MAX_RANK numbers inside an attribute. */
template <class Number, Number Limit = Number(TN_MAX_RANK)> class short_list {
public:
  constexpr short_list() noexcept = default;
  constexpr short_list(std::initializer_list<Number> list) { fill(list.begin(), list.size()); }
  constexpr short_list(const Number *list, std::size_t count) { fill(list, count); }
  short_list(const std::vector<Number> &list) { fill(list.data(), list.size()); }

protected:
  std::int32_t count_ = 0;
  Number value_[TN_MAX_RANK] = {};

private:
  constexpr void fill(const Number *list, std::size_t count) {
    if (count > TN_MAX_RANK)
      throw error(TN_ERR_INVALID_ARGUMENT, "tenon: a list of more numbers than a tensor has axes");
    for (std::size_t i = 0; i < count; ++i) value_[i] = list[i];
    count_ = static_cast<std::int32_t>(count);
  }
};
} // namespace detail

/* Axes: {0, -1}; {} is as the operator says, every axis for most. */
class axis_list : public detail::short_list<std::int32_t> {
public:
  using short_list::short_list;
  constexpr tn_axes c_list() const noexcept {
    tn_axes c = {count_, {}};
    for (std::int32_t i = 0; i < count_; ++i) c.axis[i] = value_[i];
    return c;
  }
};

/* Sizes or counts, one per axis or as the operator says. */
class dim_list : public detail::short_list<std::int64_t> {
public:
  using short_list::short_list;
  constexpr tn_dims c_list() const noexcept {
    tn_dims c = {count_, 0, {}};
    for (std::int32_t i = 0; i < count_; ++i) c.dim[i] = value_[i];
    return c;
  }
};

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
