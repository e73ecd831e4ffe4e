/*
 * Memory that programs run in. Nothing in it outlasts a run, and the runs of a stream go one after
 * the other: so programs of one stream share it. Together they take as much as the largest of
 * them, and as much again for each thread that puts runs into the stream at the same time; small
 * programs stay out of memory that is far larger than theirs, which they would keep for themselves.
 */
#ifndef TENON_GRAPH_STREAM_MEMORY_H
#define TENON_GRAPH_STREAM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dispatcher/device/stream.h"

typedef struct stream_memory {
  struct stream_memory *next; /* of the device. Guarded by the device's mutex, as is `users` */
  uint64_t serial;            /* of the stream: another may come to lie where it did */
  uint32_t users;
  atomic_bool busy; /* calls of a run that uses it are being put into the stream */
  tn_tensor *tensor;
} stream_memory;

/* At least so many bytes, other than `not`, for a further user: what the stream has, or new memory.
 * With `now` nobody runs in it, and the user has it for a run, until stream_memory_give; without,
 * each run asks by stream_memory_try. Thread-safe, as all here. */
tn_status stream_memory_take(tn_stream *stream, uint64_t bytes, const stream_memory * not, bool now,
                             stream_memory **taken);
/* A user leaves. pre: it has given it. */
void stream_memory_release(stream_memory *m);

/* Whether the user has it for a run. NULL is nothing, which everybody may have. */
static inline bool stream_memory_try(stream_memory *m) {
  return !m || !atomic_exchange_explicit(&m->busy, true, memory_order_acquire);
}

static inline void stream_memory_give(stream_memory *m) {
  if (m) atomic_store_explicit(&m->busy, false, memory_order_release);
}

#endif
