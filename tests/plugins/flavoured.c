/* Says that it was built with MemorySanitizer, which no test program is. */
#include "fixture.h"

FIXTURE_NOTE("flavoured", TN_ABI_VERSION_MIN, TN_ABI_VERSION, TN_FLAVOUR_MSAN);
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  abort();
}
