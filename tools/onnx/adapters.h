/*
 * The adapters' tables; each family of operators has a file, named adapters_FAMILY.c. A new family
 * is a table more below, in `families` of adapters.c and in meson.build.
 */
#ifndef TENON_TOOLS_ONNX_ADAPTERS_H
#define TENON_TOOLS_ONNX_ADAPTERS_H

#include "node.h"

/* An operator of ONNX, how it is expressed, and what the adapter is told beside it. */
typedef struct adapter_row {
  const char *onnx;
  onnx_adapter adapter;
  const char *op;
  int64_t since, until; /* the opsets it serves; 0: all, from 7 to 21 */
  const char *domain;   /* NULL: ONNX's own */
} adapter_row;

/* Each ends with a row of NULL. */
extern const adapter_row adapters_elementwise[], adapters_reduce[], adapters_nn[], adapters_move[],
    adapters_make[], adapters_window[], adapters_signal[], adapters_order[], adapters_host[],
    adapters_quant[], adapters_resize[], adapters_rnn[], adapters_vision[];

/* All rows one after the other; NULL past the last. */
const adapter_row *adapter_row_at(size_t index);

#endif
