/* Part of tenon/tenon.hpp: tensors of a value, and C++'s operators on tensors and numbers. */
#ifndef TENON_CPP_ARITHMETIC_HPP
#define TENON_CPP_ARITHMETIC_HPP

#include "tenon/ops.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

namespace detail {
template <class N> using if_number = std::enable_if_t<std::is_arithmetic_v<N>, int>;

/* Whether an integer type or bool holds a number. */
template <class T, class N> bool holds(N value) {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_integral_v<N>) {
    T there = static_cast<T>(value);
    return static_cast<N>(there) == value && (there < T(0)) == (value < N(0));
  } else { /* the limits of T are powers of two, which every float type has */
    constexpr N above = static_cast<N>(std::uint64_t(1) << (8 * sizeof(T) - 1)) *
                        (std::is_signed_v<T> ? N(1) : N(2));
    return value >= (std::is_signed_v<T> ? -above : N(0)) && value < above &&
           static_cast<N>(static_cast<T>(value)) == value;
  }
}

template <class T, class N> tensor whole_scalar(N value, device where) {
  if (!holds<T>(value))
    throw_invalid("tenon: " + std::to_string(value) + " is no number of type " +
                  tn_dtype_name(dtype_of<T>()));
  const T there = std::is_same_v<T, bool> ? static_cast<T>(value != N(0)) : static_cast<T>(value);
  return tensor::from<T>({}, &there, where);
}
} // namespace detail

/* A tensor of rank 0. Floats are rounded once; an integer type must hold the number. */
template <class N, detail::if_number<N> = 0>
tensor scalar(N value, tn_dtype type, device where = device::current(),
              stream_ref on = stream_ref::current()) {
  switch (type) {
  case TN_BOOL:
    return detail::whole_scalar<bool>(value, where);
  case TN_U8:
    return detail::whole_scalar<std::uint8_t>(value, where);
  case TN_I8:
    return detail::whole_scalar<std::int8_t>(value, where);
  case TN_I16:
    return detail::whole_scalar<std::int16_t>(value, where);
  case TN_I32:
    return detail::whole_scalar<std::int32_t>(value, where);
  case TN_I64:
    return detail::whole_scalar<std::int64_t>(value, where);
  case TN_F32: {
    const float there = static_cast<float>(value);
    return tensor::from<float>({}, &there, where);
  }
  default: {
    const double there = static_cast<double>(value);
    return tensor::from<double>({}, &there, where).to(type, on);
  }
  }
}

/* Tensors of one value. */
template <class N, detail::if_number<N> = 0>
tensor full(extents shape, N value, tn_dtype type, device where = device::current(),
            stream_ref on = stream_ref::current()) {
  tensor made = tensor::empty(shape, type, where, on);
  if (made.elements()) into::copy(made, scalar(value, type, where, on).expand(shape), on);
  return made;
}
inline tensor zeros(extents shape, tn_dtype type, device where = device::current(),
                    stream_ref on = stream_ref::current()) {
  return full(shape, 0, type, where, on);
}
inline tensor ones(extents shape, tn_dtype type, device where = device::current(),
                   stream_ref on = stream_ref::current()) {
  return full(shape, 1, type, where, on);
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
