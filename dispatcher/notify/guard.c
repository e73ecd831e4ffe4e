/*
 * Guards: who is told of what a thread overwrites while nothing records it; see watch.h. There are
 * few, for short times, so one list serves all threads.
 */
#include <pthread.h>

#include "dispatcher/notify/origin.h"
#include "dispatcher/notify/watch.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static call_watcher *guards;
_Atomic uint32_t num_guards;
static _Thread_local bool is_hushed; /* and its address says which thread this is */

/* The parent's guards are of its runtimes, and its threads may have held the lock. */
static void after_fork_in_child(void) {
  pthread_mutex_init(&mutex, NULL);
  guards = NULL;
  atomic_store(&num_guards, 0);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

void guard_begin(call_watcher *w) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  runtime_retain(w->runtime);
  watch_count(w->runtime, true);
  pthread_mutex_lock(&mutex);
  w->guarded_thread = &is_hushed;
  w->next_guard = guards;
  guards = w;
  atomic_fetch_add(&num_guards, 1);
  pthread_mutex_unlock(&mutex);
}

void guard_end(call_watcher *w) {
  pthread_mutex_lock(&mutex);
  call_watcher **at = &guards;
  while (*at != w) at = &(*at)->next_guard;
  *at = w->next_guard;
  atomic_fetch_sub(&num_guards, 1);
  pthread_mutex_unlock(&mutex);
  watch_count(w->runtime, false);
  runtime_release(w->runtime);
}

static bool is_told(const call_watcher *w, const tn_device *device) {
  return w->guarded_thread == &is_hushed && w->runtime == device->runtime;
}

bool guard_listens(const tn_device *device) {
  bool listens = false;
  if (!atomic_load(&num_guards) || is_hushed || device->recorder || origin_stands_in_for())
    return false;
  pthread_mutex_lock(&mutex);
  for (const call_watcher *w = guards; w && !listens; w = w->next_guard)
    listens = is_told(w, device);
  pthread_mutex_unlock(&mutex);
  return listens;
}

void guard_tell(const tn_device *device, const tn_operator *op, const tn_tensor *tensor) {
  if (!atomic_load(&num_guards) || is_hushed || device->recorder) return;
  pthread_mutex_lock(&mutex);
  for (call_watcher *w = guards; w; w = w->next_guard)
    if (is_told(w, device)) w->overwritten(w, op, tensor);
  pthread_mutex_unlock(&mutex);
}

bool guard_hush(bool hushed) {
  bool before = is_hushed;
  is_hushed = hushed;
  return before;
}
