/* Shared by the tests of the public door: opening runtimes, making tensors. */
#ifndef TENON_TESTS_SUPPORT_H
#define TENON_TESTS_SUPPORT_H

#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"
#include "tests/suite.h"

#define ok(call) ck_assert_msg((call) == TN_OK, "%s: %s", #call, tn_last_error())

/* The call fails with the status, and the message holds the words. */
#define refused(call, status, words)                                                               \
  do {                                                                                             \
    tn_status got_ = (call);                                                                       \
    ck_assert_msg(got_ == (status), "%s gave %s (%s)", #call, tn_status_name(got_),                \
                  tn_last_error());                                                                \
    ck_assert_msg(strstr(tn_last_error(), (words)), "'%s' not in '%s'", (words), tn_last_error()); \
  } while (0)

static inline tn_runtime *open_runtime(const tn_runtime_options *options) {
  tn_runtime *runtime = NULL;
  ok(tn_runtime_open(options, &runtime));
  return runtime;
}

/* A runtime whose default device's memory the test can read in place. */
static inline tn_runtime *open_host_runtime(void) {
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "cpu,reference"};
  return open_runtime(&options);
}

/* A float32 tensor of rank 1 with values 1, 2, 3... */
static inline tn_tensor *counting(tn_device *device, int64_t size) {
  float *values = malloc((size_t)(size ? size : 1) * sizeof *values);
  for (int64_t i = 0; i < size; ++i) values[i] = (float)(i + 1);
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 1, &size, values, &t));
  free(values);
  return t;
}

static inline tn_tensor *shaped(tn_device *device, tn_dtype dtype, int32_t rank,
                                const int64_t *shape) {
  tn_tensor *t = NULL;
  ok(tn_tensor_empty(device, dtype, rank, shape, &t));
  return t;
}
#define SHAPE(...) ((int64_t[]){__VA_ARGS__})

#endif
