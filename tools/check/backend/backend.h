/* The checks of a backend's slots: what each is, and how `tenon check` runs them. */
#ifndef TENON_CHECK_BACKEND_H
#define TENON_CHECK_BACKEND_H

#include "../check.h"
#include "direct.h"

/* One check: drives the slots of an open device and records what it finds with direct_fail. What
 * it makes it gives back. Several run in one process, one after the other, unless one fails. */
typedef struct slot_check {
  const char *name; /* "events": reported, and expected, as backend.events */
  bool queued;      /* needs queues and events: not for TN_BACKEND_SYNCHRONOUS */
  void (*run)(direct *d, const check_options *o);
} slot_check;

extern const slot_check slot_checks[];
extern const uint32_t num_slot_checks;

#endif
