/*
 * Watched tensors: headers of their own, kept in a ring after their release. A released
 * header names a device and a runtime that refuse every call, so that no function needs a
 * test of its own to find it.
 */
#include "dispatcher/layers/watch.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/shape/shape.h"

/* What dl.device says in a released header. */
enum { RELEASED_DEVICE = 0x7e1ea5ed };

typedef struct watched {
  tn_tensor tensor; /* first: the handle is its address */
  tn_device *device;
  _Atomic bool released;
  bool told; /* that it was made */
  tn_dtype dtype;
  int32_t rank;
  char made_at[WATCH_SITE], released_at[WATCH_SITE];
} watched;

typedef struct pinned {
  const char *begin;
  size_t bytes;
  struct pinned *next;
} pinned;

struct watch {
  pthread_mutex_t mutex; /* guards the ring and the list */
  watched *kept[WATCH_KEPT];
  size_t next;
  pinned *pinned;
  /* What released headers point to. */
  tn_runtime *runtime;
  tn_device device;
  storage storage;
};

/* --- opening and closing --- */

/* A runtime that is closed, with no operator and no device: what looks at it before it is
 * refused finds nothing. */
static tn_runtime *grave_make(const tn_runtime *runtime, tn_device *device) {
  tn_runtime *grave = host_alloc(&runtime->memory, sizeof *grave);
  if (!grave) return NULL;
  grave->memory = runtime->memory;
  grave->fork_generation = runtime->fork_generation;
  grave->closed = true;
  grave->is_grave = true;
  grave->chosen = device;
  pthread_mutex_init(&grave->mutex, NULL);
  return grave;
}

tn_status watch_open(tn_runtime *runtime) {
  struct watch *w = host_alloc(&runtime->memory, sizeof *w);
  tn_runtime *grave = w ? grave_make(runtime, &w->device) : NULL;
  if (!grave) {
    host_free(&runtime->memory, w);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for layers");
  }
  pthread_mutex_init(&w->mutex, NULL);
  w->runtime = w->device.runtime = grave;
  snprintf(w->device.id, sizeof w->device.id, "released");
  w->storage.device = &w->device;
  runtime->watch = w;
  return TN_OK;
}

void watch_close(tn_runtime *runtime) {
  struct watch *w = runtime->watch;
  if (!w) return;
  for (size_t i = 0; i < WATCH_KEPT; ++i) host_free(&runtime->memory, w->kept[i]);
  for (pinned *p = w->pinned, *next; p; p = next) {
    next = p->next;
    host_free(&runtime->memory, p);
  }
  pthread_mutex_destroy(&w->mutex);
  pthread_mutex_destroy(&w->runtime->mutex);
  host_free(&runtime->memory, w->runtime);
  host_free(&runtime->memory, w);
  runtime->watch = NULL;
}

/* --- headers --- */

/* The host's text lives until it names another place: keep a copy. */
static void keep_site(char *to) {
  const char *site = error_call_site();
  snprintf(to, WATCH_SITE, "%s", site ? site : "");
}

tn_tensor *watch_header(tn_runtime *runtime) {
  watched *w = host_alloc(&runtime->memory, sizeof *w);
  if (!w) return NULL;
  w->tensor.spare = SPARE_WATCHED;
  keep_site(w->made_at);
  return &w->tensor;
}

void watch_made(tn_tensor *t, const tn_stream *stream) {
  watched *w = (watched *)(void *)t;
  if (w->told) return;
  w->told = true;
  w->device = t->device;
  atomic_store_explicit(&t->refs, WATCH_REFS + 1, memory_order_relaxed);
  INVARIANT(t->spare == SPARE_WATCHED && !atomic_load(&w->released) && t->device->runtime->watch);
  notify_tensor(TN_LAYER_TENSOR_MADE, t, stream);
}

/* The header's shape stays, for messages; all that is looked at first says: nothing here. */
static void poison(watched *w, struct watch *watch) {
  tn_tensor *t = &w->tensor;
  w->dtype = (tn_dtype)t->dtype;
  w->rank = t->dl.ndim;
  keep_site(w->released_at);
  t->device = &watch->device;
  t->storage = &watch->storage;
  t->dl.device.device_type = (DLDeviceType)RELEASED_DEVICE;
  t->dl.data = NULL;
  t->dl.byte_offset = 0;
  t->dl.ndim = 0;
  t->dtype = TN_DTYPE_NONE;
  t->elements = 0;
  t->contiguous = true;
  atomic_store(&w->released, true);
}

/* What is kept has been released, and can no longer be used. pre: the watch's mutex is held. */
static bool kept_are_valid(const struct watch *watch) {
  for (size_t i = 0; i < WATCH_KEPT; ++i) {
    const watched *w = watch->kept[i];
    if (w && (!atomic_load(&w->released) || w->tensor.spare != SPARE_WATCHED ||
              w->tensor.device != &watch->device || w->tensor.dl.data))
      return false;
  }
  return watch->next < WATCH_KEPT && watch->runtime->is_grave && watch->runtime->closed;
}

static void bury(watched *w) {
  storage *s = w->tensor.storage;
  tn_runtime *runtime = w->device->runtime;
  struct watch *watch = runtime->watch;
  notify_tensor(TN_LAYER_TENSOR_RELEASED, &w->tensor, NULL);
  bool last = atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1;
  if (last) notify_memory(TN_LAYER_MEMORY_RELEASED, s->device, s);
  pthread_mutex_lock(&watch->mutex);
  poison(w, watch);
  watched *oldest = watch->kept[watch->next];
  watch->kept[watch->next] = w;
  watch->next = (watch->next + 1) % WATCH_KEPT;
  INVARIANT_OF_ALL(kept_are_valid(watch));
  pthread_mutex_unlock(&watch->mutex);
  host_free(&runtime->memory, oldest);
  if (!last) return;
  if (atomic_load(&runtime->closed))
    runtime_release(runtime, s);
  else
    storage_free(s);
}

void watch_release(tn_tensor *t) {
  watched *w = (watched *)(void *)t;
  if (runtime_is_forked(w->device->runtime)) return;
  uint32_t refs = atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) - 1;
  if (atomic_load(&w->released) || refs < WATCH_REFS) {
    atomic_store(&t->refs, WATCH_REFS);
    (void)watch_explain(t, "tn_tensor_release", TN_ERR_INVALID_ARGUMENT);
  } else if (refs == WATCH_REFS) {
    bury(w);
  }
}

void watch_exposed(const tn_tensor *t) {
  if (t->spare == SPARE_WATCHED && device_is_fine(t->device))
    notify_tensor(TN_LAYER_TENSOR_EXPOSED, t, NULL);
}

/* --- misuse --- */

bool watch_is_released(const tn_tensor *t) {
  return t && t->spare == SPARE_WATCHED &&
         atomic_load(&((const watched *)(const void *)t)->released);
}

tn_status watch_explain(const tn_tensor *t, const char *function, tn_status status) {
  if (!watch_is_released(t)) return status;
  const watched *w = (const watched *)(const void *)t;
  char shape[128];
  notify_object(TN_LAYER_TENSOR_MISUSED, w->device, t, 0);
  return fail(TN_ERR_INVALID_ARGUMENT,
              "%s: the tensor (%s %s %s, made at %s) is used after its release at %s", function,
              w->device->id, tn_dtype_name(w->dtype),
              shape_text(shape, sizeof shape, w->rank, t->shape),
              w->made_at[0] ? w->made_at : "no named site",
              w->released_at[0] ? w->released_at : "no named site");
}

tn_status watch_check_args(const tn_kernel_args *args) {
  for (uint32_t i = 0; i < (uint32_t)args->num_in + args->num_out; ++i) {
    const DLTensor *t = i < args->num_in ? args->in[i] : args->out[i - args->num_in];
    if (t && (int)t->device.device_type == RELEASED_DEVICE)
      return watch_explain((const tn_tensor *)(const void *)t, "tn_run", TN_ERR_INVALID_ARGUMENT);
  }
  return TN_OK;
}

/* --- pinned memory --- */

/* Without memory for the record the copy counts as one that waits, which hides a race at
 * the worst. */
void watch_pinned(tn_device *device, const void *ptr, size_t bytes) {
  tn_runtime *runtime = device->runtime;
  pinned *p = host_alloc(&runtime->memory, sizeof *p);
  if (p) {
    p->begin = ptr;
    p->bytes = bytes;
    pthread_mutex_lock(&runtime->watch->mutex);
    p->next = runtime->watch->pinned;
    runtime->watch->pinned = p;
    pthread_mutex_unlock(&runtime->watch->mutex);
  }
  notify_object(TN_LAYER_PINNED_MADE, device, ptr, bytes);
}

void watch_unpinned(tn_device *device, const void *ptr) {
  tn_runtime *runtime = device->runtime;
  pthread_mutex_lock(&runtime->watch->mutex);
  pinned **at = &runtime->watch->pinned, *found;
  while (*at && (const void *)(*at)->begin != ptr) at = &(*at)->next;
  found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&runtime->watch->mutex);
  host_free(&runtime->memory, found);
  notify_object(TN_LAYER_PINNED_FREED, device, ptr, 0);
}

bool watch_is_pinned(tn_runtime *runtime, const void *ptr) {
  pthread_mutex_lock(&runtime->watch->mutex);
  const pinned *p = runtime->watch->pinned;
  while (p && ((const char *)ptr < p->begin || (const char *)ptr >= p->begin + p->bytes))
    p = p->next;
  pthread_mutex_unlock(&runtime->watch->mutex);
  return p != NULL;
}
