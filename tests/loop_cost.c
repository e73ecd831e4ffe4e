/*
 * Calls of operators that do little on 16 bits, as often as the argument says, for a count of their
 * instructions (loop_cost.sh): a loop that compilers no longer make vectors of takes several times
 * as many, and no result tells.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tenon/ops.h"

enum { ELEMENTS = 4096 };

static void must(tn_status status) {
  if (status == TN_OK) return;
  fprintf(stderr, "loop_cost: %s\n", tn_last_error());
  exit(1);
}

static tn_tensor *numbers(tn_device *device, tn_dtype dtype) {
  static float x[ELEMENTS];
  unsigned seed = 7;
  for (int i = 0; i < ELEMENTS; i++)
    x[i] = (float)(int32_t)(seed = seed * 1664525 + 1013904223) * 0x1p-31f;
  const tn_cast_attrs to = {.struct_size = sizeof to, .dtype = (int32_t)dtype};
  tn_tensor *wide = NULL, *t = NULL;
  must(tn_tensor_from_host(device, TN_F32, 1, (const int64_t[]){ELEMENTS}, x, &wide));
  must(tn_cast(NULL, wide, &to, &t));
  tn_tensor_release(wide);
  return t;
}

int main(int argc, char **argv) {
  static const struct {
    uint32_t op;
    int inputs;
  } calls[] = {{TN_OP_RELU, 1},    {TN_OP_HARDSWISH, 1}, {TN_OP_LEAKY_RELU, 1},
               {TN_OP_CLAMP, 1},   {TN_OP_NEG, 1},       {TN_OP_ADD, 2},
               {TN_OP_MAXIMUM, 2}, {TN_OP_RELU_GRAD, 2}, {TN_OP_TANH_GRAD, 2}};
  static const tn_dtype dtypes[] = {TN_F16, TN_BF16};
  const int times = argc > 1 ? atoi(argv[1]) : 1;
  const tn_clamp_attrs bounds = {.struct_size = sizeof bounds, .min = -0.5, .max = 0.75};
  tn_runtime *rt = NULL;
  must(tn_runtime_open(NULL, &rt));
  for (int d = 0; d < 2; d++) {
    tn_tensor *x = numbers(tn_runtime_device(rt), dtypes[d]), *y = NULL;
    const tn_tensor *in[] = {x, x};
    must(tn_add(NULL, x, x, &y));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
      tn_call call = {.struct_size = sizeof call,
                      .op = calls[c].op,
                      .in = in,
                      .num_in = calls[c].inputs,
                      .out = &y,
                      .num_out = 1};
      if (calls[c].op == TN_OP_CLAMP) call.attrs = &bounds;
      for (int i = 0; i < times; i++) must(tn_invoke(&call));
    }
    tn_tensor_release(x), tn_tensor_release(y);
  }
  printf("%d results\n", 2 * times * (int)(sizeof calls / sizeof *calls) * ELEMENTS);
  tn_runtime_close(rt);
  return 0;
}
