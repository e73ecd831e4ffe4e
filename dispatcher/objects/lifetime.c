/*
 * How long runtimes live. References keep one whole, and weak ones the structs of the runtime
 * and its devices, default streams included. Nobody gives the handles of these back one by one,
 * so a program may still hold one when its runtime is gone, and garbage collectors close in any
 * order. Such a struct says of itself that it is closed, and so refuses every call. The last 64
 * are kept; they are of the C library's memory, since the host's allocator may be gone by then.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/objects/device.h"

enum { CLOSED_KEPT = 64 };

static _Atomic(tn_runtime *) kept[CLOSED_KEPT];
static _Atomic uint32_t next_place;

void *handle_alloc(size_t bytes) {
  void *handle = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  return handle ? memset(handle, 0, bytes) : NULL;
}

void handle_free(void *handle) { free(handle); }

static void free_all(tn_runtime *runtime) {
  for (tn_device *d = runtime->closed_devices, *next; d; d = next) {
    next = d->next_closed;
    pthread_mutex_destroy(&d->mutex);
    pthread_mutex_destroy(&d->recording);
    free(d);
  }
  pthread_mutex_destroy(&runtime->loading);
  pthread_mutex_destroy(&runtime->mutex);
  free(runtime);
}

/* Nothing but the structs is left. */
static bool closed_is_valid(const tn_runtime *r) {
  for (const tn_device *d = r->closed_devices; d; d = d->next_closed)
    if (d->runtime != r || d->handle || d->pool || d->streams || d->events || d->ready)
      return false;
  return !r->refs && !r->threads && !r->num_devices && !r->num_layers && !r->notified && !r->pinned;
}

void runtime_release(tn_runtime *runtime) {
  INVARIANT(atomic_load(&runtime->refs) && atomic_load(&runtime->weak_refs));
  if (atomic_fetch_sub(&runtime->refs, 1) == 1) runtime->hooks->destroy(runtime);
}

void runtime_release_weak(tn_runtime *runtime) {
  if (atomic_fetch_sub(&runtime->weak_refs, 1) != 1) return;
  INVARIANT(closed_is_valid(runtime));
  uint32_t place = atomic_fetch_add(&next_place, 1) % CLOSED_KEPT;
  tn_runtime *oldest = atomic_exchange(&kept[place], runtime);
  if (oldest) free_all(oldest);
}
