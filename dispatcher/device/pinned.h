/* Which host memory is pinned, while layers want notices: to tell copies that wait from those
 * that do not. pre of all but pinned_free_all: the runtime is notified. */
#ifndef TENON_DISPATCHER_PINNED_H
#define TENON_DISPATCHER_PINNED_H

#include "dispatcher/objects/runtime.h"

bool pinned_contains(tn_runtime *runtime, const void *ptr);
/* Forgets all; for the runtime's end. */
void pinned_free_all(tn_runtime *runtime);

#endif
