/* Declines with a reason. */
#include "fixture.h"

TN_PLUGIN_DEFINE("declines");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  host->fail(TN_ERR_UNSUPPORTED, "no %s on a %s", "flux capacitor", "bicycle");
  return NULL;
}
