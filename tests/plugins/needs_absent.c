/* Needs a library that is not there. */
#include "fixture.h"

extern int absent_answer(void);

FIXTURE_TABLES("needs-absent", "needs_absent");

TN_PLUGIN_DEFINE("needs-absent");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return absent_answer() == 42 ? &plugin : NULL;
}
