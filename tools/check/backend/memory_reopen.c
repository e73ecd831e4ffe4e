/* A device that is opened, used and closed again and again leaves nothing behind. */
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "usage.h"

enum { PIECE = 1 << 20, WARMUP = 3, OPENINGS = 6, ROUNDS = 3 };

/* What a program would use: memory, a copy, an event. */
static bool use(memory_bench *m, const void *host) {
  void *ptr = NULL, *event = NULL;
  direct *d = m->d;
  if (!memory_take(m, TN_MEMORY_DEVICE, PIECE, &ptr) || !memory_write(m, ptr, 0, host, PIECE))
    return false;
  if (m->queue) {
    if (!direct_ok(d, "event_create", direct_event_create(d, &event)) ||
        !direct_ok(d, "event_record", direct_event_record(d, event, m->queue)) ||
        !direct_ok(d, "event_wait", direct_event_wait(d, event)))
      return false;
    direct_event_destroy(d, event);
  }
  return memory_give(m, TN_MEMORY_DEVICE, ptr);
}

static bool open_once(direct *d, const void *host) {
  direct again;
  memory_bench m;
  if (!direct_ok(d, "open, once more,", direct_open_again(d, &again))) return false;
  if (!memory_begin(&again, &m) || !use(&m, host)) return false;
  memory_end(&m);
  direct_close(&again);
  return direct_is_sound(d);
}

static bool open_often(direct *d, const void *host, uint32_t times) {
  for (uint32_t i = 0; i < times; i++)
    if (!open_once(d, host)) return false;
  return true;
}

void check_memory_reopen(direct *d, const check_options *o) {
  char text[100] = "";
  void *host = memory_of_host(PIECE);
  (void)o;
  memset(host, 1, PIECE);
  if (!open_often(d, host, WARMUP)) return;
  for (int round = 0; round < ROUNDS; round++) {
    usage before = usage_now();
    if (!open_often(d, host, OPENINGS)) return;
    usage after = usage_now();
    if (*usage_growth(&before, &after, OPENINGS, text, sizeof text)) after = usage_settled();
    if (!*usage_growth(&before, &after, OPENINGS, text, sizeof text)) break;
  }
  free(host);
  direct_where(d, "the device opened, used and closed %d times", OPENINGS);
  if (*text) direct_fail(d, "it leaves %s", text);
}
