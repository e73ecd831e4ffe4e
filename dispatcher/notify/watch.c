/* Who watches: a thread's watcher, a recording device's, and the devices' bits; see watch.h. */
#include "dispatcher/notify/watch.h"

#include "dispatcher/notify/origin.h"
#include "dispatcher/objects/tensor.h"

static _Thread_local call_watcher *of_thread;

call_watcher *thread_watcher(void) { return of_thread; }

static void mark(tn_device *d, bool watched) {
  if (watched)
    atomic_fetch_or(&d->attention, DEVICE_WATCHED);
  else
    atomic_fetch_and(&d->attention, (uint8_t)~DEVICE_WATCHED);
}

void watch_count(tn_runtime *r, bool more) {
  pthread_mutex_lock(&r->mutex);
  bool changed = more ? r->num_watchers++ == 0 : --r->num_watchers == 0;
  for (uint32_t i = 0; changed && i < atomic_load(&r->num_devices); ++i)
    mark(atomic_load(&r->devices[i]), more);
  pthread_mutex_unlock(&r->mutex);
}

call_watcher *thread_watcher_set(call_watcher *w) {
  call_watcher *before = of_thread;
  of_thread = w;
  if (w) {
    runtime_retain(w->runtime);
    watch_count(w->runtime, true);
  }
  if (before && !runtime_is_forked(before->runtime)) { /* else locks may be held for ever */
    watch_count(before->runtime, false);
    runtime_release(before->runtime);
  }
  return before;
}

bool thread_watcher_pause(bool paused) {
  bool before = of_thread && of_thread->paused;
  if (of_thread) of_thread->paused = paused;
  return before;
}

void device_watcher_set(tn_device *device, call_watcher *w) {
  device->watcher = w;
  mark(device, w != NULL);
}

static __attribute__((cold)) call_watcher *watcher_of(const tn_device *device) {
  call_watcher *w = device->recorder ? device->watcher : of_thread;
  if (!w || w->paused || (!device->recorder && w->runtime != device->runtime)) return NULL;
  return origin_stands_in_for() ? NULL : w; /* stand-ins are part of another call */
}

bool is_watched(const tn_device *device) {
  return watcher_of(device) || (atomic_load(&num_guards) && guard_listens(device));
}

bool watcher_call(const tn_device *device, const tn_call *call, tn_status *status) {
  call_watcher *w = device->recorder ? device->watcher : of_thread;
  if (!w || w->paused || (!device->recorder && w->runtime != device->runtime)) return false;
  w->paused = true;
  *status = w->call(w, call);
  w->paused = false;
  return true;
}

tn_status watch_written(const tn_tensor *tensor) {
  call_watcher *w = watcher_of(tensor->device);
  guard_tell(tensor->device, NULL, tensor);
  return w && w->written ? w->written(w, tensor) : TN_OK;
}

tn_status watch_refuse(const tn_device *device, const char *function) {
  if (!watcher_of(device)) return TN_OK;
  return fail(TN_ERR_UNSUPPORTED,
              "%s: this thread's calls on device %s are being recorded, and prepared calls and "
              "programs are not: make the call by its function, or end or pause the recording",
              function, device->id);
}
