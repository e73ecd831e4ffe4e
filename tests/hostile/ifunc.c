/* Crashes in the resolver of an indirect function, which runs while ld.so relocates. */
#include "tests/plugins/fixture.h"

FIXTURE_TABLES("ifunc", "fixture");

static volatile int *volatile nowhere = (volatile int *)8;

static void (*resolve(void))(void) {
  *nowhere = 1;
  return NULL;
}
void indirect(void) __attribute__((ifunc("resolve")));

TN_PLUGIN_DEFINE("ifunc") {
  (void)host;
  indirect();
  return &plugin;
}
