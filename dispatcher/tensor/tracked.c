/*
 * Tracked tensors: headers of their own, in quarantine after their release. A released
 * header names a device and a runtime that refuse every call, so that no function needs a
 * test of its own to find it.
 */
#include "dispatcher/tensor/tracked.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"

/* What dl.device says in a released header. */
enum { RELEASED_DEVICE = 0x7e1ea5ed };

typedef struct tracked {
  tn_tensor tensor; /* first: the handle is its address */
  tn_device *device;
  _Atomic bool released;
  bool told; /* that it was made */
  tn_dtype dtype;
  int32_t rank;
  char made_at[SITE_BYTES], released_at[SITE_BYTES];
} tracked;

struct tracking {
  pthread_mutex_t mutex;
  tracked *quarantine[QUARANTINE_MAX]; /* a ring */
  size_t next;
  /* What released headers point to. */
  tn_runtime *runtime;
  tn_device device;
  storage storage;
};

/* --- opening and closing --- */

/* A runtime that is closed, with no operator and no device: what looks at it before it is
 * refused finds nothing. */
static tn_runtime *stand_in_make(const tn_runtime *runtime, tn_device *device) {
  tn_runtime *stand_in = host_alloc(&runtime->memory, sizeof *stand_in);
  if (!stand_in) return NULL;
  stand_in->memory = runtime->memory;
  stand_in->fork_generation = runtime->fork_generation;
  stand_in->closed = true;
  stand_in->is_quarantine = true;
  stand_in->chosen = device;
  pthread_mutex_init(&stand_in->mutex, NULL);
  return stand_in;
}

tn_status tracking_open(tn_runtime *runtime) {
  struct tracking *w = host_alloc(&runtime->memory, sizeof *w);
  tn_runtime *stand_in = w ? stand_in_make(runtime, &w->device) : NULL;
  if (!stand_in) {
    host_free(&runtime->memory, w);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for layers");
  }
  pthread_mutex_init(&w->mutex, NULL);
  w->runtime = w->device.runtime = stand_in;
  snprintf(w->device.id, sizeof w->device.id, "released");
  w->storage.device = &w->device;
  runtime->tracking = w;
  runtime->notified = true;
  return TN_OK;
}

void tracking_close(tn_runtime *runtime) {
  struct tracking *w = runtime->tracking;
  if (!w) return;
  for (size_t i = 0; i < QUARANTINE_MAX; ++i) host_free(&runtime->memory, w->quarantine[i]);
  pthread_mutex_destroy(&w->mutex);
  pthread_mutex_destroy(&w->runtime->mutex);
  host_free(&runtime->memory, w->runtime);
  host_free(&runtime->memory, w);
  runtime->tracking = NULL;
  runtime->notified = false;
}

/* --- headers --- */

/* The host's text lives until it names another place: keep a copy. */
static void keep_site(char *to) {
  const char *site = error_call_site();
  snprintf(to, SITE_BYTES, "%s", site ? site : "");
}

tn_tensor *tracked_header(tn_runtime *runtime) {
  tracked *w = host_alloc(&runtime->memory, sizeof *w);
  if (!w) return NULL;
  w->tensor.spare = SPARE_TRACKED;
  keep_site(w->made_at);
  return &w->tensor;
}

void tracked_made(tn_tensor *t, const tn_stream *stream) {
  tracked *w = (tracked *)(void *)t;
  if (w->told) return;
  w->told = true;
  w->device = t->device;
  atomic_store_explicit(&t->refs, TRACKED_REFS + 1, memory_order_relaxed);
  INVARIANT(t->spare == SPARE_TRACKED && !atomic_load(&w->released) &&
            t->device->runtime->notified);
  notify_tensor(TN_LAYER_TENSOR_MADE, t, stream);
}

/* The header's shape stays, for messages; all that is looked at first says: nothing here. */
static void poison(tracked *w, struct tracking *tracking) {
  tn_tensor *t = &w->tensor;
  w->dtype = (tn_dtype)t->dtype;
  w->rank = t->dl.ndim;
  keep_site(w->released_at);
  t->device = &tracking->device;
  t->storage = &tracking->storage;
  t->dl.device.device_type = (DLDeviceType)RELEASED_DEVICE;
  t->dl.data = NULL;
  t->dl.byte_offset = 0;
  t->dl.ndim = 0;
  t->dtype = TN_DTYPE_NONE;
  t->elements = 0;
  t->contiguous = true;
  atomic_store(&w->released, true);
}

/* What is in quarantine has been released, and can no longer be used. pre: the mutex is held. */
static bool quarantine_is_valid(const struct tracking *tracking) {
  for (size_t i = 0; i < QUARANTINE_MAX; ++i) {
    const tracked *w = tracking->quarantine[i];
    if (w && (!atomic_load(&w->released) || w->tensor.spare != SPARE_TRACKED ||
              w->tensor.device != &tracking->device || w->tensor.dl.data))
      return false;
  }
  return tracking->next < QUARANTINE_MAX && tracking->runtime->is_quarantine &&
         tracking->runtime->closed;
}

static void quarantine(tracked *w) {
  storage *s = w->tensor.storage;
  tn_runtime *runtime = w->device->runtime;
  struct tracking *tracking = runtime->tracking;
  notify_tensor(TN_LAYER_TENSOR_RELEASED, &w->tensor, NULL);
  bool last = atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1;
  if (last) notify_memory(TN_LAYER_MEMORY_RELEASED, s->device, s);
  pthread_mutex_lock(&tracking->mutex);
  poison(w, tracking);
  tracked *oldest = tracking->quarantine[tracking->next];
  tracking->quarantine[tracking->next] = w;
  tracking->next = (tracking->next + 1) % QUARANTINE_MAX;
  INVARIANT_OF_ALL(quarantine_is_valid(tracking));
  pthread_mutex_unlock(&tracking->mutex);
  host_free(&runtime->memory, oldest);
  if (!last) return;
  if (atomic_load(&runtime->closed))
    storage_free_closed(runtime, s);
  else
    storage_free(s);
}

void tracked_release(tn_tensor *t) {
  tracked *w = (tracked *)(void *)t;
  if (runtime_is_forked(w->device->runtime)) return;
  uint32_t refs = atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) - 1;
  if (atomic_load(&w->released) || refs < TRACKED_REFS) {
    atomic_store(&t->refs, TRACKED_REFS);
    (void)tracked_explain(t, "tn_tensor_release", TN_ERR_INVALID_ARGUMENT);
  } else if (refs == TRACKED_REFS) {
    quarantine(w);
  }
}

void tracked_exposed(const tn_tensor *t) {
  if (t->spare == SPARE_TRACKED && device_is_fine(t->device))
    notify_tensor(TN_LAYER_TENSOR_EXPOSED, t, NULL);
}

/* --- misuse --- */

bool tracked_is_released(const tn_tensor *t) {
  return t && t->spare == SPARE_TRACKED &&
         atomic_load(&((const tracked *)(const void *)t)->released);
}

tn_status tracked_explain(const tn_tensor *t, const char *function, tn_status status) {
  if (!tracked_is_released(t)) return status;
  const tracked *w = (const tracked *)(const void *)t;
  char shape[128];
  notify_object(TN_LAYER_TENSOR_MISUSED, w->device, t, 0);
  return fail(TN_ERR_INVALID_ARGUMENT,
              "%s: the tensor (%s %s %s, made at %s) is used after its release at %s", function,
              w->device->id, tn_dtype_name(w->dtype),
              shape_text(shape, sizeof shape, w->rank, t->shape),
              w->made_at[0] ? w->made_at : "no named site",
              w->released_at[0] ? w->released_at : "no named site");
}

static tn_status check_arg(const DLTensor *t) {
  if (!t || (int)t->device.device_type != RELEASED_DEVICE) return TN_OK;
  return tracked_explain((const tn_tensor *)(const void *)t, "tn_run", TN_ERR_INVALID_ARGUMENT);
}

tn_status tracked_check_args(const op_entry *op, const tn_kernel_args *args) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < (uint32_t)args->num_in + args->num_out; ++i)
    status = check_arg(i < args->num_in ? args->in[i] : args->out[i - args->num_in]);
  for (uint32_t i = 0; !status && args->attrs && i < op->num_tensors; ++i) {
    const tn_tensor *t;
    memcpy(&t, (const char *)args->attrs + op_attr_tensor(op, i)->offset, sizeof t);
    status = check_arg(tn_attr_view(t));
  }
  return status;
}
