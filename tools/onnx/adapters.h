/* The adapters' tables; each family of operators has a file. */
#ifndef TENON_TOOLS_ONNX_ADAPTERS_H
#define TENON_TOOLS_ONNX_ADAPTERS_H

#include "node.h"

/* An operator of ONNX, how it is expressed, and what the adapter is told beside it. */
typedef struct adapter_row {
  const char *onnx;
  onnx_adapter adapter;
  const char *op;
} adapter_row;

/* Each ends with a row of NULL. */
extern const adapter_row adapters_elementwise[], adapters_reduce[], adapters_nn[], adapters_move[];

#endif
