/* Events: each holds the point of its latest record. One that never was recorded has passed. */
#include <stdlib.h>

#include "mutant.h"

typedef struct mutant_event {
  pthread_mutex_t lock;
  mutant_point *latest;
} mutant_event;

tn_status mutant_event_create(void *device, void **event) {
  mutant_event *e = calloc(1, sizeof *e);
  if (!e)
    return ((mutant_device *)device)->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for an event");
  pthread_mutex_init(&e->lock, NULL);
  *event = e;
  return TN_OK;
}

void mutant_event_destroy(void *device, void *event) {
  mutant_event *e = event;
  (void)device;
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

tn_status mutant_event_record(void *device, void *event, void *queue) {
  mutant_event *e = event;
  mutant_point *p = mutant_point_make();
  if (!p)
    return ((mutant_device *)device)->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for a record");
  tn_status status = mutant_put(queue, (mutant_work){.pass = p});
  pthread_mutex_lock(&e->lock);
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
  (void)device;
  return passed(event, false, NULL) ? TN_OK : TN_ERR_NOT_READY;
}

tn_status mutant_event_wait(void *device, void *event) {
  (void)device;
  passed(event, true, NULL);
  return TN_OK;
}

tn_status mutant_queue_wait_event(void *device, void *queue, void *event) {
  mutant_point *p = latest_of(event);
  (void)device;
  tn_status status = p ? mutant_put(queue, (mutant_work){.wait = p}) : TN_OK;
  mutant_point_drop(p);
  return status;
}

tn_status mutant_event_elapsed(void *device, void *begin, void *end, uint64_t *ns) {
  uint64_t from = 0, to = 0;
  (void)device;
  if (!passed(begin, false, &from) || !passed(end, false, &to)) return TN_ERR_NOT_READY;
  *ns = to > from ? to - from : 0;
  return TN_OK;
}
