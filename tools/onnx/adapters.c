/* Finding out how an operator of ONNX is expressed by Tenon's. */
#include "adapters.h"

#include <string.h>

static const adapter_row *const families[] = {adapters_elementwise, adapters_reduce, adapters_nn,
                                              adapters_move};

onnx_adapter onnx_adapter_find(const char *op_type, const char **op) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (const adapter_row *row = families[i]; row->onnx; row++)
      if (!strcmp(row->onnx, op_type)) return *op = row->op, row->adapter;
  return NULL;
}
