/*
 * The time that a device took for each call, by two events of its backend round the kernel.
 *
 * Nothing waits for them: calls whose time is not known yet queue up on their lane, and the
 * lane is looked through every so many calls, when the host waits for the stream, and at the
 * end. A device's clock is tied to the host's by an anchor, an event of which both times are
 * known. It is set anew now and then while a stream is idle, since clocks drift apart and
 * event_elapsed of some devices loses digits over long spans. A call keeps the anchor that
 * was valid when it was begun, so that no span is negative.
 */
#include <string.h>

#include "trace.h"

enum {
  LOOK_EVERY = 64,     /* calls */
  MOST_PENDING = 8192, /* calls of one lane */
  ANCHOR_TRIES = 5,
};
static const uint64_t anchor_age_ns = 1000000000;

typedef struct anchor {
  void *events[2]; /* the first is the anchor, the other was tried beside it */
  uint64_t host_ns;
  uint32_t users; /* the device and the samples that hold it */
} anchor;

typedef struct sample {
  struct sample *next;
  void *events[2]; /* before and behind the kernel */
  anchor *anchor;
  uint64_t asked_ns; /* before the first event was recorded */
  row *row;
  span call;
} sample;

/* Everything below that is static expects the device's lock to be held. */

static bool events_make(const device *d, void *events[2]) {
  if (d->backend->event_create(d->handle, &events[0])) return false;
  if (d->backend->event_create(d->handle, &events[1]) == TN_OK) return true;
  d->backend->event_destroy(d->handle, events[0]);
  return false;
}

static void events_free(const device *d, void *events[2]) {
  d->backend->event_destroy(d->handle, events[0]);
  d->backend->event_destroy(d->handle, events[1]);
}

/* --- anchors --- */

/* When the event passed, as well as the host can tell: in the middle of the time in doubt. */
static bool sound(const lane *l, void *event, uint64_t *host_ns, uint64_t *doubt_ns) {
  const device *d = l->device;
  uint64_t before = now_ns();
  if (d->backend->event_record(d->handle, event, l->queue)) return false;
  if (d->backend->event_wait(d->handle, event)) return false;
  *doubt_ns = now_ns() - before;
  *host_ns = before + *doubt_ns / 2;
  return true;
}

/* The best of some tries: whatever delays the answer puts its time in doubt. */
static bool settle(const lane *l, anchor *a) {
  uint64_t least = UINT64_MAX, at, doubt;
  for (int i = 0; i < ANCHOR_TRIES; ++i) {
    if (!sound(l, a->events[1], &at, &doubt)) return false;
    if (doubt >= least) continue;
    void *better = a->events[1];
    a->events[1] = a->events[0];
    a->events[0] = better;
    a->host_ns = at;
    least = doubt;
  }
  return true;
}

static void anchor_drop(const trace *t, const device *d, anchor *a) {
  if (!a || --a->users) return;
  events_free(d, a->events);
  t->host->free(t->host, a);
}

static void anchor_set(const trace *t, const lane *l) {
  device *d = l->device;
  anchor *a = t->host->alloc(t->host, sizeof *a, 16);
  if (!a) return;
  *a = (anchor){.users = 1};
  if (!events_make(d, a->events)) {
    t->host->free(t->host, a);
    return;
  }
  if (!settle(l, a)) {
    anchor_drop(t, d, a);
    return;
  }
  anchor_drop(t, d, d->anchor);
  d->anchor = a;
}

/* --- samples --- */

static sample *sample_take(const trace *t, device *d) {
  sample *s = d->spare;
  if (s) {
    d->spare = s->next;
    return s;
  }
  s = t->host->alloc(t->host, sizeof *s, 16);
  if (s && !events_make(d, s->events)) {
    t->host->free(t->host, s);
    return NULL;
  }
  return s;
}

static void sample_give(const trace *t, device *d, sample *s) {
  anchor_drop(t, d, s->anchor);
  s->next = d->spare;
  d->spare = s;
}

static sample *begin_sample(const trace *t, const lane *l) {
  device *d = l->device;
  if (!d->anchor) anchor_set(t, l);
  sample *s = d->anchor ? sample_take(t, d) : NULL;
  if (!s) return NULL;
  s->anchor = d->anchor;
  ++s->anchor->users;
  s->asked_ns = now_ns();
  if (d->backend->event_record(d->handle, s->events[0], l->queue) == TN_OK) return s;
  sample_give(t, d, s);
  return NULL;
}

sample *timing_begin(trace *t, lane *l) {
  pthread_mutex_lock(&l->device->lock);
  sample *s = begin_sample(t, l);
  pthread_mutex_unlock(&l->device->lock);
  return s;
}

void timing_abandon(trace *t, lane *l, sample *s) {
  pthread_mutex_lock(&l->device->lock);
  sample_give(t, l->device, s);
  pthread_mutex_unlock(&l->device->lock);
}

/* --- collecting --- */

/* When the first event passed, by the host's clock. It cannot have been before it was asked for:
 * an anchor by which it seems so was taken too early. */
static uint64_t begin_of(const sample *s, uint64_t since_anchor) {
  uint64_t begin = s->anchor->host_ns + since_anchor;
  if (begin >= s->asked_ns) return begin;
  s->anchor->host_ns += s->asked_ns - begin;
  return s->asked_ns;
}

/* A kernel runs from when it is handed out and the one before it on the lane has ended, though
 * its first event may have passed before: threads may mix their calls on one stream. */
static void resolve(trace *t, lane *l, const sample *s) {
  uint64_t since_anchor, ns;
  const device *d = l->device;
  tn_status (*const elapsed)(void *, void *, void *, uint64_t *) = d->backend->event_elapsed;
  if (elapsed(d->handle, s->events[0], s->events[1], &ns)) return;
  if (elapsed(d->handle, s->anchor->events[0], s->events[0], &since_anchor)) return;
  uint64_t begin = begin_of(s, since_anchor), end = begin + ns;
  if (begin < s->call.begin_ns) begin = s->call.begin_ns;
  if (begin < l->end_ns) begin = l->end_ns;
  if (end < begin) end = begin;
  l->end_ns = end;
  row_timed(s->row, end - begin);
  slice_kernel(t, s->row, l, &s->call, begin, end - begin);
}

static void collect_first(trace *t, lane *l) {
  sample *s = l->first;
  l->first = s->next;
  --l->pending;
  resolve(t, l, s);
  sample_give(t, l->device, s);
}

/* Work of a stream ends in order: once the last is done all are. */
static void collect(trace *t, lane *l) {
  const device *d = l->device;
  if (!l->first) return;
  bool all = d->backend->event_query(d->handle, l->last->events[1]) == TN_OK;
  while (l->first && (all || !d->backend->event_query(d->handle, l->first->events[1])))
    collect_first(t, l);
}

void timing_end(trace *t, lane *l, sample *s, row *r, const span *call) {
  device *d = l->device;
  pthread_mutex_lock(&d->lock);
  if (d->backend->event_record(d->handle, s->events[1], l->queue)) {
    sample_give(t, d, s);
  } else {
    s->next = NULL;
    s->row = r;
    s->call = *call;
    if (l->first)
      l->last->next = s;
    else
      l->first = s;
    l->last = s;
    if (++l->pending >= MOST_PENDING) (void)d->backend->event_wait(d->handle, l->first->events[1]);
    if (++l->unlooked % LOOK_EVERY == 0 || l->pending >= MOST_PENDING) collect(t, l);
  }
  pthread_mutex_unlock(&d->lock);
}

void timing_waited(trace *t, lane *l) {
  device *d = l->device;
  pthread_mutex_lock(&d->lock);
  collect(t, l);
  if (!l->first && d->anchor && now_ns() - d->anchor->host_ns > anchor_age_ns) anchor_set(t, l);
  pthread_mutex_unlock(&d->lock);
}

/* A device that was lost answers no more: its calls stay without a time. */
void timing_finish(trace *t, lane *l) {
  device *d = l->device;
  pthread_mutex_lock(&d->lock);
  if (l->first) (void)d->backend->event_wait(d->handle, l->last->events[1]);
  collect(t, l);
  while (l->first) {
    sample *s = l->first;
    l->first = s->next;
    sample_give(t, d, s);
  }
  pthread_mutex_unlock(&d->lock);
}

void timing_close(trace *t, device *d) {
  pthread_mutex_lock(&d->lock);
  for (sample *s = d->spare, *next; s; s = next) {
    next = s->next;
    events_free(d, s->events);
    t->host->free(t->host, s);
  }
  anchor_drop(t, d, d->anchor);
  d->spare = NULL;
  d->anchor = NULL;
  pthread_mutex_unlock(&d->lock);
}
