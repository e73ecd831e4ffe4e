/* Part of tenon/tenon.hpp: tensors of a value, and C++'s operators on tensors and numbers. */
#ifndef TENON_CPP_ARITHMETIC_HPP
#define TENON_CPP_ARITHMETIC_HPP

#include "tenon/ops.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

namespace detail {
template <class N> using if_number = std::enable_if_t<std::is_arithmetic_v<N>, int>;

/* What tenon.h's functions of a number take: whole numbers up to 64 bits, or a double. */
template <class N> constexpr bool is_whole(N value) {
  if constexpr (std::is_same_v<N, unsigned long> || std::is_same_v<N, unsigned long long>)
    return value <= static_cast<N>(INT64_MAX);
  else
    return std::is_integral_v<N>;
}
} // namespace detail

/* A constant of rank 0, which may not be written to. Floats are rounded once; an integer type must
 * hold the number. */
template <class N, detail::if_number<N> = 0>
tensor scalar(N value, tn_dtype type, device where = device::current(),
              stream_ref on = stream_ref::current()) {
  tensor t;
  if (detail::is_whole(value))
    check(tn_scalar_i64(where.get(), on.get(), type, static_cast<std::int64_t>(value), t.c_out()));
  else
    check(tn_scalar_f64(where.get(), on.get(), type, static_cast<double>(value), t.c_out()));
  return t;
}

/* Tensors of one value. */
template <class N, detail::if_number<N> = 0>
tensor full(extents shape, N value, tn_dtype type, device where = device::current(),
            stream_ref on = stream_ref::current()) {
  tensor t;
  if (detail::is_whole(value))
    check(tn_full_i64(where.get(), on.get(), type, shape.rank(), shape.data(),
                      static_cast<std::int64_t>(value), t.c_out()));
  else
    check(tn_full_f64(where.get(), on.get(), type, shape.rank(), shape.data(),
                      static_cast<double>(value), t.c_out()));
  return t;
}
inline tensor zeros(extents shape, tn_dtype type, device where = device::current(),
                    stream_ref on = stream_ref::current()) {
  tensor t;
  check(tn_zeros(where.get(), on.get(), type, shape.rank(), shape.data(), t.c_out()));
  return t;
}
inline tensor ones(extents shape, tn_dtype type, device where = device::current(),
                   stream_ref on = stream_ref::current()) {
  tensor t;
  check(tn_ones(where.get(), on.get(), type, shape.rank(), shape.data(), t.c_out()));
  return t;
}

/* Of x's device, element type, shape and order of axes. */
inline tensor empty_like(const tensor &x, stream_ref on = stream_ref::current()) {
  tensor t;
  check(tn_empty_like(on.get(), x.get(), t.c_out()));
  return t;
}
inline tensor zeros_like(const tensor &x, stream_ref on = stream_ref::current()) {
  tensor t;
  check(tn_zeros_like(on.get(), x.get(), t.c_out()));
  return t;
}
inline tensor ones_like(const tensor &x, stream_ref on = stream_ref::current()) {
  tensor t;
  check(tn_ones_like(on.get(), x.get(), t.c_out()));
  return t;
}
template <class N, detail::if_number<N> = 0>
tensor full_like(const tensor &x, N value, stream_ref on = stream_ref::current()) {
  tensor t;
  if (detail::is_whole(value))
    check(tn_full_like_i64(on.get(), x.get(), static_cast<std::int64_t>(value), t.c_out()));
  else
    check(tn_full_like_f64(on.get(), x.get(), static_cast<double>(value), t.c_out()));
  return t;
}

namespace detail {
/* A number as the other operand of x. */
template <class N> tensor beside(const tensor &x, N value) {
  return scalar(value, x.dtype(), x.device());
}
} // namespace detail

inline tensor operator-(const tensor &x) { return neg(x); }

/* sign: a C++ operator; function: Tenon's. */
#define TENON_BINARY(sign, function)                                                               \
  inline tensor operator sign(const tensor &a, const tensor &b) { return function(a, b); }         \
  template <class N, detail::if_number<N> = 0> tensor operator sign(const tensor &a, N b) {        \
    return function(a, detail::beside(a, b));                                                      \
  }                                                                                                \
  template <class N, detail::if_number<N> = 0> tensor operator sign(N a, const tensor &b) {        \
    return function(detail::beside(b, a), b);                                                      \
  }
TENON_BINARY(+, add)
TENON_BINARY(-, sub)
TENON_BINARY(*, mul)
TENON_BINARY(/, div)
/* Element by element, as tensors of type bool. */
TENON_BINARY(==, equal)
TENON_BINARY(!=, not_equal)
TENON_BINARY(<, less)
TENON_BINARY(<=, less_equal)
TENON_BINARY(>, greater)
TENON_BINARY(>=, greater_equal)
#undef TENON_BINARY

/* In place: all that share these elements see it. */
#define TENON_UPDATE(sign, function)                                                               \
  inline tensor &operator sign(tensor &a, const tensor &b) {                                       \
    into::function(a, a, b);                                                                       \
    return a;                                                                                      \
  }                                                                                                \
  template <class N, detail::if_number<N> = 0> tensor &operator sign(tensor &a, N b) {             \
    into::function(a, a, detail::beside(a, b));                                                    \
    return a;                                                                                      \
  }
TENON_UPDATE(+=, add)
TENON_UPDATE(-=, sub)
TENON_UPDATE(*=, mul)
TENON_UPDATE(/=, div)
#undef TENON_UPDATE

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
