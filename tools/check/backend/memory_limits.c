/* More memory than there is, and what memory_info says. */
#include <string.h>

#include "memory.h"

/* -------------------------------------------------------------- out of memory --- */

/* The dispatcher empties its cache and asks again only where the status is this one. A message is
 * better than none, but a host then names the plugin and its slot. */
static bool is_out_of_memory(direct *d, size_t bytes, tn_status status) {
  if (status != TN_ERR_DEVICE_OUT_OF_MEMORY)
    direct_fail(d,
                "alloc of %zu bytes, more than there can be, gave %s, not "
                "TN_ERR_DEVICE_OUT_OF_MEMORY",
                bytes, tn_status_name(status));
  else if (!*direct_error())
    direct_note(d, "alloc of %zu bytes gave TN_ERR_DEVICE_OUT_OF_MEMORY without a message", bytes);
  return status == TN_ERR_DEVICE_OUT_OF_MEMORY;
}

static bool refuses_absurd(memory_bench *m) {
  static const size_t sizes[] = {(size_t)1 << 62, SIZE_MAX - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *ptr = NULL;
    tn_status status = direct_alloc(m->d, TN_MEMORY_DEVICE, sizes[i], &ptr);
    if (!is_out_of_memory(m->d, sizes[i], status)) return false;
    if (direct_alloc(m->d, TN_MEMORY_PINNED, sizes[i], &ptr)) continue;
    direct_fail(m->d, "alloc of %zu bytes of pinned memory gave TN_OK", sizes[i]);
    return false;
  }
  return true;
}

/* Backends may promise memory that they do not have yet; then it can be written to its end. A
 * host does, and whoever then fills what it got takes the machine down: not asked of host memory.
 */
static bool refuses_more_than_total(memory_bench *m) {
  uint64_t free_bytes = 0, total = m->d->props.memory_bytes;
  unsigned char byte = 0x5a, found = 0;
  void *ptr = NULL;
  if (m->d->slots.memory_info) (void)direct_memory_info(m->d, &free_bytes, &total);
  if (m->d->slots.flags & TN_BACKEND_HOST_MEMORY || !total || total > (uint64_t)1 << 60)
    return true;
  size_t bytes = (size_t)total + 4096;
  tn_status status = direct_alloc(m->d, TN_MEMORY_DEVICE, bytes, &ptr);
  if (status) return is_out_of_memory(m->d, bytes, status);
  direct_where(m->d, "alloc gave %zu bytes, more than the device has", bytes);
  if (!memory_write(m, ptr, bytes - 1, &byte, 1) || !memory_read(m, &found, ptr, bytes - 1, 1))
    return false;
  if (found != byte) direct_fail(m->d, "what is written at the end does not stay");
  return found == byte && memory_give(m, TN_MEMORY_DEVICE, ptr);
}

static bool works(memory_bench *m) {
  unsigned char wrote[4099], found[sizeof wrote];
  void *ptr = NULL;
  direct_where(m->d, "after an alloc that failed");
  memory_random(m, wrote, sizeof wrote);
  memset(found, 0, sizeof found);
  if (!memory_take(m, TN_MEMORY_DEVICE, sizeof wrote, &ptr) ||
      !memory_write(m, ptr, 0, wrote, sizeof wrote) || !memory_read(m, found, ptr, 0, sizeof found))
    return false;
  bool same = !memcmp(wrote, found, sizeof wrote);
  if (!same) direct_fail(m->d, "memory did not keep what was written");
  return memory_give(m, TN_MEMORY_DEVICE, ptr) && same;
}

void check_memory_limits(direct *d, const check_options *o) {
  memory_bench m;
  (void)o;
  if (memory_begin(d, &m) && refuses_absurd(&m) && works(&m) && refuses_more_than_total(&m) &&
      works(&m))
    memory_end(&m);
}

/* ---------------------------------------------------------------- memory_info --- */

static bool ask(memory_bench *m, uint64_t *free_bytes) {
  uint64_t total = 0;
  *free_bytes = UINT64_MAX;
  if (!direct_ok(m->d, "memory_info", direct_memory_info(m->d, free_bytes, &total))) return false;
  if (total && *free_bytes <= total) return true;
  direct_fail(m->d, "memory_info says %llu of %llu bytes are free", (unsigned long long)*free_bytes,
              (unsigned long long)total);
  return false;
}

/* Drivers may give memory to a buffer when it is first used. */
static bool write_all(memory_bench *m, void *ptr, size_t bytes) {
  static const unsigned char some[1 << 20] = {1};
  for (size_t at = 0; at < bytes; at += sizeof some)
    if (!memory_write(m, ptr, at, some, bytes - at < sizeof some ? bytes - at : sizeof some))
      return false;
  return memory_wait(m);
}

/* How often free bytes rose while memory was taken and fell when it was given back, and how often
 * they stayed the very same. The device may be others' too: each must happen every time. */
static bool watch_free(memory_bench *m, size_t bytes, int times, int *rose, int *stayed) {
  for (int i = 0; i < times; i++) {
    uint64_t before, during, after;
    void *ptr = NULL;
    if (!ask(m, &before) || !memory_take(m, TN_MEMORY_DEVICE, bytes, &ptr) ||
        !write_all(m, ptr, bytes) || !ask(m, &during) || !memory_give(m, TN_MEMORY_DEVICE, ptr) ||
        !ask(m, &after))
      return false;
    *rose += during >= before + bytes / 2 && during >= after + bytes / 2;
    *stayed += during == before && during == after;
  }
  return true;
}

/* A backend may cut its allocations from larger ones: no free byte goes until those are used up.
 * Three blocks at once, of a quarter of what is free if that is not too much to write, go beyond
 * them. *moved: free bytes changed. */
static bool hold_three(memory_bench *m, bool *moved) {
  enum { BLOCKS = 3 };
  static const size_t MOST = (size_t)4 << 30;
  uint64_t before, during = 0;
  void *ptr[BLOCKS];
  size_t bytes = memory_allowance(m, MOST) / BLOCKS;
  direct_where(m->d, "%d blocks of %zu bytes held at once", BLOCKS, bytes);
  if (!ask(m, &before)) return false;
  *moved = false;
  for (int i = 0; i < BLOCKS; i++) {
    if (!memory_take(m, TN_MEMORY_DEVICE, bytes, &ptr[i]) || !write_all(m, ptr[i], bytes) ||
        !ask(m, &during))
      return false;
    *moved = *moved || during != before;
  }
  for (int i = 0; i < BLOCKS; i++)
    if (!memory_give(m, TN_MEMORY_DEVICE, ptr[i])) return false;
  return true;
}

/* Of host memory free bytes are the whole machine's, and may stand still or move at will. */
static bool follows(memory_bench *m) {
  enum { TIMES = 3 };
  int rose = 0, stayed = 0;
  bool moved = true;
  size_t bytes = memory_allowance(m, (size_t)64 << 20);
  if (m->d->slots.flags & TN_BACKEND_HOST_MEMORY || bytes < (size_t)4 << 20) return true;
  direct_where(m->d, "%zu bytes taken, written and given back, %d times", bytes, TIMES);
  if (!watch_free(m, bytes, TIMES, &rose, &stayed)) return false;
  if (rose == TIMES)
    direct_fail(m->d, "memory_info: free bytes rise when memory is taken and fall when it is given "
                      "back");
  if (stayed == TIMES && !hold_three(m, &moved)) return false;
  if (!moved)
    direct_fail(m->d, "memory_info: free bytes stay the same whether or not memory is in use; a "
                      "backend that cannot tell has no memory_info");
  return rose < TIMES && moved;
}

void check_memory_info(direct *d, const check_options *o) {
  memory_bench m;
  uint64_t free_bytes;
  (void)o;
  if (!d->slots.memory_info) {
    direct_note(d, "the backend has no memory_info");
    return;
  }
  if (memory_begin(d, &m) && ask(&m, &free_bytes) && follows(&m)) memory_end(&m);
}
