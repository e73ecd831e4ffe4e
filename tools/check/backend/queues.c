/* One queue: its work is done in order, and queue_wait waits for it. */
#include "backend.h"
#include "rig.h"

enum { ROUNDS = 3 };

static bool wait_for(rig *r, void *queue) {
  return direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue));
}

static void check_empty(rig *r, void *queue) {
  direct_where(r->d, "an empty queue");
  (void)(wait_for(r, queue) && wait_for(r, queue));
}

static void check_wait(rig *r, void *queue) {
  for (int i = 1; i <= ROUNDS && direct_is_sound(r->d); i++) {
    promise p;
    direct_where(r->d, "one queue at work, round %d", i);
    if (rig_delayed(r, queue, &p) && wait_for(r, queue))
      (void)rig_expect(r, p, "queue_wait returned");
  }
}

/* A line goes to the end of one buffer, the whole buffer to another, and from its end the line
 * comes back: a copy that overtakes one before it brings what was there in the round before. */
static bool put_relay(rig *r, void *queue, unsigned char value, unsigned char *to) {
  const uint64_t end = r->bytes - RIG_LINE;
  void *area = rig_area(r, queue);
  return rig_work(r, queue, 1) && rig_put_line(r, queue, r->from, end, value) &&
         direct_ok(r->d, "copy",
                   direct_copy(r->d, queue, TN_COPY_ON_DEVICE, area, 0, r->from, 0, r->bytes)) &&
         direct_ok(r->d, "copy",
                   direct_copy(r->d, queue, TN_COPY_TO_HOST, to, 0, area, end, RIG_LINE));
}

/* The lines come back to pinned memory where there is some, so that no call has to wait. */
static void check_order(rig *r, void *queue) {
  direct *d = r->d;
  uint64_t state = d->seed;
  direct_where(d, "copies of one queue that use each other's results");
  unsigned char *line = rig_host(r, (size_t)RIG_LINE * ROUNDS), value[ROUNDS];
  bool ok = line != NULL;
  for (int i = 0; ok && i < ROUNDS; i++) {
    value[i] = (unsigned char)(1 + 80 * i + (int)(direct_random(&state) % 80));
    ok = put_relay(r, queue, value[i], line + (ptrdiff_t)i * RIG_LINE);
  }
  if (!ok || !wait_for(r, queue)) return;
  for (int i = 0; i < ROUNDS; i++)
    for (int j = 0; ok && j < RIG_LINE; j++) {
      unsigned char found = line[i * RIG_LINE + j];
      ok = found == value[i];
      if (!ok)
        direct_fail(d, "copies of one queue out of order: round %d brought %d in place of %d",
                    i + 1, found, value[i]);
    }
}

/* From pageable memory that is overwritten at once, behind work and before more of it. */
static void check_pageable(rig *r, void *queue) {
  direct *d = r->d;
  unsigned char line[RIG_LINE], back[RIG_LINE];
  void *area = rig_area(r, queue);
  direct_where(d, "pageable memory behind a queue's work");
  for (int i = 0; i < RIG_LINE; i++) line[i] = (unsigned char)(7 * i + 1);
  bool ok =
      rig_work(r, queue, 1) &&
      direct_ok(d, "copy", direct_copy(d, queue, TN_COPY_TO_DEVICE, area, 64, line, 0, RIG_LINE));
  for (int i = 0; i < RIG_LINE; i++) line[i] = back[i] = 0;
  ok = ok &&
       direct_ok(d, "copy", direct_copy(d, queue, TN_COPY_TO_HOST, back, 0, area, 64, RIG_LINE));
  for (int i = 0; ok && i < RIG_LINE; i++) {
    ok = back[i] == (unsigned char)(7 * i + 1);
    if (!ok) direct_fail(d, "copy brought %d in place of %d", back[i], (unsigned char)(7 * i + 1));
  }
}

static void check_native(rig *r, void *queue) {
  direct *d = r->d;
  promise p;
  direct_where(d, "one queue, idle, at work and idle again");
  const void *idle = direct_queue_native(d, queue);
  if (!rig_delayed(r, queue, &p)) return;
  const void *at_work = direct_queue_native(d, queue);
  if (!wait_for(r, queue)) return;
  const void *again = direct_queue_native(d, queue);
  if (idle != at_work || idle != again)
    direct_fail(d, "queue_native gave %p, then %p, then %p for the same queue", idle, at_work,
                again);
}

/* A queue that goes leaves the work of another alone. */
static void check_neighbour(rig *r, void *queue) {
  direct *d = r->d;
  void *other = NULL;
  promise p;
  direct_where(d, "an idle queue is destroyed beside one at work");
  if (!direct_ok(d, "queue_create", direct_queue_create(d, &other))) return;
  if (!rig_delayed(r, queue, &p)) return;
  direct_queue_destroy(d, other);
  if (wait_for(r, queue)) (void)rig_expect(r, p, "queue_wait returned");
}

void check_queues(direct *d, const check_options *o) {
  static void (*const parts[])(rig * r, void *queue) = {
      check_empty, check_wait, check_order, check_pageable, check_native, check_neighbour};
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  void *queue = rig_queue(&r);
  for (size_t i = 0; queue && i < sizeof parts / sizeof *parts && direct_is_sound(d); i++)
    parts[i](&r, queue);
  rig_free(&r);
}
