/*
 * When copies are made. A host pointer in pageable memory has been read or written when the call
 * returns; all copies come in the order of their queue, those of pinned memory too. Behind work
 * that keeps the queue busy, whoever is early or late takes wrong bytes along.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { LEAST_BACKLOG = 8, MOST_BACKLOG = 1024, PIECE = 4 << 20, MOST_BUSY = 64 << 20 };
static const uint64_t BUSY_NS = 2000000;

typedef struct order {
  memory_bench bench;
  size_t piece; /* bytes of each of the following */
  void *a, *b;  /* on the device */
  void *busy[2];
  size_t room, busy_bytes;      /* of each, and how much of it is copied */
  int backlog;                  /* copies that keep the queue busy for some BUSY_NS */
  unsigned char *x, *y, *found; /* on the host, x and y of other bytes everywhere */
} order;

/* Work that the queue is at for a while. */
static bool keep_busy(order *t) {
  for (int i = 0; i < t->backlog; i++)
    if (!memory_move(&t->bench, t->busy[(i + 1) % 2], 0, t->busy[i % 2], 0, t->busy_bytes))
      return false;
  return true;
}

/* Larger copies and then more until they last when the calls have returned, the least of three
 * times, or until they do not: then the device works in its caller, or is too fast, which is noted.
 */
static bool find_backlog(order *t) {
  enum { TIMES = 3 };
  if (!t->bench.queue) return true;
  for (;;) {
    uint64_t least = UINT64_MAX, all = 0;
    for (int i = 0; i < TIMES && least >= BUSY_NS; i++) {
      uint64_t began = direct_now();
      if (!keep_busy(t)) return false;
      uint64_t put = direct_now();
      if (!memory_wait(&t->bench)) return false;
      if (direct_now() - put < least) least = direct_now() - put;
      all = direct_now() - began;
    }
    if (least >= BUSY_NS) return true;
    if (t->backlog == MOST_BACKLOG || all >= 10 * BUSY_NS) break;
    if (t->busy_bytes * 2 <= t->room)
      t->busy_bytes *= 2;
    else
      t->backlog *= 2;
  }
  direct_note(t->bench.d, "its copies end before their calls return: what comes too early is not "
                          "seen");
  return true;
}

static bool order_begin(direct *d, order *t) {
  *t = (order){.backlog = LEAST_BACKLOG};
  if (!memory_begin(d, &t->bench)) return false;
  t->piece = memory_allowance(&t->bench, (size_t)PIECE * 4) / 4;
  t->x = memory_of_host(t->piece);
  t->y = memory_of_host(t->piece);
  t->found = memory_of_host(t->piece);
  memory_random(&t->bench, t->x, t->piece);
  for (size_t i = 0; i < t->piece; i++) t->y[i] = (unsigned char)~t->x[i];
  t->room = memory_allowance(&t->bench, (size_t)MOST_BUSY * 4) / 4;
  t->busy_bytes = t->piece;
  if (t->room < t->piece) t->room = t->piece;
  void **all[] = {&t->a, &t->b, &t->busy[0], &t->busy[1]};
  for (int i = 0; i < 4; i++)
    if (!memory_take(&t->bench, TN_MEMORY_DEVICE, i < 2 ? t->piece : t->room, all[i])) return false;
  return memory_write(&t->bench, t->busy[0], 0, t->x, t->piece) && memory_wait(&t->bench) &&
         find_backlog(t);
}

static void order_end(order *t) {
  void *all[] = {t->a, t->b, t->busy[0], t->busy[1]};
  for (int i = 0; i < 4; i++)
    if (!memory_give(&t->bench, TN_MEMORY_DEVICE, all[i])) return;
  free(t->x);
  free(t->y);
  free(t->found);
  memory_end(&t->bench);
}

static bool copy(order *t, uint32_t direction, void *to, const void *from, size_t bytes) {
  static const char *const names[] = {"copy to the device", "copy to the host",
                                      "copy on the device"};
  return direct_ok(t->bench.d, names[direction],
                   direct_copy(t->bench.d, t->bench.queue, direction, to, 0, from, 0, bytes));
}

/* `wanted`: what must be there; `wrong`: what it means if it is not. */
static bool is_there(order *t, const unsigned char *found, const unsigned char *wanted,
                     size_t bytes, const char *wrong) {
  size_t at = memory_differs(found, wanted, bytes);
  if (at < bytes) direct_fail(t->bench.d, "%s: byte %zu of %zu", wrong, at, bytes);
  return at == bytes;
}

/* Of the device's memory. */
static bool holds(order *t, const void *from, const unsigned char *wanted, size_t bytes,
                  const char *wrong) {
  memset(t->found, 0x77, bytes);
  return copy(t, TN_COPY_TO_HOST, t->found, from, bytes) &&
         is_there(t, t->found, wanted, bytes, wrong);
}

/* --------------------------------------------------------------- pageable memory --- */

static bool source_was_read(order *t, size_t bytes) {
  unsigned char *source = memory_of_host(bytes);
  memcpy(source, t->x, bytes);
  bool ok = copy(t, TN_COPY_TO_DEVICE, t->a, t->y, bytes) && keep_busy(t) &&
            copy(t, TN_COPY_TO_DEVICE, t->a, source, bytes);
  memcpy(source, t->y, bytes);
  ok = ok &&
       holds(t, t->a, t->x, bytes, "copy to the device read pageable memory after it had returned");
  free(source);
  return ok;
}

static bool destination_was_written(order *t, size_t bytes) {
  unsigned char *to = memory_of_host(bytes);
  memcpy(to, t->y, bytes);
  bool ok = keep_busy(t) && copy(t, TN_COPY_TO_DEVICE, t->a, t->x, bytes) &&
            copy(t, TN_COPY_TO_HOST, to, t->a, bytes) &&
            is_there(t, to, t->x, bytes,
                     "copy to the host returned before it had written pageable memory, or came "
                     "before earlier work of its queue");
  /* A late one writes into `to`: it stays until then. */
  if (ok) free(to);
  return ok;
}

/* b = a, a = other: in this order. */
static bool comes_after(order *t, const void *y, size_t bytes, const char *wrong) {
  return copy(t, TN_COPY_TO_DEVICE, t->a, t->x, bytes) && keep_busy(t) &&
         copy(t, TN_COPY_ON_DEVICE, t->b, t->a, bytes) &&
         copy(t, TN_COPY_TO_DEVICE, t->a, y, bytes) && holds(t, t->b, t->x, bytes, wrong) &&
         holds(t, t->a, t->y, bytes, wrong);
}

static bool pageable(order *t, size_t bytes) {
  direct_where(t->bench.d, "%zu bytes of pageable memory, behind %d copies", bytes, t->backlog);
  return source_was_read(t, bytes) && destination_was_written(t, bytes) &&
         comes_after(t, t->y, bytes,
                     "copy to the device from pageable memory came before earlier work of its "
                     "queue");
}

static size_t sizes_of(const order *t, size_t *sizes, size_t count) {
  static const size_t all[] = {1, 100, 4096, 65536, 65537, 1000003, PIECE};
  size_t used = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all && used < count; i++)
    if (all[i] <= t->piece) sizes[used++] = all[i];
  return used;
}

void check_memory_order(direct *d, const check_options *o) {
  size_t sizes[8];
  order t;
  (void)o;
  if (!order_begin(d, &t)) return;
  for (size_t i = 0, n = sizes_of(&t, sizes, 8); i < n; i++)
    if (!pageable(&t, sizes[i])) return;
  order_end(&t);
}

/* ----------------------------------------------------------------- pinned memory --- */

/* Host memory that two allocations do not share, and that the host reads and writes. */
static bool are_host_memory(order *t, void **pieces, const size_t *sizes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    direct_where(t->bench.d, "the host writes pinned memory of %zu bytes", sizes[i]);
    memset(pieces[i], (int)(0x51 + i), sizes[i]);
  }
  for (size_t i = 0; i < count; i++)
    for (size_t at = 0; at < sizes[i]; at++)
      if (((unsigned char *)pieces[i])[at] != 0x51 + i) {
        direct_fail(t->bench.d,
                    "pinned memory of %zu bytes shares byte %zu with another "
                    "allocation",
                    sizes[i], at);
        return false;
      }
  return true;
}

/* The source stays as it is until the queue was waited for. */
static bool pinned_source(order *t, unsigned char *pinned, size_t bytes) {
  memcpy(pinned, t->y, bytes);
  return comes_after(t, pinned, bytes,
                     "copy to the device from pinned memory came before earlier work of its queue");
}

static bool pinned_destination(order *t, unsigned char *pinned, size_t bytes) {
  memcpy(pinned, t->y, bytes);
  return copy(t, TN_COPY_TO_DEVICE, t->a, t->y, bytes) &&
         copy(t, TN_COPY_TO_DEVICE, t->b, t->x, bytes) && memory_wait(&t->bench) && keep_busy(t) &&
         copy(t, TN_COPY_ON_DEVICE, t->a, t->b, bytes) &&
         copy(t, TN_COPY_TO_HOST, pinned, t->a, bytes) && memory_wait(&t->bench) &&
         is_there(t, pinned, t->x, bytes,
                  "copy to the host into pinned memory came before earlier work of its queue, or "
                  "was not made when the queue had been waited for");
}

static bool pinned_copies(order *t, unsigned char *pinned, size_t bytes) {
  size_t inside = bytes / 3;
  direct_where(t->bench.d, "%zu bytes of pinned memory, behind %d copies", bytes, t->backlog);
  if (!pinned_source(t, pinned, bytes) || !pinned_destination(t, pinned, bytes)) return false;
  direct_where(t->bench.d, "%zu bytes of pinned memory from byte %zu on, behind %d copies",
               bytes - inside, inside, t->backlog);
  return pinned_source(t, pinned + inside, bytes - inside) &&
         pinned_destination(t, pinned + inside, bytes - inside);
}

/* As many pieces as there is pinned memory for; false for a failure. */
static bool take_pinned(order *t, void **pieces, const size_t *sizes, size_t *count) {
  for (size_t i = 0; i < *count; i++) {
    if (!memory_take_pinned(&t->bench, sizes[i], &pieces[i])) return false;
    if (!pieces[i]) *count = i;
  }
  return are_host_memory(t, pieces, sizes, *count);
}

/* What lies beside pinned memory is pageable still. */
static bool pinned_and_pageable(order *t, void *pinned, size_t bytes) {
  return pinned_copies(t, pinned, bytes) && pageable(t, bytes);
}

void check_memory_pinned(direct *d, const check_options *o) {
  size_t sizes[8];
  void *pieces[8] = {NULL};
  order t;
  (void)o;
  if (!order_begin(d, &t)) return;
  size_t count = sizes_of(&t, sizes, 8);
  if (!take_pinned(&t, pieces, sizes, &count)) return;
  for (size_t i = 0; i < count; i++)
    if (!pinned_and_pageable(&t, pieces[i], sizes[i])) return;
  for (size_t i = 0; i < count; i++)
    if (!memory_give(&t.bench, TN_MEMORY_PINNED, pieces[i])) return;
  order_end(&t);
}
