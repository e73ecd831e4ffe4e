/* Runtimes with plugins that say what they bring, for the tests of when they are loaded. */
#ifndef TENON_TESTS_ON_DEMAND_SUPPORT_H
#define TENON_TESTS_ON_DEMAND_SUPPORT_H

#include "support.h"

#define WAITING(name) WAITING_DIR "/libtenon-" name ".so"
#define FOUR WAITING("waits") ":" WAITING("waits-too") ":" WAITING("liar") ":" WAITING("operators")

/* With these fixtures and the reference backend alone. */
static inline tn_runtime_options options_for(const char *device) {
  return (tn_runtime_options){.struct_size = sizeof(tn_runtime_options),
                              .plugin_path = FOUR,
                              .plugins = "reference,waits*,liar,operators",
                              .device = device,
                              .log_level = 1 + TN_LOG_NONE,
                              .scan = TN_SCAN_OFF}; /* which refuses what meddles with signals */
}

static inline tn_runtime *open_naming(const char *device) {
  tn_runtime_options o = options_for(device);
  return open_runtime(&o);
}

#endif
