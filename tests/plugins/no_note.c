/* Exports the query, and carries no note. */
#include "fixture.h"

FIXTURE_TABLES("no-note", "no_note");

TN_PLUGIN_EXPORT const tn_plugin *tn_plugin_query(const tn_host *host);
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
