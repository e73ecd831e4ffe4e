/* What tests of the oneDNN plugin share. */
#ifndef TENON_TESTS_ONEDNN_H
#define TENON_TESTS_ONEDNN_H

#include "tests/support.h"

#define WITH "cpu,reference,onednn"

static inline tn_runtime *open_with(const char *plugins, uint32_t threads) {
  tn_runtime_options o = {
      .struct_size = sizeof o, .plugins = plugins, .device = "cpu", .num_threads = threads};
  return open_runtime(&o);
}

static inline tn_tensor *drawn(tn_device *device, tn_dtype dtype, int32_t rank,
                               const int64_t *shape) {
  tn_tensor *real = shaped(device, TN_F32, rank, shape), *t = NULL;
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  attrs.low = dtype == TN_I8 ? -128 : dtype == TN_U8 ? 0 : -1;
  attrs.high = dtype == TN_I8 ? 127 : dtype == TN_U8 ? 255 : 1;
  attrs.seed = 7 + (uint64_t)rank;
  cast.dtype = dtype;
  ok(tn_uniform(NULL, real, &attrs));
  ok(tn_cast(NULL, real, &cast, &t));
  tn_tensor_release(real);
  return t;
}

#endif
