#include "../check.h"
bool fuzz_is_wanted(const check_options *o) { return (void)o, false; }
void fuzz_run(const check_options *o, const agenda *a, uint32_t device, unit *units, unit *itself,
              void (*done)(void *ctx, unit *u), void *ctx) {
  (void)o, (void)a, (void)device, (void)units, (void)itself, (void)done, (void)ctx;
}
