/*
 * Saving and restoring. Several threads may load and open at once: the first in takes the
 * handlers, the last out puts them back, so that none takes a plugin's for the host's. Signal
 * numbers that the C library keeps for itself are left alone.
 */
#include "dispatcher/base/process_state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The process's, as signal handlers are. The mutex is held for moments. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t depth;
static struct sigaction handlers[NSIG];

static void take_handlers(void) {
  for (int i = 1; i < NSIG; ++i)
    if (sigaction(i, NULL, &handlers[i])) handlers[i].sa_handler = SIG_ERR;
}

/* sa_handler and sa_sigaction share their place. */
static bool is_same(const struct sigaction *a, const struct sigaction *b) {
  return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

static void put_handlers_back(void) {
  struct sigaction now;
  for (int i = 1; i < NSIG; ++i) {
    if (handlers[i].sa_handler == SIG_ERR || sigaction(i, NULL, &now)) continue;
    if (!is_same(&now, &handlers[i])) (void)sigaction(i, &handlers[i], NULL);
  }
}

void process_state_save(process_state *s) {
  fegetenv(&s->floating_point);
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  pthread_mutex_lock(&mutex);
  if (depth++ == 0) take_handlers();
  pthread_mutex_unlock(&mutex);
}

void process_state_restore(const process_state *s) {
  pthread_mutex_lock(&mutex);
  if (--depth == 0) put_handlers_back();
  pthread_mutex_unlock(&mutex);
  pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
  fesetenv(&s->floating_point);
}

void process_state_forked(void) {
  pthread_mutex_init(&mutex, NULL);
  depth = 0;
}
