/* Another file with the name of "good". Sound by itself; the second one is not taken. */
#include "fixture.h"

FIXTURE_TABLES("good", "twin");

TN_PLUGIN_DEFINE("good");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
