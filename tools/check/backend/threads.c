/* Several threads at once: on one queue, as programs use a device's default stream, on queues of
 * their own, and one that records events wherever it likes. */
#include <pthread.h>
#include <string.h>

#include "backend.h"
#include "rig.h"

enum { THREADS = 4, ROUNDS = 40, AREA = 4096, RECORDS = 200 };

typedef struct job {
  rig *r;
  void *queue;
  uint32_t number;
  const char *where;
  pthread_t thread;
} job;

static bool same(direct *d, const unsigned char *found, const unsigned char *wanted, int round) {
  for (int i = 0; i < AREA; i++) {
    if (found[i] == wanted[i]) continue;
    direct_fail(d, "round %d read %d in place of %d at byte %d", round, found[i], wanted[i], i);
    return false;
  }
  return true;
}

/* Up from pageable memory, across, and back: by calls of this thread alone. */
static bool round_trip(const job *j, int round, uint64_t *state) {
  direct *d = j->r->d;
  const uint64_t a = (uint64_t)j->number * 2 * AREA, b = a + AREA;
  unsigned char wanted[AREA], up[AREA], back[AREA];
  for (int i = 0; i < AREA; i++) wanted[i] = up[i] = (unsigned char)direct_random(state);
  memset(back, 0, sizeof back);
  bool ok =
      direct_ok(d, "copy", direct_copy(d, j->queue, TN_COPY_TO_DEVICE, j->r->to, a, up, 0, AREA));
  memset(up, 0, sizeof up);
  ok = ok &&
       direct_ok(d, "copy",
                 direct_copy(d, j->queue, TN_COPY_ON_DEVICE, j->r->to, b, j->r->to, a, AREA)) &&
       direct_ok(d, "copy", direct_copy(d, j->queue, TN_COPY_TO_HOST, back, 0, j->r->to, b, AREA));
  return ok && same(d, back, wanted, round);
}

static bool use_event(const job *j) {
  direct *d = j->r->d;
  void *event = NULL;
  if (!direct_ok(d, "event_create", direct_event_create(d, &event))) return false;
  bool ok = direct_ok(d, "event_record", direct_event_record(d, event, j->queue)) &&
            direct_ok(d, "queue_wait_event", direct_queue_wait_event(d, j->queue, event)) &&
            direct_ok(d, "event_wait", direct_event_wait(d, event)) &&
            direct_ok(d, "queue_wait", direct_queue_wait(d, j->queue));
  if (ok) direct_event_destroy(d, event);
  return ok;
}

static void *work(void *arg) {
  const job *j = arg;
  direct *d = j->r->d;
  uint64_t state = d->seed + 1000 * j->number;
  bool ok = true;
  direct_where(d, "%s, thread %u", j->where, j->number + 1);
  for (int i = 1; ok && i <= ROUNDS && direct_is_sound(d); i++)
    ok = round_trip(j, i, &state) && (i % 4 || use_event(j));
  return NULL;
}

/* Records on every queue in turn while others put work there, and sees that each event passes. */
static void *record(void *arg) {
  const job *j = arg;
  const rig *r = j->r;
  direct *d = r->d;
  void *event = NULL;
  direct_where(d, "%s, a thread that only records events", j->where);
  bool ok = direct_ok(d, "event_create", direct_event_create(d, &event));
  for (uint32_t i = 0; ok && i < RECORDS && direct_is_sound(d); i++) {
    ok = direct_ok(d, "event_record", direct_event_record(d, event, r->queue[i % r->num_queues]));
    if (ok && i % 8 == 0) ok = direct_ok(d, "event_wait", direct_event_wait(d, event));
  }
  if (ok && direct_ok(d, "event_wait", direct_event_wait(d, event))) direct_event_destroy(d, event);
  return NULL;
}

/* `queues`: one for all, or one each. */
static void run_jobs(rig *r, void *const *queue, bool shared, const char *where) {
  job jobs[THREADS + 1];
  int begun = 0;
  for (uint32_t i = 0; i <= THREADS; i++) {
    jobs[i] = (job){r, queue[shared ? 0 : i % THREADS], i, where, 0};
    if (pthread_create(&jobs[i].thread, NULL, i == THREADS ? record : work, &jobs[i])) break;
    begun++;
  }
  for (int i = 0; i < begun; i++) pthread_join(jobs[i].thread, NULL);
  if (begun <= THREADS) direct_note(r->d, "no %d threads could begin", THREADS + 1);
}

void check_threads(direct *d, const check_options *o) {
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  void *const *queue = r.queue + r.num_queues;
  bool ok = true;
  for (int i = 0; ok && i < THREADS; i++) ok = rig_queue(&r) != NULL;
  if (ok) run_jobs(&r, queue, true, "one queue for all threads");
  if (ok && direct_is_sound(d)) run_jobs(&r, queue, false, "a queue for each thread");
  rig_free(&r);
}
