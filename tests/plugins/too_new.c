/* Built for ABI versions that do not exist yet. It would crash if it were asked. */
#include "fixture.h"

FIXTURE_NOTE("too-new", 900, 901, TN_FLAVOUR);
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  abort();
}
