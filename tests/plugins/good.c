/* A sound plugin: what every other fixture is but for one thing. */
#include "fixture.h"

FIXTURE_TABLES("good", "fixture");

TN_PLUGIN_DEFINE("good");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
