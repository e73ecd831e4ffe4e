/* Its table has another name than its note. */
#include "fixture.h"

FIXTURE_TABLES("somebody-else", "misnamed");

TN_PLUGIN_DEFINE("misnamed");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
