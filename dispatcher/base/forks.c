/*
 * What of the process is a parent's: whose fork came between a backend's driver and now.
 * Drivers start threads and open files as soon as they are asked for devices, and a forked
 * child has the memory that remembers these but not the threads: calls into them hang. The
 * notes are the process's, as the drivers are, whichever runtime asked first; a child finds
 * its parent's among its memory.
 */
#include "dispatcher/base/forks.h"

#include <pthread.h>
#include <stddef.h>

#include "dispatcher/base/process_state.h"

enum { NOTES_MAX = 256 };

_Atomic uint32_t fork_generation;

/* Never freed: a library that was opened stays. A note whose time is still 0 is being made;
 * its driver has not been touched. */
static struct {
  _Atomic(const void *) plugin;
  _Atomic uint32_t time; /* generation + 1 */
} notes[NOTES_MAX];

static void after_fork_in_child(void) {
  atomic_fetch_add(&fork_generation, 1);
  process_state_forked();
}

static void watch(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

void forks_watch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch);
}

bool forks_allow(const void *plugin) {
  const uint32_t now = atomic_load(&fork_generation) + 1;
  for (int i = 0; i < NOTES_MAX; ++i) {
    const void *owner = NULL;
    if (atomic_compare_exchange_strong(&notes[i].plugin, &owner, plugin)) {
      atomic_store(&notes[i].time, now);
      return true;
    }
    if (owner != plugin) continue;
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&notes[i].time, &none, now)) return true;
    return none == now;
  }
  return true;
}
