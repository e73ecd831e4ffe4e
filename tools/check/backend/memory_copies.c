/*
 * Copies in three directions: all offsets from 0 to 16 on both sides, odd sizes, and 16 MiB and a
 * few. Of 0 bytes there are none, says plugin.h. After each the whole of the destination is as it
 * must be, in front of what was copied and behind it too. The queue is waited for by no one but the
 * copies to the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* A piece of device memory and what must be in it. */
typedef struct area {
  void *ptr;
  unsigned char *wanted;
} area;

typedef struct copies {
  memory_bench bench;
  size_t size; /* of each area */
  area a, b;   /* the source of copies on the device, and the destination of all */
  unsigned char *host;
} copies;

/* One copy: from byte `from` of the source to byte `to` of the destination. */
typedef struct span {
  size_t from, to, bytes;
} span;

/* Says what differs from what was wanted: a byte of the copy, or one that it had to leave alone. */
static bool is_right(copies *c, const span *s, const unsigned char *found,
                     const unsigned char *wanted) {
  size_t at = memory_differs(found, wanted, c->size);
  if (at == c->size) return true;
  if (at >= s->to && at < s->to + s->bytes)
    direct_fail(c->bench.d, "copy: byte %zu of %zu is 0x%02x, not 0x%02x", at - s->to, s->bytes,
                found[at], wanted[at]);
  else
    direct_fail(c->bench.d, "copy of %zu bytes to offset %zu also changed byte %zu", s->bytes,
                s->to, at);
  return false;
}

static bool device_is_right(copies *c, const span *s, const area *a) {
  memset(c->host, 0, c->size);
  return memory_read(&c->bench, c->host, a->ptr, 0, c->size) && is_right(c, s, c->host, a->wanted);
}

static bool source_is_kept(copies *c, const void *source, const void *wanted, size_t bytes) {
  size_t at = memory_differs(source, wanted, bytes);
  if (at < bytes) direct_fail(c->bench.d, "copy changed byte %zu of its source", at);
  return at == bytes;
}

static bool area_make(copies *c, area *a) {
  a->wanted = memory_of_host(c->size);
  memory_random(&c->bench, a->wanted, c->size);
  memcpy(c->host, a->wanted, c->size);
  return memory_take(&c->bench, TN_MEMORY_DEVICE, c->size, &a->ptr) &&
         memory_write(&c->bench, a->ptr, 0, c->host, c->size) &&
         source_is_kept(c, c->host, a->wanted, c->size) &&
         device_is_right(c, &(span){0, 0, c->size}, a);
}

static bool copies_begin(direct *d, copies *c, size_t size) {
  *c = (copies){.size = size};
  if (!memory_begin(d, &c->bench)) return false;
  c->host = memory_of_host(size);
  direct_where(d, "%zu bytes written whole", size);
  return area_make(c, &c->a) && area_make(c, &c->b);
}

static bool copies_end(copies *c) {
  free(c->host);
  free(c->a.wanted);
  free(c->b.wanted);
  if (!memory_give(&c->bench, TN_MEMORY_DEVICE, c->a.ptr) ||
      !memory_give(&c->bench, TN_MEMORY_DEVICE, c->b.ptr))
    return false;
  memory_end(&c->bench);
  return true;
}

/* ---------------------------------------------------------- the three directions --- */

static bool a_is_kept(copies *c) {
  return memory_read(&c->bench, c->host, c->a.ptr, 0, c->size) &&
         source_is_kept(c, c->host, c->a.wanted, c->size);
}

static bool copy_to_device(copies *c, const span *s) {
  memory_random(&c->bench, c->host, c->size);
  memcpy(c->b.wanted + s->to, c->host + s->from, s->bytes);
  return memory_write(&c->bench, c->b.ptr, s->to, c->host + s->from, s->bytes) &&
         source_is_kept(c, c->host + s->from, c->b.wanted + s->to, s->bytes) &&
         device_is_right(c, s, &c->b);
}

/* The destination is in the host's memory: what is to stay there is b's, for its length. */
static bool copy_to_host(copies *c, const span *s) {
  memory_random(&c->bench, c->host, c->size);
  unsigned char *wanted = memory_of_host(c->size);
  memcpy(wanted, c->host, c->size);
  memcpy(wanted + s->to, c->a.wanted + s->from, s->bytes);
  bool ok = memory_read(&c->bench, c->host + s->to, c->a.ptr, s->from, s->bytes) &&
            is_right(c, s, c->host, wanted);
  free(wanted);
  return ok;
}

static bool copy_on_device(copies *c, const span *s) {
  memcpy(c->b.wanted + s->to, c->a.wanted + s->from, s->bytes);
  return memory_move(&c->bench, c->b.ptr, s->to, c->a.ptr, s->from, s->bytes) &&
         device_is_right(c, s, &c->b) && a_is_kept(c);
}

/* From the lower half of a to its upper half. */
static bool copy_within(copies *c, const span *s) {
  span upper = {s->from, s->to + c->size / 2, s->bytes};
  memcpy(c->a.wanted + upper.to, c->a.wanted + s->from, s->bytes);
  return memory_move(&c->bench, c->a.ptr, upper.to, c->a.ptr, s->from, s->bytes) &&
         device_is_right(c, &upper, &c->a);
}

static const struct {
  const char *name;
  bool (*run)(copies *c, const span *s);
  bool halves; /* the span lies in half of the area */
} ways[] = {{"to the device", copy_to_device, false},
            {"to the host", copy_to_host, false},
            {"on the device", copy_on_device, false},
            {"on the device, within one allocation", copy_within, true}};
enum { WAYS = sizeof ways / sizeof *ways };

static bool copy_each_way(copies *c, const span *s) {
  for (int w = 0; w < WAYS; w++) {
    if (ways[w].halves && (s->from + s->bytes > c->size / 2 || s->to + s->bytes > c->size / 2))
      continue;
    direct_where(c->bench.d, "%s, %zu bytes from offset %zu to %zu", ways[w].name, s->bytes,
                 s->from, s->to);
    if (!ways[w].run(c, s)) return false;
  }
  return true;
}

/* ------------------------------------------------------------------- the spans --- */

enum { SMALL = 4096, FAR = 16, MARGIN = 1 << 20, LARGE = (16 << 20) + 5 };

static bool small_copies(copies *c) {
  static const size_t sizes[] = {1,  2,  3,  4,  5,  7,   8,   15,  16,
                                 17, 31, 33, 63, 65, 127, 255, 511, 977};
  size_t next = 0;
  for (size_t from = 0; from <= FAR; from++)
    for (size_t to = 0; to <= FAR; to++) {
      span s = {from, to, sizes[next++ % (sizeof sizes / sizeof *sizes)]};
      if (!copy_each_way(c, &s)) return false;
    }
  return true;
}

/* More than 2^16 and 2^24 bytes, and offsets behind them. */
static bool large_copies(copies *c, size_t bytes) {
  const span spans[] = {{3, 1, (64 << 10) + 1},
                        {(64 << 10) + 7, (256 << 10) + 5, 4095},
                        {5, 9, bytes},
                        {bytes + 3, bytes + 2, 1023}};
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
    if (!copy_each_way(c, &spans[i])) return false;
  return true;
}

void check_memory_copies(direct *d, const check_options *o) {
  copies c;
  if (!copies_begin(d, &c, SMALL) || !small_copies(&c) || !copies_end(&c)) return;
  check_memory_far(d, o);
  if (!direct_is_sound(d)) return;
  size_t allowance = memory_allowance(&c.bench, (size_t)64 << 20);
  size_t large = allowance / 2 < LARGE + MARGIN ? allowance / 4 : LARGE;
  if (large < MARGIN) {
    direct_note(d, "no large copies: the device has too little memory");
    return;
  }
  if (copies_begin(d, &c, large + MARGIN) && large_copies(&c, large)) copies_end(&c);
}
