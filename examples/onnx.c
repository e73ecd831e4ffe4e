/* A host of libtenon-onnx: runs a model on ones and prints what it gives. TENON_DEVICE chooses
 * where. */
#include <stdio.h>
#include <stdlib.h>

#include "tenon/onnx.h"

static void check(tn_status status, const char *message) {
  if (status) fprintf(stderr, "%s\n", message), exit(1);
}

int main(int argc, char **argv) {
  tn_runtime *rt;
  tn_onnx *model;
  tn_tensor *in[8] = {0}, *out[8] = {0};
  if (argc != 2) return fputs("usage: onnx MODEL.onnx\n", stderr), 2;
  check(tn_runtime_open(NULL, &rt), tn_last_error());
  check(tn_onnx_load(rt, NULL, argv[1], NULL, &model), tn_onnx_last_error());
  size_t num_in = tn_onnx_num_inputs(model), num_out = tn_onnx_num_outputs(model);
  if (num_in > 8 || num_out > 8) return fputs("too many inputs or outputs\n", stderr), 1;
  for (size_t i = 0; i < num_in; i++) {
    tn_onnx_value is = {.struct_size = sizeof is};
    int64_t shape[TN_MAX_RANK] = {0};
    check(tn_onnx_input_at(model, i, &is), tn_onnx_last_error());
    for (int32_t k = 0; k < is.rank && k < TN_MAX_RANK; k++)
      shape[k] = is.shape[k] == TN_SIZE_OPEN ? 1 : is.shape[k];
    check(tn_ones(tn_runtime_device(rt), NULL, is.dtype, is.rank < 0 ? 0 : is.rank, shape, &in[i]),
          tn_last_error());
  }
  check(tn_onnx_run(model, NULL, num_in, (const tn_tensor *const *)in, num_out, out),
        tn_onnx_last_error());
  for (size_t i = 0; i < num_out; i++) {
    check(tn_tensor_print(out[i], NULL, NULL), tn_last_error());
    tn_tensor_release(out[i]);
  }
  for (size_t i = 0; i < num_in; i++) tn_tensor_release(in[i]);
  tn_onnx_close(model);
  tn_runtime_close(rt);
}
