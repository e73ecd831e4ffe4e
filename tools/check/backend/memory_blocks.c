/*
 * Pieces of device memory of many sizes: aligned as describe says, apart from each other, and as
 * they were written whatever is allocated and given back beside them.
 */
#include <stdlib.h>
#include <string.h>

#include "memory.h"

typedef struct block {
  void *ptr; /* NULL: given back, or too much for the device */
  size_t bytes;
  unsigned char *wanted; /* what was written */
} block;

enum { SIZES = 16, ROUNDS = 3, BLOCKS = SIZES * ROUNDS };

static const size_t sizes[SIZES] = {1,    255,  2, 4097,          64,  1 << 20, 3,   65,
                                    1000, 4096, 7, (1 << 20) + 1, 257, 65537,   256, (5 << 20) + 3};

static bool is_aligned(direct *d, const block *b) {
  uint64_t alignment = d->props.alignment_bytes ? d->props.alignment_bytes : 64;
  if (d->slots.flags & TN_BACKEND_OPAQUE_MEMORY || (uintptr_t)b->ptr % alignment == 0) return true;
  direct_fail(d,
              "alloc gave %p for %zu bytes, which is not at a multiple of the %llu bytes that "
              "describe says",
              b->ptr, b->bytes, (unsigned long long)alignment);
  return false;
}

/* Handles are apart if they differ; addresses, if the pieces do. */
static bool are_apart(direct *d, const block *a, const block *b) {
  bool opaque = d->slots.flags & TN_BACKEND_OPAQUE_MEMORY;
  uintptr_t x = (uintptr_t)a->ptr, y = (uintptr_t)b->ptr;
  if (opaque ? x != y : x + a->bytes <= y || y + b->bytes <= x) return true;
  direct_fail(d, "alloc gave %p for %zu bytes while %zu bytes at %p are in use", b->ptr, b->bytes,
              a->bytes, a->ptr);
  return false;
}

static bool take(memory_bench *m, block *all, block *b, size_t bytes) {
  b->bytes = bytes;
  if (!memory_take(m, TN_MEMORY_DEVICE, bytes, &b->ptr) || !is_aligned(m->d, b)) return false;
  for (block *other = all; other < all + BLOCKS; other++)
    if (other != b && other->ptr && !are_apart(m->d, other, b)) return false;
  b->wanted = memory_of_host(bytes);
  memory_random(m, b->wanted, bytes);
  return memory_write(m, b->ptr, 0, b->wanted, bytes);
}

static bool give(memory_bench *m, block *b) {
  free(b->wanted);
  bool ok = memory_give(m, TN_MEMORY_DEVICE, b->ptr);
  *b = (block){0};
  return ok;
}

static bool is_as_written(memory_bench *m, const block *b) {
  unsigned char *found = memory_of_host(b->bytes);
  bool ok = memory_read(m, found, b->ptr, 0, b->bytes);
  size_t at = ok ? memory_differs(found, b->wanted, b->bytes) : b->bytes;
  if (at < b->bytes)
    direct_fail(m->d,
                "memory of %zu bytes did not keep what was written: byte %zu is 0x%02x, "
                "written 0x%02x",
                b->bytes, at, found[at], b->wanted[at]);
  free(found);
  return ok && at == b->bytes;
}

/* Of a backend whose memory is the host's: the host reads and writes it where it lies. */
static bool is_in_place(memory_bench *m, block *b) {
  unsigned char *here = b->ptr;
  if (!(m->d->slots.flags & TN_BACKEND_HOST_MEMORY)) return true;
  direct_where(m->d, "the host reads %zu bytes of device memory in place", b->bytes);
  if (!memory_wait(m)) return false;
  size_t at = memory_differs(here, b->wanted, b->bytes);
  if (at < b->bytes)
    direct_fail(m->d, "TN_BACKEND_HOST_MEMORY, but byte %zu is 0x%02x there, written 0x%02x", at,
                here[at], b->wanted[at]);
  else
    here[b->bytes - 1] = b->wanted[b->bytes - 1] ^= 0xff;
  return at == b->bytes;
}

static bool all_are_in_place(memory_bench *m, block *all) {
  for (block *b = all; b < all + BLOCKS; b++)
    if (b->ptr && !is_in_place(m, b)) return false;
  return true;
}

static bool all_are_as_written(memory_bench *m, const block *all) {
  for (const block *b = all; b < all + BLOCKS; b++)
    if (b->ptr && !is_as_written(m, b)) return false;
  return true;
}

/* Those at even places, or all; as many as there is memory for. */
static bool take_all(memory_bench *m, block *all, bool even, size_t allowance) {
  size_t used = 0;
  for (int i = 0; i < BLOCKS; i++) {
    size_t bytes = sizes[i % SIZES];
    if (used + bytes > allowance) continue;
    used += bytes;
    if ((!even || i % 2 == 0) && !take(m, all, &all[i], bytes)) return false;
  }
  return true;
}

static bool give_all(memory_bench *m, block *all, bool even) {
  for (int i = 0; i < BLOCKS; i++)
    if (all[i].ptr && (!even || i % 2 == 0) && !give(m, &all[i])) return false;
  return true;
}

static bool go_through(memory_bench *m, block *all) {
  size_t allowance = memory_allowance(m, (size_t)64 << 20);
  direct_where(m->d, "%d pieces of memory in use", BLOCKS);
  if (!take_all(m, all, false, allowance) || !all_are_as_written(m, all)) return false;
  if (!all_are_in_place(m, all)) return false;
  direct_where(m->d, "every second piece given back");
  if (!give_all(m, all, true) || !all_are_as_written(m, all)) return false;
  direct_where(m->d, "every second piece given back, and others taken");
  return take_all(m, all, true, allowance) && all_are_as_written(m, all) && give_all(m, all, false);
}

void check_memory_blocks(direct *d, const check_options *o) {
  block all[BLOCKS] = {{0}};
  memory_bench m;
  (void)o;
  if (memory_begin(d, &m) && go_through(&m, all)) memory_end(&m);
}
