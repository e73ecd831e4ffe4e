/* What the tests of autocast share: calls, and looks at the casts of a graph. */
#ifndef TENON_TESTS_CASTS_H
#define TENON_TESTS_CASTS_H

#include "tenon/plugin.h"
#include "tests/graph/graphs.h"

static inline uint32_t nodes_of(const tn_graph *g, uint32_t op) {
  uint32_t count = 0;
  for (size_t i = 0; i < tn_graph_num_nodes(g); ++i) {
    tn_graph_node node = {.struct_size = sizeof node};
    ok(tn_graph_node_at(g, i, &node));
    count += node.op->id == op;
  }
  return count;
}

static inline uint32_t casts_of(const tn_graph *g) { return nodes_of(g, TN_OP_CAST); }

static inline tn_tensor *parameter(tn_graph *g, const char *name, tn_tensor *real) {
  tn_tensor *t = NULL;
  ok(tn_graph_parameter(g, name, real, &t));
  return t;
}

static inline tn_tensor *as(const tn_tensor *t, tn_dtype dtype) {
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = (int32_t)dtype;
  ok(tn_cast(NULL, t, &attrs, &y));
  return y;
}

static inline tn_tensor *product(const tn_tensor *a, const tn_tensor *b) {
  tn_tensor *y = NULL;
  ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
  return y;
}

static inline void is(const tn_tensor *t, tn_dtype dtype) {
  ck_assert_str_eq(tn_dtype_name(tn_tensor_dtype(t)), tn_dtype_name(dtype));
}

#endif
