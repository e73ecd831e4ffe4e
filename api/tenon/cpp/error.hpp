/* Part of tenon/tenon.hpp: errors as exceptions. */
#ifndef TENON_CPP_ERROR_HPP
#define TENON_CPP_ERROR_HPP

#include <stdexcept>
#include <string>
#include <string_view>

#include "tenon/tenon.h"

/* A program and the libraries that it loads may have been compiled with different Tenons. What each
 * of them has inline stays its own: the linker sees other names. */
#define TENON_CPP_VERSION v0_1_0
static_assert(std::string_view(TN_VERSION_STRING) == "0.1.0", "TENON_CPP_VERSION lags behind");

namespace tenon {
inline namespace TENON_CPP_VERSION {

/* What a call came to that was not TN_OK; what() is tn_last_error() of that moment. */
class error : public std::runtime_error {
public:
  error(tn_status status, const char *message) : std::runtime_error(message), status_(status) {}
  tn_status status() const noexcept { return status_; }

private:
  tn_status status_;
};

namespace detail {
/* Apart, so that a call pays for nothing but a comparison. */
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_last(tn_status status) {
  throw error(status, tn_last_error());
}
[[noreturn, gnu::noinline, gnu::cold]] inline void throw_invalid(const std::string &message) {
  throw error(TN_ERR_INVALID_ARGUMENT, message.c_str());
}
} // namespace detail

/* Throws what is not TN_OK; for functions of tenon.h. */
inline void check(tn_status status) {
  if (__builtin_expect(status != TN_OK, 0)) detail::throw_last(status);
}

/* The library's version, "0.1.0". */
inline const char *version() noexcept { return tn_version(); }

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
