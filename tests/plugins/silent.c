/* Declines without a word. */
#include "fixture.h"

TN_PLUGIN_DEFINE("silent");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return NULL;
}
