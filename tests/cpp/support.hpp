/* A few words for tests of the C++ wrapper: what fails is told and counted, and the rest goes on.
 */
#ifndef TENON_TESTS_CPP_SUPPORT_HPP
#define TENON_TESTS_CPP_SUPPORT_HPP

#include <cstdio>
#include <cstring>

#include "tenon/tenon.hpp"

inline int failures = 0;

inline void fail(const char *file, int line, const char *what, const char *more = "") {
  std::printf("%s:%d: %s %s\n", file, line, what, more);
  ++failures;
}

#define CHECK(...) ((__VA_ARGS__) ? void() : fail(__FILE__, __LINE__, #__VA_ARGS__))

/* The statement throws tenon::error of the status, and its message holds the words. */
#define THROWS(status_, words, ...)                                                                \
  do {                                                                                             \
    try {                                                                                          \
      (void)(__VA_ARGS__);                                                                         \
      fail(__FILE__, __LINE__, #__VA_ARGS__, "throws nothing");                                    \
    } catch (const tenon::error &e) {                                                              \
      if (e.status() != (status_) || !std::strstr(e.what(), (words)))                              \
        fail(__FILE__, __LINE__, #__VA_ARGS__, e.what());                                          \
    }                                                                                              \
  } while (0)

/* The tensor has just these values. */
template <class T> bool has(const tenon::tensor &t, std::initializer_list<T> values) {
  return t.to_vector<T>() == std::vector<T>(values);
}

/* Each in a file of its own. */
void test_handles(const tenon::runtime &rt);
void test_tensors(const tenon::runtime &rt);
void test_operators(const tenon::runtime &rt);
void test_arithmetic(const tenon::runtime &rt);

#endif
