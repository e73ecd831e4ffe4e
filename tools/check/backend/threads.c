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
  void *areas;           /* of all threads, on the device */
  unsigned char *pinned; /* this thread's */
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

/* Makes an event, waits for it and gives it back. */
static bool use_event(const job *j) {
  direct *d = j->r->d;
  void *event = NULL;
  if (!direct_ok(d, "event_create", direct_event_create(d, &event))) return false;
  bool ok = direct_ok(d, "event_record", direct_event_record(d, event, j->queue)) &&
            direct_ok(d, "queue_wait_event", direct_queue_wait_event(d, j->queue, event)) &&
            direct_ok(d, "event_wait", direct_event_wait(d, event));
  if (ok) direct_event_destroy(d, event);
  return ok;
}

/* Up from pageable memory, across, and back: by calls of this thread alone. In every other round
 * to pinned memory, which an event says is written, and now and then behind long work. */
static bool round_trip(const job *j, int round, uint64_t *state) {
  direct *d = j->r->d;
  const uint64_t a = (uint64_t)j->number * 2 * AREA, b = a + AREA;
  unsigned char wanted[AREA], up[AREA], pageable[AREA];
  unsigned char *back = round % 2 ? j->pinned : pageable;
  for (int i = 0; i < AREA; i++) wanted[i] = up[i] = (unsigned char)direct_random(state);
  memset(back, 0, AREA);
  bool ok =
      (round % 10 != 1 || rig_work(j->r, j->queue, 1)) &&
      direct_ok(d, "copy", direct_copy(d, j->queue, TN_COPY_TO_DEVICE, j->areas, a, up, 0, AREA));
  memset(up, 0, sizeof up);
  ok = ok &&
       direct_ok(d, "copy",
                 direct_copy(d, j->queue, TN_COPY_ON_DEVICE, j->areas, b, j->areas, a, AREA)) &&
       direct_ok(d, "copy", direct_copy(d, j->queue, TN_COPY_TO_HOST, back, 0, j->areas, b, AREA));
  if (ok && back == j->pinned) ok = use_event(j);
  ok = ok && same(d, back, wanted, round);
  return ok && (round % 5 || direct_ok(d, "queue_wait", direct_queue_wait(d, j->queue)));
}

static void *work(void *arg) {
  const job *j = arg;
  direct *d = j->r->d;
  uint64_t state = d->seed + 1000 * j->number;
  bool ok = true;
  direct_where(d, "%s, thread %u", j->where, j->number + 1);
  for (int i = 1; ok && i <= ROUNDS && direct_is_sound(d); i++) ok = round_trip(j, i, &state);
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

/* One queue for all, or one each. */
static void run_jobs(rig *r, void *const *queue, bool shared, const job *common) {
  job jobs[THREADS + 1];
  int begun = 0;
  for (uint32_t i = 0; i <= THREADS; i++) {
    jobs[i] = *common;
    jobs[i].queue = queue[shared ? 0 : i % THREADS];
    jobs[i].number = i;
    jobs[i].pinned += (size_t)i * AREA;
    if (pthread_create(&jobs[i].thread, NULL, i == THREADS ? record : work, &jobs[i])) break;
    begun++;
  }
  for (int i = 0; i < begun; i++) pthread_join(jobs[i].thread, NULL);
  if (begun <= THREADS) direct_note(r->d, "no %d threads could begin", THREADS + 1);
}

void check_threads(direct *d, const check_options *o) {
  rig r;
  job common = {.r = &r};
  (void)o;
  if (!rig_make(d, &r)) return;
  void *const *queue = r.queue + r.num_queues;
  common.pinned = rig_host(&r, (size_t)(THREADS + 1) * AREA);
  bool ok = common.pinned &&
            direct_ok(d, "alloc",
                      direct_alloc(d, TN_MEMORY_DEVICE, (size_t)2 * THREADS * AREA, &common.areas));
  for (int i = 0; ok && i < THREADS; i++) ok = rig_queue(&r) != NULL;
  common.where = "one queue for all threads";
  if (ok) run_jobs(&r, queue, true, &common);
  common.where = "a queue for each thread";
  if (ok && direct_is_sound(d)) run_jobs(&r, queue, false, &common);
  rig_free(&r);
  if (!direct_is_sound(d)) return;
  direct_free(d, TN_MEMORY_DEVICE, common.areas);
}
