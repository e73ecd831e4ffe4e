/* Shared by the tests with hostile plugins: a runtime that takes them, copies of them by name. */
#ifndef TENON_TESTS_HOSTILE_SUPPORT_H
#define TENON_TESTS_HOSTILE_SUPPORT_H

#include "tests/scratch.h"
#include "tests/support.h"

#define HOSTILE(name) HOSTILE_DIR "/libtenon-" name ".so"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static inline tn_runtime *open_reference(uint32_t scan, uint32_t timeout_ms) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference",
                                .log_level = 1,
                                .scan = scan,
                                .scan_timeout_ms = timeout_ms};
  return open_runtime(&options);
}

static inline tn_plugin_info last_report(tn_runtime *runtime) {
  tn_plugin_info info = {.struct_size = sizeof info}, next = info;
  for (size_t i = 0; tn_plugin_report(runtime, i, &next) == TN_OK; i++) info = next;
  return info;
}

static inline const char *copy_hostile(const char *name) {
  char file[96];
  snprintf(file, sizeof file, "libtenon-%s.so", name);
  return copy_fixture(HOSTILE("hostile"), file);
}

#endif
