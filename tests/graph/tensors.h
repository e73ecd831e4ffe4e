/* Tensors and programs, for tests of graphs on any device: the same bytes, giving back, reports. */
#ifndef TENON_TESTS_GRAPH_TENSORS_H
#define TENON_TESTS_GRAPH_TENSORS_H

#include "tenon/graph.h"
#include "tests/support.h"

#define RELEASE(...)                                                                               \
  do {                                                                                             \
    tn_tensor *all_[] = {__VA_ARGS__};                                                             \
    for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; ++i_) tn_tensor_release(all_[i_]);        \
  } while (0)

static inline void same(const tn_tensor *a, const tn_tensor *b) {
  size_t bytes = tn_tensor_bytes(a);
  ck_assert_uint_eq(bytes, tn_tensor_bytes(b));
  unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  ck_assert(memcmp(x, y, bytes) == 0);
  free(x);
  free(y);
}

static inline tn_program_info report(tn_program *p) {
  tn_program_info info = {.struct_size = sizeof info};
  ok(tn_program_report(p, &info));
  return info;
}

#endif
