/* The two notes of a thread on its calls; see origin.h. */
#include "dispatcher/notify/origin.h"

#include <stddef.h>

static _Thread_local const char *fallback_from;

const char *origin_fall_back_from(const char *device) {
  const char *before = fallback_from;
  fallback_from = device;
  return before;
}

const char *origin_fallback(void) { return fallback_from; }

static _Thread_local const char *stand_in_for;

const char *origin_stand_in(const char *call) {
  const char *before = stand_in_for;
  stand_in_for = call;
  return before;
}

const char *origin_stands_in_for(void) { return stand_in_for; }
