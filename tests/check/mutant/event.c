/* Events: each holds the point of its latest record. One that never was recorded has passed. */
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mutant.h"

typedef struct mutant_event {
  pthread_mutex_t lock;
  mutant_point *latest;
  /* of the latest record, for faults */
  uint64_t queue_number, recorded_ns;
} mutant_event;

static mutant_fault fault_of(void *device) { return ((mutant_device *)device)->fault; }

tn_status mutant_event_create(void *device, void **event) {
  mutant_device *d = device;
  if (d->fault == FAULT_EVENTS_RUN_OUT && atomic_fetch_add(&d->events, 1) >= 2000)
    return d->host->fail(TN_ERR_BACKEND, "no event is left");
  mutant_event *e = calloc(1, sizeof *e);
  if (!e) return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for an event");
  pthread_mutex_init(&e->lock, NULL);
  *event = e;
  return TN_OK;
}

void mutant_event_destroy(void *device, void *event) {
  mutant_event *e = event;
  const mutant_fault fault = fault_of(device);
  if (fault == FAULT_EVENT_DESTROY_PASSES && e->latest) mutant_point_pass(e->latest);
  if (fault == FAULT_EVENT_DESTROY_DROPS && e->latest &&
      !mutant_point_passed(e->latest, false, NULL))
    atomic_fetch_add(&((mutant_device *)device)->dropped, 1);
  mutant_point_drop(e->latest);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

/* The point of the latest record, to be dropped. */
static mutant_point *latest_of(mutant_event *e) {
  pthread_mutex_lock(&e->lock);
  mutant_point *p = mutant_point_share(e->latest);
  pthread_mutex_unlock(&e->lock);
  return p;
}

/* The point is passed by whoever reaches it, but for faults. */
static tn_status put_point(mutant_device *d, mutant_queue *queue, mutant_point *p, bool again) {
  if (d->fault == FAULT_RECORD_ELSEWHERE && d->newest) queue = d->newest;
  if (d->fault == FAULT_RECORD_SHARED_STATE) {
    atomic_store(&d->noted, queue);
    usleep(20);
    queue = atomic_load(&d->noted);
  }
  if (d->fault == FAULT_RECORD_AT_ONCE) mutant_point_pass(p);
  if (d->fault == FAULT_RECORD_AT_ONCE || d->fault == FAULT_RECORD_NEVER_PASSES) return TN_OK;
  if (d->fault == FAULT_RECORD_STUCK_AGAIN && again) return TN_OK;
  return mutant_put(queue, (mutant_work){.pass = p});
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tn_status mutant_event_record(void *device, void *event, void *queue) {
  mutant_event *e = event;
  mutant_device *d = device;
  if (d->fault == FAULT_RECORD_NOTHING || (d->fault == FAULT_RECORD_ONCE && e->latest))
    return TN_OK;
  if (d->fault == FAULT_RECORD_CRASHES && e->latest) raise(SIGSEGV);
  if (d->fault == FAULT_RECORD_PRINTS) puts("recorded");
  if (d->fault == FAULT_RECORD_ROUNDS) fesetround(FE_UPWARD);
  mutant_point *p = mutant_point_make();
  if (!p) return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for a record");
  tn_status status = put_point(d, queue, p, e->latest != NULL);
  pthread_mutex_lock(&e->lock);
  e->queue_number = mutant_queue_number(queue);
  e->recorded_ns = now_ns();
  mutant_point *before = e->latest;
  e->latest = status == TN_OK ? p : before;
  pthread_mutex_unlock(&e->lock);
  mutant_point_drop(status == TN_OK ? before : p);
  return status;
}

static bool passed(mutant_event *e, bool wait, uint64_t *time_ns) {
  mutant_point *p = latest_of(e);
  bool result = !p || mutant_point_passed(p, wait, time_ns);
  mutant_point_drop(p);
  return result;
}

tn_status mutant_event_query(void *device, void *event) {
  const mutant_device *d = device;
  if (d->fault == FAULT_QUERY_ALWAYS_OK) return TN_OK;
  if (d->fault == FAULT_QUERY_NEVER_OK) return TN_ERR_NOT_READY;
  if (passed(event, false, NULL)) return TN_OK;
  return d->fault == FAULT_QUERY_OTHER_STATUS ? d->host->fail(TN_ERR_BACKEND, "still at work")
                                              : TN_ERR_NOT_READY;
}

tn_status mutant_event_wait(void *device, void *event) {
  const mutant_fault fault = fault_of(device);
  if (fault == FAULT_EVENT_WAIT_RETURNS) return TN_OK;
  if (fault == FAULT_EVENT_WAIT_BOUNDED) usleep(1000);
  passed(event, fault != FAULT_EVENT_WAIT_BOUNDED, NULL);
  return TN_OK;
}

static void run_wait(const void *params) {
  mutant_event *e;
  memcpy(&e, params, sizeof e);
  passed(e, true, NULL);
}

/* What becomes of a wait where a fault is planted; false: what should. */
static bool wait_badly(mutant_fault fault, mutant_queue *queue, mutant_event *e, mutant_point *p) {
  if (fault == FAULT_WAIT_EVENT_LIVE)
    return mutant_put(queue, (mutant_work){run_wait, &e, sizeof e, NULL, NULL}), true;
  if (fault == FAULT_WAIT_EVENT_EDGE && p && mutant_point_passed(p, false, NULL)) {
    mutant_point *never = mutant_point_make();
    mutant_put(queue, (mutant_work){.wait = never});
    return mutant_point_drop(never), true;
  }
  if (fault == FAULT_WAIT_EVENT_LATE && p) return mutant_put_late(queue, p), true;
  return fault == FAULT_WAIT_EVENT_NOTHING ||
         (fault == FAULT_WAIT_EVENT_ONE_WAY && mutant_queue_number(queue) < e->queue_number);
}

tn_status mutant_queue_wait_event(void *device, void *queue, void *event) {
  mutant_point *p = latest_of(event);
  if (wait_badly(fault_of(device), queue, event, p)) {
    mutant_point_drop(p);
    return TN_OK;
  }
  tn_status status = p ? mutant_put(queue, (mutant_work){.wait = p}) : TN_OK;
  mutant_point_drop(p);
  return status;
}

tn_status mutant_event_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  uint64_t from = 0, to = 0;
  const mutant_fault fault = fault_of(device);
  if (!passed(begin, false, &from) || !passed(end, false, &to)) return TN_ERR_NOT_READY;
  *ns = to > from ? to - from : 0;
  if (fault == FAULT_ELAPSED_ZERO) *ns = 0;
  if (fault == FAULT_ELAPSED_MICROSECONDS) *ns /= 1000;
  if (fault == FAULT_ELAPSED_REVERSED) *ns = from - to;
  if (fault == FAULT_ELAPSED_AT_RECORD)
    *ns = ((mutant_event *)end)->recorded_ns - ((mutant_event *)begin)->recorded_ns;
  return TN_OK;
}
