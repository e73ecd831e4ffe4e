/* Pinned host memory: made and freed by the backend, remembered while layers want notices. */
#include "dispatcher/device/pinned.h"

#include "dispatcher/device/device.h"
#include "dispatcher/notify/notify.h"

typedef struct pinned {
  const char *begin;
  size_t bytes;
  struct pinned *next;
} pinned;

/* Without memory for the record the copy counts as one that waits, which hides a race at
 * the worst. */
static void pinned_add(tn_device *device, const void *ptr, size_t bytes) {
  tn_runtime *runtime = device->runtime;
  pinned *p = host_alloc(&runtime->memory, sizeof *p);
  if (p) {
    p->begin = ptr;
    p->bytes = bytes;
    pthread_mutex_lock(&runtime->mutex);
    p->next = runtime->pinned;
    runtime->pinned = p;
    pthread_mutex_unlock(&runtime->mutex);
  }
  notify_object(TN_LAYER_PINNED_MADE, device, ptr, bytes);
}

static void pinned_remove(tn_device *device, const void *ptr) {
  tn_runtime *runtime = device->runtime;
  pthread_mutex_lock(&runtime->mutex);
  pinned **at = &runtime->pinned, *found;
  while (*at && (const void *)(*at)->begin != ptr) at = &(*at)->next;
  found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&runtime->mutex);
  host_free(&runtime->memory, found);
  notify_object(TN_LAYER_PINNED_FREED, device, ptr, 0);
}

bool pinned_contains(tn_runtime *runtime, const void *ptr) {
  pthread_mutex_lock(&runtime->mutex);
  const pinned *p = runtime->pinned;
  while (p && ((const char *)ptr < p->begin || (const char *)ptr >= p->begin + p->bytes))
    p = p->next;
  pthread_mutex_unlock(&runtime->mutex);
  return p != NULL;
}

void pinned_free_all(tn_runtime *runtime) {
  for (pinned *p = runtime->pinned, *next; p; p = next) {
    next = p->next;
    host_free(&runtime->memory, p);
  }
  runtime->pinned = NULL;
}

tn_status tn_pinned_alloc(tn_device *device, size_t bytes, void **ptr) {
  if (!device || !ptr || bytes == 0)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_pinned_alloc: device and ptr must not be NULL, nor bytes 0");
  tn_status status = device_ready(device);
  if (status) return status;
  void *made = NULL;
  fail_set_reason(false);
  status = device->type->backend.alloc(device->handle, TN_MEMORY_PINNED, bytes, &made);
  status = device_made(device, "alloc", status, made);
  if (status) return status;
  *ptr = made;
  runtime_retain(device->runtime);
  if (device->runtime->notified) pinned_add(device, made, bytes);
  return TN_OK;
}

void tn_pinned_free(tn_device *device, void *ptr) {
  if (!device || !ptr || !atomic_load(&device->ready) || runtime_is_forked(device->runtime)) return;
  if (device->runtime->notified) pinned_remove(device, ptr);
  device->type->backend.free(device->handle, TN_MEMORY_PINNED, ptr);
  runtime_release(device->runtime);
}
