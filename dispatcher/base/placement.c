/* Workers and the processors that they may use: see placement.h. Called by the thread pool alone.
 */
#include "dispatcher/base/placement.h"

#ifdef __linux__
int processor_here(void) { return sched_getcpu(); }

/* Machines with more processors than the set can tell do without. */
void placement_init(placement *p) {
  if (sched_getaffinity(0, sizeof p->allowed, &p->allowed)) CPU_ZERO(&p->allowed);
}

static cpu_set_t all_but(const cpu_set_t *allowed, int processor) {
  cpu_set_t set = *allowed;
  if (processor >= 0 && processor < CPU_SETSIZE && CPU_COUNT(&set) > 1) CPU_CLR(processor, &set);
  return set;
}

void placement_move(const placement *p, pthread_t worker, int was, int now) {
  const cpu_set_t old = all_but(&p->allowed, was), new = all_but(&p->allowed, now);
  cpu_set_t found;
  if (CPU_EQUAL(&old, &new) || pthread_getaffinity_np(worker, sizeof found, &found)) return;
  if (CPU_EQUAL(&found, &old)) (void)pthread_setaffinity_np(worker, sizeof new, &new);
}
#else
int processor_here(void) { return -1; }
void placement_init(placement *p) { (void)p; }
void placement_move(const placement *p, pthread_t worker, int was, int now) {
  (void)p, (void)worker, (void)was, (void)now;
}
#endif
