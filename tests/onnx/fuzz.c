/*
 * For libFuzzer: any bytes as a model, which is read, compiled for small shapes where it is sound,
 * and closed. Nothing is run: what a model computes may take as long as it says.
 *
 *   fuzz -max_len=4096 CORPUS
 */
#include <stdint.h>
#include <stdlib.h>

#include "tenon/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tn_runtime *runtime(void) {
  static tn_runtime *opened;
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .device = "reference",
                                      .plugins = "reference",
                                      .memory_limit = 64 << 20};
  if (!opened && tn_runtime_open(&options, &opened)) abort();
  return opened;
}

/* Every open size is 2. */
static void compile(tn_onnx *model) {
  enum { MOST = 8 };
  int32_t ranks[MOST];
  int64_t sizes[MOST][TN_MAX_RANK];
  const int64_t *shapes[MOST];
  size_t count = tn_onnx_num_inputs(model);
  if (count > MOST) return;
  for (size_t i = 0; i < count; i++) {
    tn_onnx_value v = {.struct_size = sizeof v};
    if (tn_onnx_input_at(model, i, &v) || v.rank > TN_MAX_RANK) return;
    ranks[i] = v.rank == TN_RANK_OPEN ? 1 : v.rank;
    for (int32_t k = 0; k < ranks[i]; k++) {
      bool known = v.rank != TN_RANK_OPEN && v.shape[k] >= 0 && v.shape[k] < 64;
      sizes[i][k] = known ? v.shape[k] : 2;
    }
    shapes[i] = sizes[i];
  }
  tn_onnx_compile(model, count, ranks, shapes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_onnx *model;
  if (tn_onnx_load_memory(runtime(), NULL, data, size, NULL, &model)) return 0;
  compile(model);
  tn_onnx_close(model);
  return 0;
}
