/* Carries the note, and does not export the query. */
#include "fixture.h"

FIXTURE_TABLES("no-symbol", "no_symbol");

#undef TN_PLUGIN_EXPORT
#define TN_PLUGIN_EXPORT __attribute__((visibility("hidden"))) extern
TN_PLUGIN_DEFINE("no-symbol");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
