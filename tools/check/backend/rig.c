/* Queues at work, and promises; see rig.h. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { VALUES = 256, COPIES = 2048 };
static const size_t MOST = (size_t)64 << 20, LEAST = (size_t)64 << 10;
static const uint64_t LITTLE_NS = 500000, WORK_NS = 8000000, ENOUGH_NS = 150000000;

/* ------------------------------------------------------------------- memory --- */

/* As much as there is, up to a sixteenth of the device's. */
static bool take_room(rig *r) {
  direct *d = r->d;
  size_t most = d->props.memory_bytes ? d->props.memory_bytes / 16 : MOST;
  for (r->bytes = most < MOST ? most : MOST; r->bytes >= LEAST; r->bytes /= 2) {
    r->bytes = r->bytes / RIG_LINE * RIG_LINE;
    if (direct_alloc(d, TN_MEMORY_DEVICE, r->bytes, &r->from)) continue;
    if (direct_alloc(d, TN_MEMORY_DEVICE, r->bytes, &r->to) == TN_OK) return true;
    direct_free(d, TN_MEMORY_DEVICE, r->from);
    r->from = NULL;
  }
  direct_note(d, "not checked: no device memory to work on: %s", direct_error());
  return false;
}

static bool take_memory(rig *r) {
  direct *d = r->d;
  const size_t marks = (size_t)RIG_PROMISES * RIG_LINE;
  void *seen = NULL;
  if (!take_room(r)) return false;
  bool ok = direct_ok(d, "alloc",
                      direct_alloc(d, TN_MEMORY_DEVICE, (size_t)VALUES * RIG_LINE, &r->lines)) &&
            direct_ok(d, "alloc", direct_alloc(d, TN_MEMORY_DEVICE, marks, &r->marks)) &&
            memory_take_pinned(&(memory_bench){.d = d}, marks, &seen);
  r->seen = seen;
  if (seen) memset(seen, 0, marks);
  return ok;
}

void *rig_host(rig *r, size_t bytes) {
  void *ptr = NULL;
  if (r->num_pieces == RIG_PIECES) return direct_fail(r->d, "tenon check: too few pieces"), NULL;
  if (!memory_take_pinned(&(memory_bench){.d = r->d}, bytes, &ptr)) return NULL;
  r->piece[r->num_pieces].pinned = ptr != NULL;
  if (!ptr) ptr = memory_of_host(bytes);
  r->piece[r->num_pieces++].ptr = ptr;
  return memset(ptr, 0, bytes);
}

static bool fill_lines(rig *r, void *queue) {
  static const unsigned char zeros[RIG_PROMISES * RIG_LINE];
  unsigned char lines[VALUES][RIG_LINE];
  for (int i = 0; i < VALUES; i++) memset(lines[i], i, RIG_LINE);
  return direct_ok(
             r->d, "copy",
             direct_copy(r->d, queue, TN_COPY_TO_DEVICE, r->lines, 0, lines, 0, sizeof lines)) &&
         direct_ok(
             r->d, "copy",
             direct_copy(r->d, queue, TN_COPY_TO_DEVICE, r->marks, 0, zeros, 0, sizeof zeros));
}

static void give_memory(rig *r) {
  direct *d = r->d;
  if (r->from) direct_free(d, TN_MEMORY_DEVICE, r->from);
  if (r->to) direct_free(d, TN_MEMORY_DEVICE, r->to);
  if (r->lines) direct_free(d, TN_MEMORY_DEVICE, r->lines);
  if (r->marks) direct_free(d, TN_MEMORY_DEVICE, r->marks);
  if (r->seen) direct_free(d, TN_MEMORY_PINNED, r->seen);
  for (uint32_t i = 0; i < r->num_queues; i++) direct_free(d, TN_MEMORY_DEVICE, r->area[i]);
  for (uint32_t i = 0; i < r->num_pieces; i++) {
    if (r->piece[i].pinned)
      direct_free(d, TN_MEMORY_PINNED, r->piece[i].ptr);
    else
      free(r->piece[i].ptr);
  }
}

/* --------------------------------------------------------- queues and events --- */

void *rig_queue(rig *r) {
  void *queue = NULL;
  void **area = &r->area[r->num_queues];
  if (!direct_ok(r->d, "alloc", direct_alloc(r->d, TN_MEMORY_DEVICE, r->bytes, area)) ||
      !direct_ok(r->d, "queue_create", direct_queue_create(r->d, &queue)))
    return NULL;
  return r->queue[r->num_queues++] = queue;
}

void *rig_event(rig *r) {
  void *event = NULL;
  if (!direct_ok(r->d, "event_create", direct_event_create(r->d, &event))) return NULL;
  return r->event[r->num_events++] = event;
}

bool rig_settle(rig *r) {
  for (uint32_t i = 0; i < r->num_queues; i++)
    if (!direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, r->queue[i]))) return false;
  return true;
}

void rig_free(rig *r) {
  if (!direct_is_sound(r->d) || !rig_settle(r)) return;
  for (uint32_t i = 0; i < r->num_events; i++) direct_event_destroy(r->d, r->event[i]);
  for (uint32_t i = 0; i < r->num_queues; i++) direct_queue_destroy(r->d, r->queue[i]);
  give_memory(r);
}

/* --------------------------------------------------------------------- work --- */

void *rig_area(const rig *r, const void *queue) {
  for (uint32_t i = 0; i < r->num_queues; i++)
    if (r->queue[i] == queue) return r->area[i];
  return r->to;
}

static bool put_copies(rig *r, void *queue, uint32_t copies) {
  void *to = rig_area(r, queue);
  for (uint32_t i = 0; i < copies; i++)
    if (!direct_ok(r->d, "copy",
                   direct_copy(r->d, queue, TN_COPY_ON_DEVICE, to, 0, r->from, 0, r->bytes)))
      return false;
  return true;
}

bool rig_work(rig *r, void *queue, uint32_t times) {
  return put_copies(r, queue, r->copies * times);
}

bool rig_put_line(rig *r, void *queue, void *memory, uint64_t offset, unsigned char value) {
  return direct_ok(r->d, "copy",
                   direct_copy(r->d, queue, TN_COPY_ON_DEVICE, memory, offset, r->lines,
                               (uint64_t)value * RIG_LINE, RIG_LINE));
}

bool rig_promise(rig *r, void *queue, promise *p) {
  uint32_t number = r->promises++;
  *p = (promise){number % RIG_PROMISES, (unsigned char)(1 + number % 251)};
  const uint64_t at = (uint64_t)p->slot * RIG_LINE;
  if (r->seen) memset(r->seen + at, 0, RIG_LINE);
  return rig_put_line(r, queue, r->marks, at, p->value) &&
         (r->side || direct_ok(r->d, "copy",
                               direct_copy(r->d, queue, TN_COPY_TO_HOST, r->seen + at, 0, r->marks,
                                           at, RIG_LINE)));
}

bool rig_delayed(rig *r, void *queue, promise *p) {
  return rig_work(r, queue, 1) && rig_promise(r, queue, p);
}

bool rig_kept(rig *r, promise p) {
  const uint64_t at = (uint64_t)p.slot * RIG_LINE;
  unsigned char line[RIG_LINE];
  if (r->side && direct_copy(r->d, r->side, TN_COPY_TO_HOST, line, 0, r->marks, at, RIG_LINE))
    return false;
  const volatile unsigned char *seen = r->side ? line : r->seen + at;
  for (int i = 0; i < RIG_LINE; i++)
    if (seen[i] != p.value) return false;
  return true;
}

/* Polls; how long it took, or `most_ns`. */
static uint64_t time_until_kept(rig *r, promise p, uint64_t most_ns) {
  uint64_t began = direct_now(), now = began;
  while (!rig_kept(r, p) && now - began < most_ns) {
    direct_sleep_us(20);
    now = direct_now();
  }
  return now - began;
}

bool rig_expect(rig *r, promise p, const char *what) {
  if (rig_kept(r, p)) return true;
  uint64_t late = time_until_kept(r, p, 1000000000);
  if (rig_kept(r, p))
    direct_fail(r->d, "%s, and the work before it ended %.1f ms later", what, (double)late / 1e6);
  else
    direct_fail(r->d, "%s, and the work before it was never done", what);
  return false;
}

/* How long `copies` go on in a queue when the calls that put them there have returned, as the
 * host's own eyes tell. The event is there for drivers that begin when somebody asks for one. */
static bool measure(rig *r, void *queue, void *event, uint32_t copies, uint64_t *after_ns,
                    uint64_t *all_ns) {
  promise p;
  uint64_t began = direct_now();
  bool ok = put_copies(r, queue, copies) && rig_promise(r, queue, &p) &&
            direct_ok(r->d, "event_record", direct_event_record(r->d, event, queue));
  if (!ok) return false;
  *after_ns = time_until_kept(r, p, 300000000);
  *all_ns = direct_now() - began;
  return direct_ok(r->d, "queue_wait", direct_queue_wait(r->d, queue));
}

/* The least of several measurements, since whoever is kept from looking measures too much. One
 * that is little is not repeated. */
static bool measure_least(rig *r, void *queue, void *event, uint64_t *after_ns, uint64_t *all_ns) {
  enum { TIMES = 3 };
  *after_ns = *all_ns = UINT64_MAX;
  for (int i = 0; i < TIMES && *after_ns >= LITTLE_NS; i++) {
    uint64_t after = 0, all = 0;
    if (!measure(r, queue, event, r->copies, &after, &all)) return false;
    if (after < *after_ns) *after_ns = after;
    if (all < *all_ns) *all_ns = all;
  }
  return true;
}

/* Smaller copies where one takes so long that no slot could return within its limit. */
static bool fit_copies(rig *r, void *queue, void *event) {
  static const uint64_t LONG_NS = 50000000;
  uint64_t after = 0, all = 0;
  while (measure(r, queue, event, 1, &after, &all)) {
    size_t half = r->bytes / 2 / RIG_LINE * RIG_LINE;
    if (all < LONG_NS || half < LEAST) return true;
    r->bytes = half;
  }
  return false;
}

/* More copies until they last, or until so many do not. */
static bool find_copies(rig *r, void *queue, void *event) {
  uint64_t after = 0, all = 0;
  if (!fit_copies(r, queue, event)) return false;
  for (r->copies = 1; r->copies <= COPIES; r->copies *= 2) {
    if (!measure_least(r, queue, event, &after, &all)) return false;
    if (after >= WORK_NS || all >= ENOUGH_NS) break;
  }
  if (r->copies > COPIES) r->copies = COPIES;
  r->work_ns = after;
  return true;
}

/* There may be no pinned memory, or copies to it wait, as those to pageable memory do: then a
 * second queue looks whether the first has come to a promise. Where that sees nothing either, work
 * is done in the caller. */
static bool calibrate(rig *r) {
  void *queue = rig_queue(r), *event = queue ? rig_event(r) : NULL;
  direct_where(r->d, "one queue, to see how long its copies take");
  if (!event || !fill_lines(r, queue)) return false;
  if (r->seen && !find_copies(r, queue, event)) return false;
  if (r->work_ns >= LITTLE_NS) return true;
  r->side = rig_queue(r);
  if (!r->side || !find_copies(r, queue, event)) return false;
  if (r->work_ns >= LITTLE_NS) return true;
  if (r->seen) r->side = NULL;
  direct_note(r->d, "its copies end before their calls return: what comes too early is not seen");
  return true;
}

bool rig_make(direct *d, rig *r) {
  *r = (rig){.d = d};
  return take_memory(r) && calibrate(r);
}
