/* Thousands of events, dozens of queues, and as many made and given back again. */
#include <stdlib.h>

#include "backend.h"
#include "rig.h"

enum { EVENTS = 3000, ENOUGH_EVENTS = 256, QUEUES = 48, ENOUGH_QUEUES = 8, TURNS = 200 };

/* How many could be made; what is too few fails, else a limit is noted. */
static uint32_t make(direct *d, tn_status (*create)(direct *d, void **made), const char *what,
                     void **made, uint32_t most, uint32_t enough) {
  for (uint32_t i = 0; i < most; i++) {
    tn_status status = create(d, &made[i]);
    if (status == TN_OK) continue;
    if (i < enough)
      (void)direct_ok(d, what, status);
    else
      direct_note(d, "%s failed when there were %u: %s", what, i, direct_error());
    return i;
  }
  return most;
}

/* All of them recorded behind work, of which the last is waited for: then all have passed. */
static void check_events_at_once(rig *r, void *queue, void **event) {
  direct *d = r->d;
  promise p;
  direct_where(d, "%d events at once", EVENTS);
  uint32_t count = make(d, direct_event_create, "event_create", event, EVENTS, ENOUGH_EVENTS);
  bool ok = direct_is_sound(d) && rig_delayed(r, queue, &p);
  for (uint32_t i = 0; ok && i < count; i++)
    ok = direct_ok(d, "event_record", direct_event_record(d, event[i], queue));
  ok = ok && direct_ok(d, "event_wait", direct_event_wait(d, event[count - 1])) &&
       rig_expect(r, p, "event_wait returned");
  for (uint32_t i = 0; ok && i < count; i++) {
    tn_status status = direct_event_query(d, event[i]);
    if (status == TN_ERR_NOT_READY)
      direct_fail(d,
                  "event_query says TN_ERR_NOT_READY of event %u, and of a later one of the "
                  "same queue event_wait returned",
                  i + 1);
    ok = status == TN_OK || (status != TN_ERR_NOT_READY && direct_ok(d, "event_query", status));
  }
  for (uint32_t i = 0; ok && i < count; i++) direct_event_destroy(d, event[i]);
}

/* One that is never given back is missed in the end. */
static void check_events_in_turn(rig *r, void *queue) {
  direct *d = r->d;
  promise p;
  bool ok = rig_delayed(r, queue, &p);
  direct_where(d, "events made, recorded and destroyed, one after the other");
  for (uint32_t i = 0; ok && i < EVENTS; i++) {
    void *event = NULL;
    ok = direct_ok(d, "event_create", direct_event_create(d, &event)) &&
         direct_ok(d, "event_record", direct_event_record(d, event, queue));
    if (ok) direct_event_destroy(d, event);
  }
  if (ok && direct_ok(d, "queue_wait", direct_queue_wait(d, queue)))
    (void)rig_expect(r, p, "queue_wait returned");
}

/* A line goes through all queues, each waiting for the one before it. */
static void relay(rig *r, void *const *queue, uint32_t count, void *event, unsigned char *back) {
  direct *d = r->d;
  bool ok = rig_work(r, queue[0], 1) && rig_put_line(r, queue[0], r->marks, 0, 77);
  for (uint32_t i = 1; ok && i < count; i++)
    ok = direct_ok(d, "event_record", direct_event_record(d, event, queue[i - 1])) &&
         direct_ok(d, "queue_wait_event", direct_queue_wait_event(d, queue[i], event)) &&
         direct_ok(d, "copy",
                   direct_copy(d, queue[i], TN_COPY_ON_DEVICE, r->marks, (uint64_t)i * RIG_LINE,
                               r->marks, (uint64_t)(i - 1) * RIG_LINE, RIG_LINE));
  ok = ok && direct_ok(d, "copy",
                       direct_copy(d, queue[count - 1], TN_COPY_TO_HOST, back, 0, r->marks,
                                   (uint64_t)(count - 1) * RIG_LINE, RIG_LINE));
  for (int i = 0; ok && i < RIG_LINE; i++) {
    ok = back[i] == 77;
    if (!ok)
      direct_fail(d, "a line that went through %u queues came back as %d, not 77", count, back[i]);
  }
}

static void check_queues_at_once(rig *r) {
  direct *d = r->d;
  void *queue[QUEUES], *event = rig_event(r);
  unsigned char back[RIG_LINE];
  direct_where(d, "%d queues at once", QUEUES);
  uint32_t count = make(d, direct_queue_create, "queue_create", queue, QUEUES, ENOUGH_QUEUES);
  if (event && direct_is_sound(d)) relay(r, queue, count, event, back);
  for (uint32_t i = 0; direct_is_sound(d) && i < count; i++)
    if (direct_ok(d, "queue_wait", direct_queue_wait(d, queue[i])))
      direct_queue_destroy(d, queue[i]);
}

static void check_queues_in_turn(rig *r) {
  direct *d = r->d;
  bool ok = true;
  direct_where(d, "queues made, used and destroyed, one after the other");
  for (uint32_t i = 0; ok && i < TURNS; i++) {
    void *queue = NULL;
    promise p;
    ok = direct_ok(d, "queue_create", direct_queue_create(d, &queue)) &&
         rig_promise(r, queue, &p) && direct_ok(d, "queue_wait", direct_queue_wait(d, queue)) &&
         rig_expect(r, p, "queue_wait returned");
    if (ok) direct_queue_destroy(d, queue);
  }
}

void check_many(direct *d, const check_options *o) {
  rig r;
  (void)o;
  void **event = calloc(EVENTS, sizeof *event);
  if (event && rig_make(d, &r)) {
    void *queue = rig_queue(&r);
    if (queue) check_events_at_once(&r, queue, event);
    if (direct_is_sound(d)) check_events_in_turn(&r, queue);
    if (direct_is_sound(d)) check_queues_at_once(&r);
    if (direct_is_sound(d)) check_queues_in_turn(&r);
    rig_free(&r);
  }
  free(event);
}
