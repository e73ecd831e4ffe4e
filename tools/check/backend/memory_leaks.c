/*
 * What slots take and do not give back: device memory, host memory, descriptors, threads. Each is
 * called many times over; what grows with every round of calls is a leak. Once is not enough:
 * drivers keep things, and others use the device and the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "usage.h"

enum { PIECE = 1 << 20, CALLS = 32, WARMUP = 8, ROUNDS = 3 };

typedef struct leaks {
  memory_bench bench;
  void *event, *device, *pinned; /* PIECE bytes each */
  unsigned char *host;
} leaks;

/* ------------------------------------------------------- things done again and again --- */

static bool take_device(leaks *t) {
  void *ptr = NULL;
  return memory_take(&t->bench, TN_MEMORY_DEVICE, PIECE, &ptr) &&
         memory_write(&t->bench, ptr, 0, t->host, PIECE) &&
         memory_give(&t->bench, TN_MEMORY_DEVICE, ptr);
}

static bool take_pinned(leaks *t) {
  void *ptr = NULL;
  if (!memory_take(&t->bench, TN_MEMORY_PINNED, PIECE, &ptr)) return false;
  memset(ptr, 1, PIECE);
  return memory_give(&t->bench, TN_MEMORY_PINNED, ptr);
}

static bool take_too_much(leaks *t) {
  void *ptr = NULL;
  return direct_alloc(t->bench.d, TN_MEMORY_DEVICE, (size_t)1 << 62, &ptr) != TN_OK;
}

static bool write_pageable(leaks *t) {
  return memory_write(&t->bench, t->device, 0, t->host, PIECE) && memory_wait(&t->bench);
}

static bool read_pageable(leaks *t) { return memory_read(&t->bench, t->host, t->device, 0, PIECE); }

static bool write_pinned(leaks *t) {
  return memory_write(&t->bench, t->device, 0, t->pinned, PIECE) && memory_wait(&t->bench);
}

static bool read_pinned(leaks *t) {
  return memory_read(&t->bench, t->pinned, t->device, 0, PIECE) && memory_wait(&t->bench);
}

static bool move(leaks *t) {
  return memory_move(&t->bench, t->device, PIECE / 2, t->device, 0, PIECE / 2) &&
         memory_wait(&t->bench);
}

static bool ask_memory(leaks *t) {
  uint64_t free_bytes, total;
  direct *d = t->bench.d;
  return !d->slots.memory_info ||
         direct_ok(d, "memory_info", direct_memory_info(d, &free_bytes, &total));
}

static bool make_queue(leaks *t) {
  memory_bench b = t->bench;
  if (!direct_ok(b.d, "queue_create", direct_queue_create(b.d, &b.queue))) return false;
  bool ok = memory_write(&b, t->device, 0, t->host, 4096) && memory_wait(&b);
  if (ok) direct_queue_destroy(b.d, b.queue);
  return ok;
}

static bool make_event(leaks *t) {
  direct *d = t->bench.d;
  void *event = NULL;
  bool ok = direct_ok(d, "event_create", direct_event_create(d, &event)) &&
            direct_ok(d, "event_record", direct_event_record(d, event, t->bench.queue)) &&
            direct_ok(d, "event_wait", direct_event_wait(d, event));
  if (ok) direct_event_destroy(d, event);
  return ok;
}

static bool record_event(leaks *t) {
  direct *d = t->bench.d;
  return direct_ok(d, "event_record", direct_event_record(d, t->event, t->bench.queue)) &&
         direct_ok(d, "queue_wait_event", direct_queue_wait_event(d, t->bench.queue, t->event)) &&
         direct_ok(d, "event_wait", direct_event_wait(d, t->event));
}

typedef struct habit {
  const char *what;
  bool (*once)(leaks *t);
  bool queued; /* not of a synchronous backend */
  bool pinned; /* not where there is no pinned memory */
} habit;

static const habit habits[] = {
    {"alloc and free of 1 MiB of device memory, written", take_device, false, false},
    {"alloc and free of 1 MiB of pinned memory", take_pinned, false, true},
    {"alloc of too much", take_too_much, false, false},
    {"copy of 1 MiB to the device from pageable memory", write_pageable, false, false},
    {"copy of 1 MiB to the host into pageable memory", read_pageable, false, false},
    {"copy of 1 MiB to the device from pinned memory", write_pinned, false, true},
    {"copy of 1 MiB to the host into pinned memory", read_pinned, false, true},
    {"copy on the device", move, false, false},
    {"memory_info", ask_memory, false, false},
    {"queue_create, work and queue_destroy", make_queue, true, false},
    {"event_create, event_record and event_destroy", make_event, true, false},
    {"event_record and queue_wait_event of one event", record_event, true, false},
};
enum { HABITS = sizeof habits / sizeof *habits };

/* ------------------------------------------------------------------ the process --- */

static bool repeat(leaks *t, const habit *h, uint32_t times) {
  for (uint32_t i = 0; i < times; i++)
    if (!h->once(t)) return false;
  return true;
}

static bool keeps_nothing(leaks *t, const habit *h) {
  char text[100] = "";
  direct_where(t->bench.d, "%s, again and again", h->what);
  if (!repeat(t, h, WARMUP)) return false;
  for (int round = 0; round < ROUNDS; round++) {
    usage before = usage_now();
    if (!repeat(t, h, CALLS)) return false;
    usage after = usage_now();
    if (*usage_growth(&before, &after, CALLS, text, sizeof text)) after = usage_settled();
    if (!*usage_growth(&before, &after, CALLS, text, sizeof text)) return true;
  }
  direct_fail(t->bench.d, "%d calls leave %s", CALLS, text);
  return false;
}

/* ------------------------------------------------------------- the device's memory --- */

static bool free_memory(direct *d, uint64_t *free_bytes) {
  uint64_t total;
  *free_bytes = 0;
  return !d->slots.memory_info || d->slots.flags & TN_BACKEND_HOST_MEMORY ||
         direct_ok(d, "memory_info", direct_memory_info(d, free_bytes, &total));
}

/* Of the memory that others use too: what is missing is ours if it is about as much every time. */
static bool is_missing(uint64_t before, uint64_t after, uint64_t bytes) {
  return before > after && before - after >= bytes / 2 && before - after <= bytes + bytes / 2;
}

/* Where memory is filled when it is allocated, as debugging allocators do, there is time for a few
 * pieces alone: *times says how many it were. */
static bool take_and_give(memory_bench *m, size_t bytes, uint32_t most, uint32_t *times) {
  const uint64_t patience_ns = 250000000, began = direct_now();
  *times = 0;
  for (uint32_t i = 0; i < most && direct_now() - began < patience_ns; i++, ++*times) {
    void *ptr = NULL;
    tn_status status = direct_alloc(m->d, TN_MEMORY_DEVICE, bytes, &ptr);
    if (status) {
      direct_fail(m->d,
                  "after %u allocations, each given back before the next, alloc failed: %s: %s", i,
                  tn_status_name(status), direct_error());
      return false;
    }
    direct_free(m->d, TN_MEMORY_DEVICE, ptr);
  }
  return true;
}

static bool gives_back(memory_bench *m, size_t bytes, uint32_t most) {
  uint32_t times;
  direct_where(m->d, "%zu bytes taken and given back %u times", bytes, most);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t before, after;
    if (!free_memory(m->d, &before) || !take_and_give(m, bytes, most, &times) ||
        !free_memory(m->d, &after))
      return false;
    if (!is_missing(before, after, (uint64_t)times * bytes)) return true;
  }
  direct_fail(m->d, "memory_info says that free gives nothing back");
  return false;
}

/* More than the device has, where that is within reason: 128 pieces of 128 MiB. */
static bool device_memory_comes_back(leaks *t) {
  enum { MOST_PIECES = 128, SMALL = 64 << 10, SMALL_PIECES = 256 };
  size_t piece = memory_allowance(&t->bench, (size_t)256 << 20) / 2;
  return gives_back(&t->bench, piece, MOST_PIECES) && gives_back(&t->bench, SMALL, SMALL_PIECES);
}

/* -------------------------------------------------------------------- the checks --- */

static bool leaks_begin(direct *d, leaks *t) {
  *t = (leaks){0};
  if (!memory_begin(d, &t->bench)) return false;
  t->host = memory_of_host(PIECE);
  memset(t->host, 1, PIECE);
  return memory_take(&t->bench, TN_MEMORY_DEVICE, PIECE, &t->device) &&
         memory_take_pinned(&t->bench, PIECE, &t->pinned) &&
         (!t->bench.queue || direct_ok(d, "event_create", direct_event_create(d, &t->event)));
}

static void leaks_end(leaks *t) {
  if (!memory_give(&t->bench, TN_MEMORY_DEVICE, t->device) ||
      (t->pinned && !memory_give(&t->bench, TN_MEMORY_PINNED, t->pinned)))
    return;
  if (t->event) direct_event_destroy(t->bench.d, t->event);
  free(t->host);
  memory_end(&t->bench);
}

static bool applies(const leaks *t, const habit *h) {
  return (t->bench.queue || !h->queued) && (t->pinned || !h->pinned);
}

void check_memory_leaks(direct *d, const check_options *o) {
  leaks t;
  (void)o;
  if (!leaks_begin(d, &t)) return;
  for (int i = 0; i < HABITS; i++)
    if (applies(&t, &habits[i]) && !keeps_nothing(&t, &habits[i])) return;
  if (device_memory_comes_back(&t)) leaks_end(&t);
}
