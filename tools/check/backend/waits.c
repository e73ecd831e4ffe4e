/* Queues that wait for each other's events, without a wait of the host between. */
#include "backend.h"
#include "rig.h"

enum { ROUNDS = 3, RING = 4, LAPS = 6 };

static bool record(rig *r, void *event, void *queue) {
  return direct_ok(r->d, "event_record", direct_event_record(r->d, event, queue));
}

static bool order(rig *r, void *queue, void *event) {
  return direct_ok(r->d, "queue_wait_event", direct_queue_wait_event(r->d, queue, event));
}

static bool read_line(rig *r, void *queue, unsigned char *to, const void *from, uint64_t offset) {
  return direct_ok(r->d, "copy",
                   direct_copy(r->d, queue, TN_COPY_TO_HOST, to, 0, from, offset, RIG_LINE));
}

/* Fails unless the line that came back is all of one value. */
static bool judge(rig *r, const unsigned char *line, unsigned char value, const char *what) {
  for (int i = 0; i < RIG_LINE; i++) {
    if (line[i] == value) continue;
    direct_fail(r->d, "%s: a copy read %d where the work it waits for wrote %d", what, line[i],
                value);
    return false;
  }
  return true;
}

/* What happens to the event once the second queue was told to wait. */
typedef enum afterwards { NOTHING, RECORDED_ELSEWHERE, DESTROYED } afterwards;

/* `first` works and then writes a line, `second` waits for that and reads the line. */
static bool hand_over(rig *r, void *first, void *second, void *idle, afterwards then,
                      unsigned char value, unsigned char *back) {
  const uint64_t at = 4096;
  void *event = NULL;
  *back = 0;
  bool ok = direct_ok(r->d, "event_create", direct_event_create(r->d, &event)) &&
            rig_put_line(r, second, r->marks, at, 0) && rig_settle(r) && rig_work(r, first, 1) &&
            rig_put_line(r, first, r->marks, at, value) && record(r, event, first) &&
            order(r, second, event);
  if (ok && then == RECORDED_ELSEWHERE) ok = record(r, event, idle);
  if (ok && then == DESTROYED) direct_event_destroy(r->d, event);
  ok = ok && read_line(r, second, back, r->marks, at) &&
       direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, second)) &&
       judge(r, back, value, "queue_wait_event did not hold the queue") && rig_settle(r);
  if (ok && then != DESTROYED) direct_event_destroy(r->d, event);
  return ok;
}

/* Both directions, and what programs do to events whose waits are under way. */
static void check_pairs(rig *r, void *const *queue, unsigned char *back) {
  static const char *const text[] = {
      "",
      ", whose event is recorded on a third meanwhile",
      ", whose event is destroyed meanwhile",
  };
  for (int then = NOTHING; then <= DESTROYED; then++)
    for (int i = 0; i < 2 * ROUNDS && direct_is_sound(r->d); i++) {
      direct_where(r->d, "queue %d waits for queue %d%s, round %d", i % 2 ? 1 : 2, i % 2 ? 2 : 1,
                   text[then], i / 2 + 1);
      (void)hand_over(r, queue[i % 2], queue[1 - i % 2], queue[2], (afterwards)then,
                      (unsigned char)(1 + 7 * i + 60 * then), back);
    }
}

/* Each of the queues waits for the one before it, round and round, with one event for all. */
static void check_ring(rig *r, void *const *queue, unsigned char *back) {
  direct *d = r->d;
  void *event = rig_event(r);
  bool ok = event != NULL;
  direct_where(d, "%d queues in a ring hand a line on, all by one event", RING);
  for (int i = 0; ok && i < RING * LAPS; i++) {
    void *mine = queue[i % RING];
    const uint64_t from = (uint64_t)(i % 8) * 4096, to = (uint64_t)((i + 1) % 8) * 4096;
    if (i % RING == 0) ok = rig_work(r, mine, 1);
    if (i == 0) ok = ok && rig_put_line(r, mine, r->marks, 0, 201);
    if (i > 0) ok = ok && order(r, mine, event);
    ok = ok &&
         direct_ok(
             d, "copy",
             direct_copy(d, mine, TN_COPY_ON_DEVICE, r->marks, to, r->marks, from, RIG_LINE)) &&
         record(r, event, mine);
  }
  ok = ok && order(r, queue[0], event) &&
       read_line(r, queue[0], back, r->marks, (uint64_t)(RING * LAPS % 8) * 4096) &&
       direct_ok(d, "queue_wait", direct_queue_wait(d, queue[0])) &&
       judge(r, back, 201, "queue_wait_event did not hold a queue");
  if (ok) (void)rig_settle(r);
}

/* Waits that are no hindrance: for an event that has passed, and for one of the same queue. */
static void check_passed(rig *r, void *const *queue, unsigned char *back) {
  direct *d = r->d;
  void *event = rig_event(r);
  promise p;
  (void)back;
  direct_where(d, "a queue waits for an event that has passed");
  if (!event || !record(r, event, queue[0]) ||
      !direct_ok(d, "event_wait", direct_event_wait(d, event)))
    return;
  if (!order(r, queue[1], event) || !rig_promise(r, queue[1], &p) ||
      !direct_ok(d, "queue_wait", direct_queue_wait(d, queue[1])) ||
      !rig_expect(r, p, "queue_wait returned"))
    return;
  direct_where(d, "a queue waits for an event of its own");
  if (rig_work(r, queue[0], 1) && record(r, event, queue[0]) && order(r, queue[0], event) &&
      rig_promise(r, queue[0], &p) && direct_ok(d, "queue_wait", direct_queue_wait(d, queue[0])))
    (void)rig_expect(r, p, "queue_wait returned");
}

/* The host waits for an event of a queue that itself waits for another's. */
static void check_behind(rig *r, void *const *queue, unsigned char *back) {
  direct *d = r->d;
  void *first = rig_event(r), *second = first ? rig_event(r) : NULL;
  promise p;
  (void)back;
  direct_where(d, "an event of a queue that waits for another queue");
  if (!second || !rig_delayed(r, queue[0], &p) || !record(r, first, queue[0]) ||
      !order(r, queue[1], first) || !record(r, second, queue[1]) ||
      !direct_ok(d, "event_wait", direct_event_wait(d, second)))
    return;
  (void)rig_expect(r, p, "event_wait returned");
  direct_where(d, "a queue that waits for another queue is waited for");
  if (rig_delayed(r, queue[0], &p) && record(r, first, queue[0]) && order(r, queue[1], first) &&
      direct_ok(d, "queue_wait", direct_queue_wait(d, queue[1])))
    (void)rig_expect(r, p, "queue_wait of the queue that waits returned");
}

void check_waits(direct *d, const check_options *o) {
  static void (*const parts[])(rig * r, void *const *queue, unsigned char *back) = {
      check_pairs, check_behind, check_passed, check_ring};
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  unsigned char *back = rig_host(&r, RIG_LINE);
  void *const *queue = r.queue + r.num_queues;
  bool ok = back != NULL;
  for (int i = 0; ok && i < RING; i++) ok = rig_queue(&r) != NULL;
  for (size_t i = 0; ok && i < sizeof parts / sizeof *parts && direct_is_sound(d); i++)
    parts[i](&r, queue, back);
  rig_free(&r);
}
