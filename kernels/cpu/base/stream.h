/*
 * Results that go past the caches: where they and what they are made of are more than these hold, a
 * line of them would be read only to be overwritten. They are made in blocks that stay in the first
 * cache, and written from there.
 */
#ifndef TENON_KERNELS_CPU_STREAM_H
#define TENON_KERNELS_CPU_STREAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/cpu.h"

enum { STREAM_LINE = 64, STREAM_BLOCK = 4096 }; /* bytes */

#ifdef FLOATS_STREAM
/* Below the first number of bytes no cache is asked for; the second is one where none is known; and
 * more than the third is streamed past all caches of which it is half. */
#define STREAM_LEAST ((int64_t)16 << 20)
#define STREAM_UNKNOWN ((int64_t)64 << 20)
#define STREAM_MOST ((int64_t)256 << 20)

/* Bytes of the last cache: a fact of the machine, which the system is asked for once, since a guest
 * of a hypervisor waits long for the answer. */
static inline int64_t stream_last_cache(void) {
  static _Atomic(int64_t) known;
  int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
  if (bytes) return bytes;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  if (bytes <= 0) bytes = STREAM_UNKNOWN;
  atomic_store_explicit(&known, bytes, memory_order_relaxed);
  return bytes;
}

/* Whether a call that reads and writes so many bytes streams what it writes. Of several times the
 * last cache little is found there again; of less the last lines are, and threads that write past
 * it wait longer than those that do not. */
static inline bool stream_pays(int64_t bytes) {
  if (bytes < STREAM_LEAST) return false;
  const int64_t cache = stream_last_cache();
  return bytes > cpu_max(cache / 2, cpu_min(4 * cache, STREAM_MOST));
}

/* Bytes to y from a block that stands as far behind a line as y does. stream_end stands behind the
 * last of these. */
static inline void stream_out(char *y, const char *block, int64_t bytes) {
  const int64_t side = sizeof(FLOATS), head = (int64_t)(-(uintptr_t)y & (uintptr_t)(side - 1));
  int64_t i = cpu_min(head, bytes);
  memcpy(y, block, (size_t)i);
  for (; i + side <= bytes; i += side)
    FLOATS_STREAM((float *)(void *)(y + i), FLOATS_LOAD((const float *)(const void *)(block + i)));
  memcpy(y + i, block + i, (size_t)(bytes - i));
}

static inline void stream_end(void) { FLOATS_STREAMED(); }
#else
static inline bool stream_pays(int64_t bytes) { return (void)bytes, false; }
static inline void stream_out(char *y, const char *block, int64_t bytes) {
  memcpy(y, block, (size_t)bytes);
}
static inline void stream_end(void) {}
#endif

#endif
