/* Sizes and offsets of more than 32 bits: with --large, where the device has 8 GiB to spare. */
#include <string.h>

#include "memory.h"

enum { LINE = 64, NEAR = 5, MARGIN = 1 << 20 };
static const uint64_t FAR = ((uint64_t)1 << 32) + NEAR;

/* Lines at NEAR and FAR: whoever cuts to 32 bits takes one for the other. */
typedef struct lines {
  unsigned char near[LINE], far[LINE];
} lines;

static bool put(memory_bench *m, void *to, lines *l) {
  memory_random(m, l, sizeof *l);
  return memory_write(m, to, NEAR, l->near, LINE) && memory_write(m, to, FAR, l->far, LINE);
}

static bool holds(memory_bench *m, const void *from, const lines *l, const char *what) {
  lines found = {{0}, {0}};
  if (!memory_read(m, found.near, from, NEAR, LINE) || !memory_read(m, found.far, from, FAR, LINE))
    return false;
  bool near = !memcmp(found.near, l->near, LINE), far = !memcmp(found.far, l->far, LINE);
  if (!near || !far)
    direct_fail(m->d, "%s: byte %llu is wrong", what,
                (unsigned long long)(near ? FAR : (uint64_t)NEAR));
  return near && far;
}

static bool go_through(memory_bench *m, void *a, void *b) {
  lines first, second;
  direct_where(m->d, "offsets beyond 2^32");
  if (!put(m, a, &first) || !put(m, b, &second) ||
      !holds(m, a, &first, "copies to an offset beyond 2^32, and from there"))
    return false;
  direct_where(m->d, "a size beyond 2^32");
  return memory_move(m, b, 0, a, 0, (size_t)FAR + LINE) &&
         holds(m, b, &first, "a copy on the device of more than 2^32 bytes");
}

void check_memory_far(direct *d, const check_options *o) {
  memory_bench m;
  void *a = NULL, *b = NULL;
  if (!o->large || !memory_begin(d, &m)) return;
  size_t bytes = (size_t)FAR + MARGIN;
  if (direct_alloc(d, TN_MEMORY_DEVICE, bytes, &a) || direct_alloc(d, TN_MEMORY_DEVICE, bytes, &b))
    direct_note(d, "no copies beyond 2^32 bytes: %s", direct_error());
  else if (!go_through(&m, a, b))
    return;
  if ((!a || memory_give(&m, TN_MEMORY_DEVICE, a)) && (!b || memory_give(&m, TN_MEMORY_DEVICE, b)))
    memory_end(&m);
}
