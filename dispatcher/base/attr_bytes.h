/* How large attributes are in their operators' structs, which only grow: see tn_attr. */
#ifndef TENON_DISPATCHER_ATTR_BYTES_H
#define TENON_DISPATCHER_ATTR_BYTES_H

#include "tenon/plugin.h"

/* Of a kind of attribute, TN_ATTR_*; 0 of one that this host does not know. */
static inline size_t attr_bytes(uint32_t kind) {
  static const uint8_t bytes[] = {[TN_ATTR_I64] = 8,
                                  [TN_ATTR_U64] = 8,
                                  [TN_ATTR_F64] = 8,
                                  [TN_ATTR_FLAG] = 4,
                                  [TN_ATTR_DTYPE] = 4,
                                  [TN_ATTR_PAIR] = 16,
                                  [TN_ATTR_AXES] = sizeof(tn_axes),
                                  [TN_ATTR_TRIPLE] = 24,
                                  [TN_ATTR_DIMS] = sizeof(tn_dims),
                                  [TN_ATTR_RESULT] = 4,
                                  [TN_ATTR_TENSOR] = sizeof(void *)};
  return kind < sizeof bytes ? bytes[kind] : 0;
}

#endif
