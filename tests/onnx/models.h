/* Shared by the tests of models made in memory: loading and running them, and what they give. */
#ifndef TENON_TESTS_ONNX_MODELS_H
#define TENON_TESTS_ONNX_MODELS_H

#include "session.h"

static inline tn_onnx *loaded(const Onnx__Model *m) {
  size_t bytes;
  tn_onnx *model = NULL;
  uint8_t *data = model_bytes(m, &bytes);
  tn_status status = tn_onnx_load_memory(runtime, device, data, bytes, NULL, &model);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  return model;
}

static inline tn_tensor *floats(int64_t n, const float *numbers) {
  tn_tensor *x;
  ok(tn_tensor_from_host(device, TN_F32, 1, &n, numbers, &x));
  return x;
}

static inline tn_tensor *whole(int64_t number) {
  tn_tensor *x;
  ok(tn_tensor_from_host(device, TN_I64, 0, NULL, &number, &x));
  return x;
}

/* Runs a model of one output; inputs are released. */
static inline tn_tensor *run(tn_onnx *model, size_t count, tn_tensor **in) {
  tn_tensor *y = NULL;
  tn_status status = tn_onnx_run(model, NULL, count, (const tn_tensor *const *)in, 1, &y);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  for (size_t i = 0; i < count; i++) tn_tensor_release(in[i]);
  return y;
}

/* y has these numbers; it is released. */
static inline void gives(tn_tensor *y, int64_t count, const float *want) {
  float got[64];
  ck_assert_int_eq(tn_tensor_elements(y), count);
  ok(tn_tensor_to_host(y, got, (size_t)count * sizeof *got));
  for (int64_t i = 0; i < count; i++)
    ck_assert_msg(got[i] == want[i], "element %d is %g, not %g", (int)i, got[i], want[i]);
  tn_tensor_release(y);
}

/* The run fails, and the message has these words. */
static inline void refuses(tn_onnx *model, size_t count, tn_tensor **in, const char *words) {
  tn_tensor *y = NULL;
  ck_assert_int_ne(tn_onnx_run(model, NULL, count, (const tn_tensor *const *)in, 1, &y), TN_OK);
  ck_assert_msg(strstr(tn_onnx_last_error(), words), "'%s' lacks '%s'", tn_onnx_last_error(),
                words);
  ck_assert_ptr_null(y);
  for (size_t i = 0; i < count; i++) tn_tensor_release(in[i]);
}

static inline tn_onnx_info report(tn_onnx *model) {
  tn_onnx_info info = {.struct_size = sizeof info};
  ck_assert_int_eq(tn_onnx_report(model, &info), TN_OK);
  return info;
}

#endif
