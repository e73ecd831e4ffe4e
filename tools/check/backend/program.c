/*
 * Programs drawn from a seed: copies of all directions over a few queues, ordered by events and
 * waits wherever two of them touch the same memory, and by nothing else. A model that does the
 * same one step after the other says what memory must hold. Vector clocks say what is ordered
 * (Fidge 1988, Mattern 1989): a step whose memory is not, is preceded by what orders it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "rig.h"

enum {
  QUEUES = 4,
  REGIONS = 10,
  PINNED = 4, /* the last of them lie in host memory, pinned where there is some */
  BYTES = 6000,
  STEPS = 150,
  PROGRAMS = 3,
  SHOWN = 8
};
static const uint64_t WORKED_NS = 120000000; /* of a program's time, at the most */

/* Steps of every queue that come before a point. */
typedef struct clocks {
  uint32_t of[QUEUES];
} clocks;

typedef struct region {
  unsigned char *model;
  unsigned char *host;                  /* of pinned ones */
  uint64_t offset;                      /* in device memory, of the others */
  uint32_t writer, written, write_step; /* queue, its step, and the program's; 0: nobody */
  clocks readers;                       /* the last step of every queue that read it */
} region;

typedef struct program {
  rig *r;
  void *memory; /* of all regions on the device */
  void *queue[QUEUES], *event[QUEUES];
  uint32_t num_queues;
  uint64_t state, seed;
  clocks queues[QUEUES], host;
  clocks event_at[QUEUES];
  region region[REGIONS];
  uint64_t worked_ns;
  uint32_t steps;
  char text[STEPS * 4][64];
} program;

static uint32_t below(program *p, uint32_t n) { return (uint32_t)(direct_random(&p->state) % n); }

static bool is_pinned(uint32_t which) { return which >= REGIONS - PINNED; }

/* Remembers a step for people, and where slots fail. */
static void step(program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void step(program *p, const char *format, ...) {
  char *text = p->text[p->steps++ % (STEPS * 4)];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof p->text[0], format, list);
  va_end(list);
  direct_where(p->r->d, "program of seed %llu, step %u: %s", (unsigned long long)p->seed, p->steps,
               text);
}

/* ------------------------------------------------------------------ ordering --- */

static void join(clocks *to, const clocks *from) {
  for (int i = 0; i < QUEUES; i++)
    if (to->of[i] < from->of[i]) to->of[i] = from->of[i];
}

/* The host has waited: what it calls from now on comes behind that, in every queue. */
static void host_waited(program *p, const clocks *point) {
  join(&p->host, point);
  for (uint32_t q = 0; q < QUEUES; q++) join(&p->queues[q], &p->host);
}

static bool wait_queue(program *p, uint32_t q) {
  step(p, "queue_wait q%u", q);
  if (!direct_ok(p->r->d, "queue_wait", direct_queue_wait(p->r->d, p->queue[q]))) return false;
  host_waited(p, &p->queues[q]);
  return true;
}

/* Every queue has an event that is recorded again and again. */
static bool record(program *p, uint32_t q) {
  step(p, "event_record e%u q%u", q, q);
  p->event_at[q] = p->queues[q];
  return direct_ok(p->r->d, "event_record", direct_event_record(p->r->d, p->event[q], p->queue[q]));
}

/* Asks now and then whether it has passed, and believes it. */
static bool wait_event(program *p, uint32_t e) {
  direct *d = p->r->d;
  if (below(p, 2)) {
    step(p, "event_query e%u", e);
    tn_status status = direct_event_query(d, p->event[e]);
    if (status == TN_OK) return host_waited(p, &p->event_at[e]), true;
    if (status != TN_ERR_NOT_READY) return direct_ok(d, "event_query", status);
  }
  step(p, "event_wait e%u", e);
  if (!direct_ok(d, "event_wait", direct_event_wait(d, p->event[e]))) return false;
  host_waited(p, &p->event_at[e]);
  return true;
}

/* Makes later work of queue q come behind what queue `other` has been given. */
static bool order(program *p, uint32_t q, uint32_t other) {
  uint32_t how = below(p, 8);
  if (how == 0) return wait_queue(p, other);
  if (!record(p, other)) return false;
  if (how < 3) return wait_event(p, other);
  step(p, "queue_wait_event q%u e%u", q, other);
  join(&p->queues[q], &p->event_at[other]);
  return direct_ok(p->r->d, "queue_wait_event",
                   direct_queue_wait_event(p->r->d, p->queue[q], p->event[other]));
}

/* Behind the region's last writer and, to write it, behind its readers. */
static bool make_safe(program *p, uint32_t q, const region *x, bool writes) {
  if (x->written > p->queues[q].of[x->writer] && !order(p, q, x->writer)) return false;
  for (uint32_t other = 0; writes && other < p->num_queues; other++)
    if (x->readers.of[other] > p->queues[q].of[other] && !order(p, q, other)) return false;
  return true;
}

/* --------------------------------------------------------------------- steps --- */

static void note_access(program *p, uint32_t q, region *from, region *to) {
  uint32_t now = ++p->queues[q].of[q];
  if (from) from->readers.of[q] = now;
  if (to) to->writer = q, to->written = now, to->write_step = p->steps;
}

static bool work(program *p, uint32_t q) {
  if (p->worked_ns > WORKED_NS) return true;
  step(p, "long copies q%u", q);
  p->worked_ns += p->r->work_ns;
  return rig_work(p->r, p->queue[q], 1);
}

/* Between two regions, of which one at least is the device's. */
static bool copy(program *p) {
  uint32_t q = below(p, p->num_queues), a = below(p, REGIONS), b = below(p, REGIONS);
  if (a == b || (is_pinned(a) && is_pinned(b))) return true;
  region *from = &p->region[a], *to = &p->region[b];
  uint32_t bytes = 1 + below(p, BYTES), at = below(p, BYTES - bytes + 1),
           put = below(p, BYTES - bytes + 1);
  uint32_t direction = is_pinned(a)   ? TN_COPY_TO_DEVICE
                       : is_pinned(b) ? TN_COPY_TO_HOST
                                      : TN_COPY_ON_DEVICE;
  if (!make_safe(p, q, from, false) || !make_safe(p, q, to, true)) return false;
  step(p, "copy q%u r%u+%u to r%u+%u, %u bytes", q, a, at, b, put, bytes);
  memcpy(to->model + put, from->model + at, bytes);
  note_access(p, q, from, to);
  return direct_ok(p->r->d, "copy",
                   direct_copy(p->r->d, p->queue[q], direction, is_pinned(b) ? to->host : p->memory,
                               to->offset + put, is_pinned(a) ? from->host : p->memory,
                               from->offset + at, bytes));
}

/* New numbers, from memory that is someone else's as soon as the call returns. */
static bool upload(program *p) {
  uint32_t q = below(p, p->num_queues), b = below(p, REGIONS - PINNED);
  unsigned char bytes[BYTES];
  region *to = &p->region[b];
  if (!make_safe(p, q, to, true)) return false;
  for (int i = 0; i < BYTES; i++) to->model[i] = bytes[i] = (unsigned char)direct_random(&p->state);
  step(p, "copy q%u from pageable memory to r%u", q, b);
  note_access(p, q, NULL, to);
  bool ok = direct_ok(
      p->r->d, "copy",
      direct_copy(p->r->d, p->queue[q], TN_COPY_TO_DEVICE, p->memory, to->offset, bytes, 0, BYTES));
  memset(bytes, 0, sizeof bytes);
  return ok;
}

/* The steps that led to where the region was written last. */
static void tell(program *p, uint32_t which, uint32_t byte, unsigned found, unsigned wanted) {
  char steps[SHOWN * 66] = "";
  size_t used = 0;
  uint32_t last = p->region[which].write_step ? p->region[which].write_step : p->steps;
  for (uint32_t i = last > SHOWN ? last - SHOWN : 0; i < last; i++)
    used += (size_t)snprintf(steps + used, sizeof steps - used, "%s%s", used ? "; " : "",
                             p->text[i % (STEPS * 4)]);
  direct_where(p->r->d, "program of seed %llu", (unsigned long long)p->seed);
  direct_fail(p->r->d, "r%u holds %u at byte %u, not %u; written in step %u of: %s", which, found,
              byte, wanted, last, steps);
}

static bool agrees(program *p, uint32_t which, const unsigned char *found) {
  const region *x = &p->region[which];
  for (uint32_t i = 0; i < BYTES; i++) {
    if (found[i] == x->model[i]) continue;
    tell(p, which, i, found[i], x->model[i]);
    return false;
  }
  return true;
}

/* To pageable memory: it is there when the call returns, and with it all of the queue's work. */
static bool download(program *p, uint32_t q, uint32_t which) {
  region *x = &p->region[which];
  unsigned char bytes[BYTES];
  if (!make_safe(p, q, x, false)) return false;
  step(p, "copy q%u r%u to pageable memory", q, which);
  note_access(p, q, x, NULL);
  bool ok = direct_ok(
      p->r->d, "copy",
      direct_copy(p->r->d, p->queue[q], TN_COPY_TO_HOST, bytes, 0, p->memory, x->offset, BYTES));
  if (ok) host_waited(p, &p->queues[q]);
  return ok && agrees(p, which, bytes);
}

/* The host itself looks at a pinned region, and writes it anew. */
static bool look(program *p, uint32_t which) {
  region *x = &p->region[which];
  if (x->written > p->host.of[x->writer] && (!record(p, x->writer) || !wait_event(p, x->writer)))
    return false;
  if (!agrees(p, which, x->host)) return false;
  for (uint32_t q = 0; q < p->num_queues; q++)
    if (x->readers.of[q] > p->host.of[q] && (!record(p, q) || !wait_event(p, q))) return false;
  step(p, "the host writes r%u", which);
  for (int i = 0; i < BYTES; i++)
    x->model[i] = x->host[i] = (unsigned char)direct_random(&p->state);
  x->written = 0;
  x->write_step = p->steps;
  return true;
}

static bool one_step(program *p) {
  uint32_t what = below(p, 16);
  if (what == 0) return work(p, below(p, p->num_queues));
  if (what == 1) return upload(p);
  if (what == 2) return download(p, below(p, p->num_queues), below(p, REGIONS - PINNED));
  if (what == 3) return look(p, REGIONS - PINNED + below(p, PINNED));
  return copy(p);
}

/* ------------------------------------------------------------------ programs --- */

static bool take(program *p) {
  direct *d = p->r->d;
  if (!direct_ok(d, "alloc",
                 direct_alloc(d, TN_MEMORY_DEVICE, (size_t)REGIONS * BYTES, &p->memory)))
    return false;
  for (uint32_t i = 0; i < REGIONS; i++) {
    region *x = &p->region[i];
    x->model = calloc(1, BYTES);
    if (!x->model) return direct_note(d, "not checked: no host memory"), false;
    if (is_pinned(i)) {
      if (!(x->host = rig_host(p->r, BYTES))) return false;
    } else {
      x->offset = (uint64_t)i * BYTES;
    }
  }
  for (int i = 0; i < QUEUES; i++)
    if (!(p->queue[i] = rig_queue(p->r)) || !(p->event[i] = rig_event(p->r))) return false;
  return true;
}

static void give(program *p) {
  direct *d = p->r->d;
  for (uint32_t i = 0; i < REGIONS; i++) free(p->region[i].model);
  if (p->memory && direct_is_sound(d)) direct_free(d, TN_MEMORY_DEVICE, p->memory);
}

static bool run(program *p, uint64_t seed) {
  bool ok = true;
  p->seed = p->state = seed;
  p->steps = 0;
  p->worked_ns = 0;
  p->num_queues = 2 + below(p, QUEUES - 1);
  for (uint32_t i = 0; ok && i < REGIONS - PINNED; i++) { /* so that all is known */
    region *x = &p->region[i];
    memset(x->model, (int)i + 1, BYTES);
    ok = direct_ok(p->r->d, "copy",
                   direct_copy(p->r->d, p->queue[0], TN_COPY_TO_DEVICE, p->memory, x->offset,
                               x->model, 0, BYTES));
  }
  ok = ok && wait_queue(p, 0);
  for (int i = 0; ok && i < STEPS; i++) ok = one_step(p);
  for (uint32_t i = 0; ok && i < REGIONS; i++)
    ok = is_pinned(i) ? look(p, i) : download(p, below(p, p->num_queues), i);
  for (uint32_t q = 0; ok && q < QUEUES; q++) ok = wait_queue(p, q);
  return ok;
}

void check_program(direct *d, const check_options *o) {
  rig r;
  (void)o;
  if (!rig_make(d, &r)) return;
  program *p = calloc(1, sizeof *p);
  bool ok = p != NULL;
  if (ok) p->r = &r;
  ok = ok && take(p);
  for (uint64_t i = 0; ok && i < PROGRAMS; i++) ok = run(p, d->seed * PROGRAMS + i + 1);
  rig_free(&r);
  if (p) give(p);
  free(p);
}
