/*
 * Streams and events: thin handles over a backend's queues. On a synchronous device a
 * stream is only a memory cache and an event only a time; layers are told of both as of any
 * other, for what a program leaves unordered there is wrong on other devices.
 */
#include "dispatcher/device/stream.h"

#include "dispatcher/base/clock.h"
#include "dispatcher/base/invariant.h"
#include "dispatcher/device/device.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"

/* Open, it has a cache that names it, and a queue where the device has queues. */
static bool stream_is_valid(const tn_stream *s) {
  if (!s->cache) return !s->queue && !s->native;
  bool queued = s->device->synchronous ? !s->queue || s->queue == s : s->queue != NULL;
  return pool_cache_stream(s->cache) == s && queued;
}

static bool event_is_valid(const tn_event *e) {
  return e->shut ? !e->handle : !e->handle == e->device->synchronous;
}

static tn_status queue_make(tn_stream *s) {
  tn_device *d = s->device;
  const tn_backend *b = &d->type->backend;
  if (d->synchronous) {
    if (d->runtime->notified) s->queue = s; /* an identity for layers: stream_queue hides it */
    return TN_OK;
  }
  fail_set_reason(false);
  tn_status status = b->queue_create(d->handle, &s->queue);
  if (status) s->queue = NULL;
  status = device_made(d, "queue_create", status, s->queue);
  if (!status && b->queue_native) s->native = b->queue_native(d->handle, s->queue);
  return status;
}

/* The same around the vendor's handle. */
static tn_status queue_take(tn_stream *s, void *native) {
  tn_device *d = s->device;
  const tn_backend *b = &d->type->backend;
  if (d->synchronous && !native) return queue_make(s);
  if (d->synchronous)
    return fail(TN_ERR_UNSUPPORTED,
                "device %s works in its caller and has no streams of its own: the only handle to "
                "wrap is NULL",
                d->id);
  if (!b->queue_wrap)
    return fail(TN_ERR_UNSUPPORTED, "device %s: its plugin %s takes no streams that others made",
                d->id, d->type->plugin->name);
  fail_set_reason(false);
  tn_status status = b->queue_wrap(d->handle, native, &s->queue);
  if (status) s->queue = NULL;
  status = device_made(d, "queue_wrap", status, s->queue);
  if (!status) s->native = native;
  return status;
}

static void queue_drop(tn_stream *s) {
  if (s->queue && !s->device->synchronous)
    s->device->type->backend.queue_destroy(s->device->handle, s->queue);
  s->queue = s->native = NULL;
}

/* pre: `status` says what became of its queue. */
static tn_status open_cache(tn_stream *stream, tn_status status) {
  if (status) return status;
  status = pool_cache_open(stream->device->pool, stream, &stream->cache);
  if (status) queue_drop(stream);
  INVARIANT(status || stream_is_valid(stream));
  return status;
}

static void stream_init(tn_device *device, tn_stream *stream) {
  static _Atomic uint64_t opened;
  stream->device = device;
  stream->serial = atomic_fetch_add(&opened, 1) + 1;
}

tn_status stream_open(tn_device *device, tn_stream *stream) {
  stream_init(device, stream);
  return open_cache(stream, queue_make(stream));
}

static tn_status stream_open_around(tn_device *device, void *native, tn_stream *stream) {
  stream_init(device, stream);
  return open_cache(stream, queue_take(stream, native));
}

static tn_status queue_wait(const tn_stream *s) {
  tn_device *d = s->device;
  if (d->synchronous) return TN_OK;
  return device_result(d, "queue_wait", d->type->backend.queue_wait(d->handle, s->queue));
}

tn_status stream_wait(tn_stream *stream) {
  tn_device *d = stream->device;
  uint64_t began = notify_clock(d->runtime);
  INVARIANT(stream->cache && stream_is_valid(stream));
  tn_status status = queue_wait(stream);
  if (began && !status) notify_waited(stream, began);
  return status;
}

bool stream_exists(tn_device *device, uint64_t serial) {
  pthread_mutex_lock(&device->mutex);
  const tn_stream *s = device->streams;
  while (s && s->serial != serial) s = s->next;
  pthread_mutex_unlock(&device->mutex);
  return s || device->own_stream.serial == serial;
}

void stream_shut(tn_stream *stream) {
  if (!stream->cache) return;
  const tn_device *device = stream->device;
  pool_cache_retire(stream->cache); /* what its visitors still put into it is waited for */
  (void)stream_wait(stream);        /* a lost device has nothing left to wait for */
  pool_cache_close(stream->cache);
  stream->cache = NULL;
  if (device->runtime->notified)
    notify_stream(TN_LAYER_STREAM_DESTROYED, stream, stream == &device->own_stream ? NULL : stream);
  queue_drop(stream);
  INVARIANT(stream_is_valid(stream));
}

/* pre: the device's mutex is held. */
static bool stream_is_linked(const tn_stream *s) {
  return (s->previous ? s->previous->next : s->device->streams) == s &&
         (!s->next || s->next->previous == s);
}

static void link_stream(tn_device *device, tn_stream *s) {
  pthread_mutex_lock(&device->mutex);
  s->next = device->streams;
  if (s->next) s->next->previous = s;
  device->streams = s;
  INVARIANT(stream_is_linked(s));
  pthread_mutex_unlock(&device->mutex);
}

static void unlink_stream(tn_device *device, tn_stream *s) {
  pthread_mutex_lock(&device->mutex);
  INVARIANT(stream_is_linked(s));
  if (s->next) s->next->previous = s->previous;
  *(s->previous ? &s->previous->next : &device->streams) = s->next;
  pthread_mutex_unlock(&device->mutex);
}

/* Zeroed memory for a stream of a device that is ready. */
static tn_status stream_alloc(const char *function, tn_device *device, tn_stream **stream) {
  if (!device || !stream)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: device and stream must not be NULL", function);
  tn_status status = device_ready(device);
  if (status) return status;
  *stream = host_alloc(&device->runtime->memory, sizeof **stream);
  return *stream ? TN_OK : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a stream");
}

/* Hands a stream out, if `status` says that it was opened. */
static tn_status stream_publish(tn_status status, tn_device *device, tn_stream *made,
                                tn_stream **stream) {
  if (status) {
    host_free(&device->runtime->memory, made);
    return status;
  }
  link_stream(device, made);
  runtime_retain_weak(device->runtime);
  if (device->runtime->notified) notify_stream(TN_LAYER_STREAM_MADE, made, made);
  *stream = made;
  return TN_OK;
}

tn_status tn_stream_create(tn_device *device, tn_stream **stream) {
  tn_stream *made;
  tn_status status = stream_alloc("tn_stream_create", device, stream ? &made : NULL);
  if (status) return status;
  return stream_publish(stream_open(device, made), device, made, stream);
}

tn_status tn_stream_wrap(tn_device *device, void *native, tn_stream **stream) {
  tn_stream *made;
  tn_status status = stream_alloc("tn_stream_wrap", device, stream ? &made : NULL);
  if (status) return status;
  status = stream_open_around(device, native, made);
  if (status) fail_prefix("tn_stream_wrap: ");
  return stream_publish(status, device, made, stream);
}

void tn_stream_destroy(tn_stream *stream) {
  if (!stream || stream == &stream->device->own_stream) return;
  tn_runtime *runtime = stream->device->runtime;
  if (runtime_is_forked(runtime)) return; /* the parent's, like all behind it */
  /* First, since from then on another thread's device_wait passes it over. */
  if (stream->cache) (void)queue_wait(stream);
  unlink_stream(stream->device, stream);
  stream_shut(stream);
  host_free(&runtime->memory, stream);
  runtime_release_weak(runtime);
}

tn_status tn_stream_synchronize(tn_stream *stream) {
  if (!stream) return fail(TN_ERR_INVALID_ARGUMENT, "tn_stream_synchronize: stream is NULL");
  tn_status status = device_check(stream->device);
  if (!status) status = stream_wait(stream);
  return status;
}

tn_device *tn_stream_device(const tn_stream *stream) { return stream ? stream->device : NULL; }

void *tn_stream_native(const tn_stream *stream) { return stream ? stream->native : NULL; }

tn_stream *tn_device_default_stream(tn_device *device) {
  return device && !device_ready(device) ? device->default_stream : NULL;
}

/* --- events --- */

static tn_status event_check(const tn_event *event, const char *function) {
  if (!event) return fail(TN_ERR_INVALID_ARGUMENT, "%s: event is NULL", function);
  return device_check(event->device);
}

/* pre: the device's mutex is held. */
static bool event_is_linked(const tn_event *e) {
  return (e->previous ? e->previous->next : e->device->events) == e &&
         (!e->next || e->next->previous == e);
}

static void link_event(tn_device *device, tn_event *e) {
  pthread_mutex_lock(&device->mutex);
  e->next = device->events;
  if (e->next) e->next->previous = e;
  device->events = e;
  INVARIANT(event_is_linked(e) && event_is_valid(e));
  pthread_mutex_unlock(&device->mutex);
}

static void unlink_event(tn_device *device, tn_event *e) {
  pthread_mutex_lock(&device->mutex);
  INVARIANT(event_is_linked(e));
  if (e->next) e->next->previous = e->previous;
  *(e->previous ? &e->previous->next : &device->events) = e->next;
  pthread_mutex_unlock(&device->mutex);
}

tn_status tn_event_create(tn_device *device, tn_event **event) {
  if (!device || !event)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_event_create: device and event must not be NULL");
  tn_status status = device_ready(device);
  if (status) return status;
  tn_event *e = host_alloc(&device->runtime->memory, sizeof *e);
  if (!e) return fail(TN_ERR_OUT_OF_MEMORY, "tn_event_create: no host memory");
  e->device = device;
  if (!device->synchronous) {
    fail_set_reason(false);
    status = device->type->backend.event_create(device->handle, &e->handle);
    status = device_made(device, "event_create", status, e->handle);
  }
  if (status) {
    host_free(&device->runtime->memory, e);
    return status;
  }
  link_event(device, e);
  runtime_retain_weak(device->runtime);
  if (device->runtime->notified) notify_object(TN_LAYER_EVENT_MADE, device, e, 0);
  *event = e;
  return TN_OK;
}

void event_shut(tn_event *event) {
  if (event->shut) return;
  tn_device *d = event->device;
  if (event->handle) d->type->backend.event_destroy(d->handle, event->handle);
  event->handle = NULL;
  event->shut = true;
  INVARIANT(event_is_valid(event));
  if (d->runtime->notified) notify_object(TN_LAYER_EVENT_DESTROYED, d, event, 0);
}

void tn_event_destroy(tn_event *event) {
  if (!event || runtime_is_forked(event->device->runtime)) return;
  tn_runtime *runtime = event->device->runtime;
  unlink_event(event->device, event);
  event_shut(event);
  host_free(&runtime->memory, event);
  runtime_release_weak(runtime);
}

tn_status tn_event_record(tn_event *event, tn_stream *stream) {
  tn_status status = event_check(event, "tn_event_record");
  if (status) return status;
  tn_device *d = event->device;
  if (!stream) stream = d->default_stream;
  if (stream->device != d)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_event_record: the stream is of device %s, the event "
                "of %s",
                stream->device->id, d->id);
  if (event->handle)
    status = device_result(d, "event_record",
                           d->type->backend.event_record(d->handle, event->handle, stream->queue));
  else
    event->recorded_ns = clock_ns();
  if (status) return status;
  INVARIANT(event_is_valid(event) && stream_is_valid(stream));
  event->recorded = true;
  if (d->runtime->notified) notify_stream(TN_LAYER_EVENT_RECORDED, stream, event);
  return TN_OK;
}

/* pre: recorded. */
static tn_status event_await(const tn_event *event) {
  tn_device *d = event->device;
  uint64_t began = notify_clock(d->runtime);
  tn_status status = TN_OK;
  if (event->handle) status = d->type->backend.event_wait(d->handle, event->handle);
  if (began && !status) notify_passed(event, began);
  return device_result(d, "event_wait", status);
}

tn_status tn_event_query(tn_event *event) {
  tn_status status = event_check(event, "tn_event_query");
  if (status || !event->recorded) return status;
  tn_device *d = event->device;
  if (event->handle) status = d->type->backend.event_query(d->handle, event->handle);
  if (!status && d->runtime->notified) notify_passed(event, 0);
  return status == TN_ERR_NOT_READY ? status : device_result(d, "event_query", status);
}

tn_status tn_event_synchronize(tn_event *event) {
  tn_status status = event_check(event, "tn_event_synchronize");
  if (status || !event->recorded) return status;
  return event_await(event);
}

tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event) {
  tn_status status = event_check(event, "tn_stream_wait_event");
  if (!status && stream) status = device_check(stream->device);
  if (status) return status;
  tn_device *d = event->device;
  if (!stream) stream = d->default_stream;
  if (!event->recorded) return TN_OK;
  if (stream->device->type != d->type) /* the vendor cannot order them: the caller waits */
    return event_await(event);
  if (event->handle)
    status =
        d->type->backend.queue_wait_event(stream->device->handle, stream->queue, event->handle);
  status = device_result(d, "queue_wait_event", status);
  if (!status && d->runtime->notified) notify_stream(TN_LAYER_STREAM_ORDERED, stream, event);
  return status;
}

tn_status tn_event_elapsed(tn_event *begin, tn_event *end, uint64_t *ns) {
  tn_status status = event_check(begin, "tn_event_elapsed");
  if (!status) status = event_check(end, "tn_event_elapsed");
  if (status) return status;
  if (!ns || begin->device != end->device || !begin->recorded || !end->recorded)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_event_elapsed: needs two recorded events of one device");
  tn_device *d = begin->device;
  if (!begin->handle) {
    *ns = end->recorded_ns - begin->recorded_ns;
    return TN_OK;
  }
  return device_result(d, "event_elapsed",
                       d->type->backend.event_elapsed(d->handle, begin->handle, end->handle, ns));
}
