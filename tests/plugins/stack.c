/* Sound, but linked so as to ask for an executable stack. */
#include "fixture.h"

FIXTURE_TABLES("stack", "stack");

TN_PLUGIN_DEFINE("stack");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
