/* Calls a function that nobody defines. */
#include "fixture.h"

extern tn_status nobody_defines_this(const tn_kernel_args *args);

static const tn_backend backend = FIXTURE_BACKEND("undefined");
static const tn_backend *const backends[] = {&backend};
static const tn_kernel kernels[] = {FIXTURE_KERNEL("undefined")};
static const tn_plugin plugin = {FIXTURE_PLUGIN("undefined", backends, kernels)};

TN_PLUGIN_DEFINE("undefined");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  return nobody_defines_this(NULL) && host ? NULL : &plugin;
}
