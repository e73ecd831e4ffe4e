/* Shared by the tests of models made in memory: a runtime, and the device that they run on. */
#ifndef TENON_TESTS_ONNX_SESSION_H
#define TENON_TESTS_ONNX_SESSION_H

#include "builder.h"
#include "tests/support.h"

static tn_runtime *runtime;
static tn_device *device;

static inline void set_up(void) {
  runtime = open_runtime(NULL);
  ok(tn_device_find(runtime, "reference", &device));
}

static inline void tear_down(void) {
  builder_end();
  tn_runtime_close(runtime);
}

#endif
