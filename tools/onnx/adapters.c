/* Finding out how an operator of ONNX is expressed by Tenon's. */
#include "adapters.h"

#include <string.h>

static const adapter_row *const families[] = {
    adapters_elementwise, adapters_reduce, adapters_nn,    adapters_move, adapters_make,
    adapters_window,      adapters_signal, adapters_order, adapters_host, adapters_quant,
    adapters_resize,      adapters_rnn,    adapters_vision};
enum { NUM_FAMILIES = sizeof families / sizeof *families };

static const char *domain_name(const char *domain) {
  return !domain || !strcmp(domain, "ai.onnx") ? "" : domain;
}

onnx_adapter onnx_adapter_find(const char *domain, const char *op_type, int64_t opset,
                               const char **op) {
  for (size_t i = 0; i < NUM_FAMILIES; i++)
    for (const adapter_row *row = families[i]; row->onnx; row++)
      if (!strcmp(row->onnx, op_type) && opset >= row->since &&
          (!row->until || opset <= row->until) &&
          !strcmp(domain_name(row->domain), domain_name(domain)))
        return *op = row->op, row->adapter;
  return NULL;
}

const adapter_row *adapter_row_at(size_t index) {
  for (size_t i = 0; i < NUM_FAMILIES; i++)
    for (const adapter_row *row = families[i]; row->onnx; row++)
      if (!index--) return row;
  return NULL;
}
