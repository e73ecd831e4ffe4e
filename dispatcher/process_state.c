/* Saving and restoring: signal numbers that the C library keeps for itself are left alone. */
#include "dispatcher/process_state.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

void process_state_save(process_state *s) {
  fegetenv(&s->floating_point);
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  for (int i = 1; i < NSIG; ++i)
    if (sigaction(i, NULL, &s->actions[i])) s->actions[i].sa_handler = SIG_ERR;
}

/* sa_handler and sa_sigaction share their place. */
static bool is_same(const struct sigaction *a, const struct sigaction *b) {
  return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

void process_state_restore(const process_state *s) {
  struct sigaction now;
  for (int i = 1; i < NSIG; ++i) {
    if (s->actions[i].sa_handler == SIG_ERR || sigaction(i, NULL, &now)) continue;
    if (!is_same(&now, &s->actions[i])) (void)sigaction(i, &s->actions[i], NULL);
  }
  pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
  fesetenv(&s->floating_point);
}
