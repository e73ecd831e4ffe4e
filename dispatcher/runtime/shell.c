/*
 * Shells: the structs of runtimes and devices, default streams included. Nobody gives these
 * handles back one by one, so a program may still hold one when its runtime is gone, and
 * garbage collectors close in any order. Such a shell says of itself that it is closed, and
 * so refuses every call. The last 64 are kept; they are of the C library's memory, since
 * the host's allocator may be gone by then.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/runtime/runtime.h"

enum { SHELLS_KEPT = 64 };

static _Atomic(tn_runtime *) kept[SHELLS_KEPT];
static _Atomic uint32_t next_place;

void *shell_alloc(size_t bytes) {
  void *shell = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  return shell ? memset(shell, 0, bytes) : NULL;
}

void shell_free(void *shell) { free(shell); }

static void free_all(tn_runtime *runtime) {
  for (tn_device *d = runtime->shells, *next; d; d = next) {
    next = d->next_shell;
    pthread_mutex_destroy(&d->mutex);
    free(d);
  }
  pthread_mutex_destroy(&runtime->loading);
  pthread_mutex_destroy(&runtime->mutex);
  free(runtime);
}

/* Nothing but the structs is left. */
static bool shell_is_valid(const tn_runtime *r) {
  for (const tn_device *d = r->shells; d; d = d->next_shell)
    if (d->runtime != r || d->handle || d->pool || d->streams || d->events || d->ready)
      return false;
  return !r->held && !r->threads && !r->num_devices && !r->num_layers && !r->watch;
}

void shell_drop(tn_runtime *runtime) {
  if (atomic_fetch_sub(&runtime->shell_held, 1) != 1) return;
  INVARIANT(shell_is_valid(runtime));
  uint32_t place = atomic_fetch_add(&next_place, 1) % SHELLS_KEPT;
  tn_runtime *oldest = atomic_exchange(&kept[place], runtime);
  if (oldest) free_all(oldest);
}
