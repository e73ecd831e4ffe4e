/* Events of one queue or two: they pass when the work before them is done, not sooner and not
 * with what comes behind them, as often as they are recorded; and they tell time. */
#include "backend.h"
#include "rig.h"

enum { ROUNDS = 3, ATTEMPTS = 7 };

static bool record(rig *r, void *event, void *queue) {
  return direct_ok(r->d, "event_record", direct_event_record(r->d, event, queue));
}

static bool wait_for(rig *r, void *event) {
  return direct_ok(r->d, "event_wait", direct_event_wait(r->d, event));
}

/* Whether it has passed; *ok: the slot gave one of its two answers. */
static bool has_passed(rig *r, void *event, bool *ok) {
  tn_status status = direct_event_query(r->d, event);
  *ok = status == TN_OK || status == TN_ERR_NOT_READY;
  if (!*ok) (void)direct_ok(r->d, "event_query", status);
  return status == TN_OK;
}

/* Asks until it has passed. */
static bool poll(rig *r, void *event, uint64_t most_ns, const char *after) {
  const uint64_t began = direct_now();
  bool ok;
  while (!has_passed(r, event, &ok) && ok) {
    if (direct_now() - began > most_ns) {
      direct_fail(r->d, "event_query said TN_ERR_NOT_READY for %.1f s %s", (double)most_ns / 1e9,
                  after);
      return false;
    }
    direct_sleep_us(50);
  }
  return ok;
}

/* Nothing else is called: an event passes by itself. */
static void check_idle(rig *r, void *queue, void *event) {
  direct_where(r->d, "an event on an empty queue");
  if (!record(r, event, queue)) return;
  if (!poll(r, event, r->d->limit_ns, "after event_record on an empty queue")) return;
  if (wait_for(r, event)) (void)poll(r, event, 1000000000, "after event_wait returned");
}

/* The event is recorded again and again, in every round behind more work. */
static void check_query(rig *r, void *queue, void *event) {
  for (int i = 1; i <= ROUNDS && direct_is_sound(r->d); i++) {
    promise p;
    bool ok, passed;
    direct_where(r->d, "an event behind work, recorded for the %d. time", i + 1);
    if (!rig_delayed(r, queue, &p) || !record(r, event, queue)) return;
    do {
      passed = has_passed(r, event, &ok);
      if (passed && !rig_expect(r, p, "event_query said TN_OK")) return;
      direct_sleep_us(10);
    } while (ok && !passed && !rig_kept(r, p));
    if (!ok || !poll(r, event, r->d->limit_ns, "though the work before the event is done")) return;
  }
}

static void check_wait(rig *r, void *queue, void *event) {
  for (int i = 1; i <= ROUNDS && direct_is_sound(r->d); i++) {
    promise p;
    direct_where(r->d, "an event behind work, waited for the %d. time", i);
    if (!rig_delayed(r, queue, &p) || !record(r, event, queue) || !wait_for(r, event)) return;
    if (rig_expect(r, p, "event_wait returned"))
      (void)poll(r, event, 1000000000, "after event_wait returned");
  }
}

/* An event that passed stays so while others do not, until it is recorded again. */
static void check_passed(rig *r, void *queue, void *event) {
  promise p;
  bool ok;
  direct_where(r->d, "an event that has passed, with later work behind it");
  if (!record(r, event, queue) || !wait_for(r, event) || !rig_delayed(r, queue, &p)) return;
  if (!has_passed(r, event, &ok) && ok)
    direct_fail(r->d, "event_query said TN_ERR_NOT_READY after event_wait returned");
  if (ok) (void)direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue));
}

/* What was seen of an event while the work behind it went on. */
typedef struct place {
  bool passed;
  int pending; /* looks that found it pending, with the work before it known to be done */
} place;

/* A process may be kept from looking for as long as the work goes on: then it has seen nothing. */
static bool look_at_place(rig *r, void *queue, void *event, uint32_t times, place *seen) {
  promise before, behind;
  bool reached = false, passed = false, ended = false;
  bool ok = rig_delayed(r, queue, &before) && record(r, event, queue) &&
            rig_work(r, queue, times) && rig_promise(r, queue, &behind);
  *seen = (place){0};
  while (ok && !passed && !ended) {
    passed = has_passed(r, event, &ok);
    ended = rig_kept(r, behind);
    seen->passed = passed && !ended;
    seen->pending += reached && !passed && !ended;
    reached = reached || rig_kept(r, before);
    direct_sleep_us(10);
  }
  return ok && direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue));
}

/* Several chances, with ever more work behind the event. That it did not pass must have been seen
 * in most of them, and for longer than it takes to come from one piece of work to the next. */
static void check_place(rig *r, void *queue, void *event) {
  enum { LOOKS = 10 };
  static const uint64_t MOST_NS = 500000000;
  int late = 0;
  uint32_t times = 1;
  place seen;
  direct_where(r->d, "an event before long work of its queue");
  if (r->work_ns < 2000000) return;
  for (int i = 0; i < ATTEMPTS; i++) {
    if (!look_at_place(r, queue, event, times, &seen) || seen.passed) return;
    late += seen.pending >= LOOKS;
    if (2 * times * r->work_ns <= MOST_NS) times *= 2;
  }
  if (2 * late > ATTEMPTS)
    direct_fail(r->d,
                "event_record marks later work too: event_query did not say TN_OK before "
                "the work behind the event had ended, %d times of %d",
                late, ATTEMPTS);
  else
    direct_note(r->d, "not seen whether events pass before later work ends: too much else runs");
}

/* Recorded on a queue at work and then on an idle one: the last place counts. */
static void check_moved(rig *r, void *queue, void *event) {
  void *idle = rig_queue(r);
  promise busy, p;
  direct_where(r->d, "an event of an idle queue, recorded again on one at work");
  if (!idle || !record(r, event, idle) || !wait_for(r, event)) return;
  if (!rig_delayed(r, queue, &p) || !record(r, event, queue) || !wait_for(r, event)) return;
  if (!rig_expect(r, p, "event_wait returned")) return;
  direct_where(r->d, "an event of a queue at work, recorded again on an idle one");
  if (!rig_delayed(r, queue, &busy) || !record(r, event, queue)) return;
  if (!rig_promise(r, idle, &p) || !record(r, event, idle) || !wait_for(r, event)) return;
  if (rig_expect(r, p, "event_wait returned")) (void)rig_settle(r);
}

/* Destroyed before it passes: the queue goes on. */
static void check_destroyed(rig *r, void *queue, void *unused) {
  void *event = NULL;
  promise p;
  (void)unused;
  direct_where(r->d, "an event destroyed before it passes");
  if (!direct_ok(r->d, "event_create", direct_event_create(r->d, &event))) return;
  if (!rig_delayed(r, queue, &p) || !record(r, event, queue)) return;
  direct_event_destroy(r->d, event);
  if (direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue)))
    (void)rig_expect(r, p, "queue_wait returned");
}

void check_events(direct *d, const check_options *o) {
  static void (*const parts[])(rig * r, void *queue, void *event) = {
      check_idle, check_query, check_wait, check_passed, check_place, check_moved, check_destroyed,
  };
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  void *queue = rig_queue(&r), *event = queue ? rig_event(&r) : NULL;
  for (size_t i = 0; event && i < sizeof parts / sizeof *parts && direct_is_sound(d); i++)
    parts[i](&r, queue, event);
  rig_free(&r);
}

/* --------------------------------------------------------------------- times --- */

/* What the host's clock says of the same stretch: between `least` and `most`. Clocks of devices
 * run a little differently, and have steps of a microsecond or two. */
static void judge(direct *d, uint64_t ns, uint64_t least, uint64_t most) {
  if ((double)ns >= 0.8 * (double)least - 1e5 && (double)ns <= 1.2 * (double)most + 1e6) return;
  direct_fail(d, "event_elapsed says %.4g ms, the host's clock between %.4g and %.4g ms",
              (double)ns / 1e6, (double)least / 1e6, (double)most / 1e6);
}

/* Records and waits; *before and *after are the host's time on either side. */
static bool stamp(rig *r, void *event, void *queue, uint64_t *before, uint64_t *after) {
  *before = direct_now();
  bool ok = record(r, event, queue) && wait_for(r, event);
  *after = direct_now();
  return ok;
}

static bool elapsed(rig *r, void *begin, void *end, uint64_t *ns) {
  *ns = UINT64_MAX;
  return direct_ok(r->d, "event_elapsed", direct_event_elapsed(r->d, begin, end, ns));
}

/* Three stamps with pauses, of one queue or of two. */
static void check_stamps(rig *r, void *queue, void *other, const uint64_t *pause_us) {
  void *event[3];
  uint64_t before[3], after[3], ns[3];
  for (int i = 0; i < 3; i++) {
    event[i] = rig_event(r);
    if (!event[i] || !stamp(r, event[i], i == 1 ? other : queue, &before[i], &after[i])) return;
    if (i < 2) direct_sleep_us(pause_us[i]);
  }
  for (int i = 0; i < 3; i++) { /* first to second, second to third, first to third */
    int from = i == 1, to = i == 0 ? 1 : 2;
    if (!elapsed(r, event[from], event[to], &ns[i])) return;
    judge(r->d, ns[i], before[to] - after[from], after[to] - before[from]);
  }
  double sum = (double)ns[0] + (double)ns[1], whole = (double)ns[2];
  if (direct_is_sound(r->d) && (whole < 0.95 * sum - 1e5 || whole > 1.05 * sum + 1e5))
    direct_fail(r->d, "event_elapsed says %.4g ms and %.4g ms, and %.4g ms for both",
                (double)ns[0] / 1e6, (double)ns[1] / 1e6, whole / 1e6);
}

/* Work between two events takes as long as it takes the host to see it end, at the most, and at
 * least until event_query last said that it goes on. */
static void check_work(rig *r, void *queue, uint32_t times) {
  void *begin = rig_event(r), *end = rig_event(r);
  uint64_t before, after, ended, ns;
  direct_where(r->d, "two events with work between, %u. time", times);
  if (!begin || !end || !stamp(r, begin, queue, &before, &after)) return;
  direct_sleep_us(5000);
  uint64_t least = direct_now() - after;
  bool ok = rig_work(r, queue, times) && record(r, end, queue);
  const uint64_t began = direct_now();
  for (bool passed = false; ok && !passed;) {
    uint64_t now = direct_now();
    if (now - began > r->d->limit_ns) break;
    passed = has_passed(r, end, &ok);
    if (!passed) least = now - after;
    direct_sleep_us(10);
  }
  if (!ok || !wait_for(r, end)) return;
  ended = direct_now();
  if (elapsed(r, begin, end, &ns)) judge(r->d, ns, least, ended - before);
}

void check_elapsed(direct *d, const check_options *o) {
  uint64_t state = d->seed;
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  void *queue = rig_queue(&r), *other = queue ? rig_queue(&r) : NULL;
  const uint64_t pause_us[2] = {10000 + direct_random(&state) % 10000,
                                30000 + direct_random(&state) % 10000};
  direct_where(d, "three events of one queue");
  if (other) check_stamps(&r, queue, queue, pause_us);
  direct_where(d, "events of two queues");
  if (other && direct_is_sound(d)) check_stamps(&r, queue, other, pause_us);
  for (uint32_t i = 1; other && i <= ROUNDS && direct_is_sound(d); i++) check_work(&r, queue, i);
  rig_free(&r);
}
