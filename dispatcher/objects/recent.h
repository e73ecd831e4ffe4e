/*
 * The last operators that devices were given, while a layer is on: faults of work that runs beside
 * the host come out at a later wait, where nothing else says whose they are. Written by whatever
 * thread calls, without a lock: two calls at once may leave one place to either.
 */
#ifndef TENON_DISPATCHER_RECENT_H
#define TENON_DISPATCHER_RECENT_H

#include "dispatcher/objects/device.h"

enum { RECENT_CALLS = 32, RECENT_TOLD = 4 };

typedef struct recent_calls {
  _Atomic uint32_t next;
  struct {
    _Atomic(const tn_device *) device;
    _Atomic(const char *) op; /* its name, which lives as long as the process */
  } call[RECENT_CALLS];
} recent_calls;

static inline void recent_note(recent_calls *calls, const tn_device *device, const char *op) {
  uint32_t at = atomic_fetch_add_explicit(&calls->next, 1, memory_order_relaxed) % RECENT_CALLS;
  atomic_store_explicit(&calls->call[at].op, op, memory_order_relaxed);
  atomic_store_explicit(&calls->call[at].device, device, memory_order_release);
}

/* Writes the names of the device's last operators, the latest first; "" if none is known. */
void recent_text(const recent_calls *calls, const tn_device *device, char *text, size_t size);

#endif
