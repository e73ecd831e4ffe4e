/* Passes every check of the loader, and then fails to open for a runtime. */
#include "fixture.h"

static const tn_backend backend = FIXTURE_BACKEND("fails_open");
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {FIXTURE_KERNEL("fails_open")};

static tn_status refuse(const tn_host *host, void **context) {
  (void)context;
  return host->fail(TN_ERR_BACKEND, "the driver is on holiday");
}

static const tn_plugin plugin = {FIXTURE_PLUGIN("fails-open", backends, kernels), .open = refuse};

TN_PLUGIN_DEFINE("fails-open");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  (void)host;
  return &plugin;
}
