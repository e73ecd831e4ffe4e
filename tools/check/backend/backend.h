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
  const char *about; /* what it looks at, for people */
} slot_check;

/* The first is of the device itself, which is opened and closed around the others. */
extern const slot_check slot_checks[];
extern const uint32_t num_slot_checks;

void check_queues(direct *d, const check_options *o);
void check_events(direct *d, const check_options *o);
void check_elapsed(direct *d, const check_options *o);
void check_waits(direct *d, const check_options *o);
void check_threads(direct *d, const check_options *o);
void check_many(direct *d, const check_options *o);
void check_program(direct *d, const check_options *o);
void check_streams(direct *d, const check_options *o);
void check_wrap(direct *d, const check_options *o);
void check_capture(direct *d, const check_options *o);

/* Writes the checks' names behind the operators of an agenda. */
void backend_name_checks(agenda *a);
/* Prints those that there would be. */
void backend_list(const check_options *o, const checked_device *d);
/* Whether some check has such a name. */
bool backend_has_check(const char *glob);
/* Runs the checks of a device's slots that the options ask for, in forked processes or in this
 * one; `units` has one per check, and `done` hears of each in order. False when no process could
 * begin. */
bool backend_run(const check_options *o, const agenda *a, uint32_t device, unit *units,
                 void (*done)(void *ctx, unit *u), void *ctx);

#endif
