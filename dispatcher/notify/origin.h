/*
 * What the calling thread's calls are for, as layers are told: a copy that stands in for a tensor
 * of another call, a call that another device's fell back to. Strings must live as long as the
 * runtime; each setter returns what was said before.
 */
#ifndef TENON_DISPATCHER_ORIGIN_H
#define TENON_DISPATCHER_ORIGIN_H

#include <stdbool.h>

/* From which device, NULL for none, the calls fall back from here on. */
const char *origin_fall_back_from(const char *device);
/* That device, NULL where they do not. */
const char *origin_fallback(void);

/* For which call, an operator or a function, NULL for none, copies make stand-ins from here on. */
const char *origin_stand_in(const char *call);
const char *origin_stands_in_for(void);

#endif
