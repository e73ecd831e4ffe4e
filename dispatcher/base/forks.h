/* How code that may not look at a runtime learns that it is in a forked child. */
#ifndef TENON_DISPATCHER_FORKS_H
#define TENON_DISPATCHER_FORKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Counts forks this process came through; runtimes and pools remember the count at which
 * they were made. Another count means that they are the parent's: their locks may be held
 * by threads that the child does not have, and their devices are not the child's to use. */
extern _Atomic uint32_t fork_generation;

/* Has forks counted from here on. */
void forks_watch(void);

/* Whether the devices of this plugin, known by its table, are this process's to touch: nobody
 * did before it was forked. Notes that they are touched now. Thread-safe. */
bool forks_allow(const void *plugin);

#endif
