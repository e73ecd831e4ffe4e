/* Points in queues. An event may be recorded anew, or destroyed, while a queue still waits for
 * where it was: whoever needs a point holds it. */
#include <stdlib.h>
#include <time.h>

#include "mutant.h"

struct mutant_point {
  atomic_int holders;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool passed;
  uint64_t time_ns;
};

mutant_point *mutant_point_make(void) {
  mutant_point *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  atomic_init(&p->holders, 1);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  return p;
}

mutant_point *mutant_point_share(mutant_point *p) {
  if (p) atomic_fetch_add(&p->holders, 1);
  return p;
}

void mutant_point_drop(mutant_point *p) {
  if (!p || atomic_fetch_sub(&p->holders, 1) > 1) return;
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

void mutant_point_pass(mutant_point *p) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  pthread_mutex_lock(&p->lock);
  p->passed = true;
  p->time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

bool mutant_point_passed(mutant_point *p, bool wait, uint64_t *time_ns) {
  pthread_mutex_lock(&p->lock);
  while (wait && !p->passed) pthread_cond_wait(&p->changed, &p->lock);
  bool passed = p->passed;
  if (passed && time_ns) *time_ns = p->time_ns;
  pthread_mutex_unlock(&p->lock);
  return passed;
}
