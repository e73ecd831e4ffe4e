/* Wants more thread-local storage of the initial-exec kind than a process has to spare. */
#include "tests/plugins/fixture.h"

FIXTURE_TABLES("storage", "fixture");

static __attribute__((tls_model("initial-exec"))) _Thread_local volatile char block[1 << 20];

TN_PLUGIN_DEFINE("storage") {
  (void)host;
  block[0] = 1;
  return &plugin;
}
