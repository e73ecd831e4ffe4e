/* Changes the floating-point environment when loaded, as -ffast-math once did, and again
 * when asked. Otherwise sound. */
#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "fixture.h"

__attribute__((constructor)) static void flush_denormals(void) {
  fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

FIXTURE_TABLES("rounding", "rounding");

/* Declines if the constructor's changes are still there. */
TN_PLUGIN_DEFINE("rounding");
const tn_plugin *tn_plugin_query(const tn_host *host) {
  bool restored = fegetround() == FE_TONEAREST;
  flush_denormals();
  fesetround(FE_UPWARD);
  if (restored) return &plugin;
  host->fail(TN_ERR_INTERNAL, "asked with a changed rounding mode");
  return NULL;
}
