/*
 * Streams and events: thin handles over a backend's queues. On a synchronous device a
 * stream is only a memory cache and an event only a time.
 */
#include <time.h>

#include "dispatcher/watch.h"

static tn_status queue_make(tn_stream *s) {
  tn_device *d = s->device;
  const tn_backend *b = &d->type->backend;
  if (d->synchronous) return TN_OK;
  fail_set_reason(false);
  tn_status status = b->queue_create(d->handle, &s->queue);
  if (status) s->queue = NULL;
  status = device_made(d, "queue_create", status, s->queue);
  if (!status && b->queue_native) s->native = b->queue_native(d->handle, s->queue);
  return status;
}

static void queue_drop(tn_stream *s) {
  if (s->queue) s->device->type->backend.queue_destroy(s->device->handle, s->queue);
}

tn_status stream_make(tn_device *device, tn_stream **out) {
  const host_memory *memory = &device->runtime->memory;
  tn_stream *s = host_alloc(memory, sizeof *s);
  if (!s) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a stream");
  s->device = device;
  tn_status status = queue_make(s);
  if (!status) status = pool_cache_open(device->pool, s, &s->cache);
  if (status) {
    queue_drop(s);
    host_free(memory, s);
    return status;
  }
  *out = s;
  return TN_OK;
}

tn_status stream_wait(tn_stream *stream) {
  tn_device *d = stream->device;
  tn_status status = TN_OK;
  uint64_t began = watch_clock(d->runtime);
  if (!d->synchronous)
    status = device_result(d, "queue_wait", d->type->backend.queue_wait(d->handle, stream->queue));
  if (began && !status) notify_waited(stream, began);
  return status;
}

void stream_free(tn_stream *stream) {
  if (!stream) return;
  const tn_device *device = stream->device;
  (void)stream_wait(stream); /* a lost device has nothing left to wait for */
  pool_cache_close(stream->cache);
  if (device->runtime->watch)
    notify_stream(TN_LAYER_STREAM_DESTROYED, stream,
                  stream == device->default_stream ? NULL : stream);
  queue_drop(stream);
  host_free(&device->runtime->memory, stream);
}

tn_status tn_stream_create(tn_device *device, tn_stream **stream) {
  if (!device || !stream)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_stream_create: device and stream must not be NULL");
  tn_status status = device_ready(device);
  tn_stream *made;
  if (!status) status = stream_make(device, &made);
  if (status) return status;
  pthread_mutex_lock(&device->mutex);
  made->next = device->streams;
  if (made->next) made->next->previous = made;
  device->streams = made;
  pthread_mutex_unlock(&device->mutex);
  if (device->runtime->watch) notify_stream(TN_LAYER_STREAM_MADE, made, made);
  *stream = made;
  return TN_OK;
}

void tn_stream_destroy(tn_stream *stream) {
  if (!stream || stream == stream->device->default_stream) return;
  tn_device *device = stream->device;
  if (runtime_is_forked(device->runtime)) return; /* the parent's, like all behind it */
  pthread_mutex_lock(&device->mutex);
  if (stream->next) stream->next->previous = stream->previous;
  if (stream->previous)
    stream->previous->next = stream->next;
  else
    device->streams = stream->next;
  pthread_mutex_unlock(&device->mutex);
  stream_free(stream);
}

tn_status tn_stream_synchronize(tn_stream *stream) {
  if (!stream) return fail(TN_ERR_INVALID_ARGUMENT, "tn_stream_synchronize: stream is NULL");
  tn_status status = device_check(stream->device);
  return status ? status : stream_wait(stream);
}

tn_device *tn_stream_device(const tn_stream *stream) { return stream ? stream->device : NULL; }
void *tn_stream_native(const tn_stream *stream) { return stream ? stream->native : NULL; }

tn_stream *tn_device_default_stream(tn_device *device) {
  return device && !device_ready(device) ? device->default_stream : NULL;
}

/* --- events --- */

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tn_status event_check(const tn_event *event, const char *function) {
  if (!event) return fail(TN_ERR_INVALID_ARGUMENT, "%s: event is NULL", function);
  return device_check(event->device);
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
  if (status)
    host_free(&device->runtime->memory, e);
  else
    *event = e;
  if (!status && device->runtime->watch) notify_object(TN_LAYER_EVENT_MADE, device, e, 0);
  return status;
}

void tn_event_destroy(tn_event *event) {
  if (!event || runtime_is_forked(event->device->runtime)) return;
  tn_device *d = event->device;
  if (event->handle) d->type->backend.event_destroy(d->handle, event->handle);
  if (d->runtime->watch) notify_object(TN_LAYER_EVENT_DESTROYED, d, event, 0);
  host_free(&d->runtime->memory, event);
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
    event->recorded_ns = now_ns();
  if (status) return status;
  event->recorded = true;
  if (d->runtime->watch) notify_stream(TN_LAYER_EVENT_RECORDED, stream, event);
  return TN_OK;
}

/* pre: recorded, with a handle. */
static tn_status event_await(const tn_event *event) {
  tn_device *d = event->device;
  uint64_t began = watch_clock(d->runtime);
  tn_status status = d->type->backend.event_wait(d->handle, event->handle);
  if (began && !status) notify_passed(event, began);
  return device_result(d, "event_wait", status);
}

tn_status tn_event_query(tn_event *event) {
  tn_status status = event_check(event, "tn_event_query");
  if (status || !event->handle || !event->recorded) return status;
  tn_device *d = event->device;
  status = d->type->backend.event_query(d->handle, event->handle);
  if (!status && d->runtime->watch) notify_passed(event, 0);
  return status == TN_ERR_NOT_READY ? status : device_result(d, "event_query", status);
}

tn_status tn_event_synchronize(tn_event *event) {
  tn_status status = event_check(event, "tn_event_synchronize");
  if (status || !event->handle || !event->recorded) return status;
  return event_await(event);
}

tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event) {
  tn_status status = event_check(event, "tn_stream_wait_event");
  if (status) return status;
  tn_device *d = event->device;
  if (!stream) stream = d->default_stream;
  if (!event->handle || !event->recorded) return TN_OK;
  if (stream->device->type != d->type) /* the vendor cannot order them: the caller waits */
    return event_await(event);
  status = d->type->backend.queue_wait_event(stream->device->handle, stream->queue, event->handle);
  status = device_result(d, "queue_wait_event", status);
  if (!status && d->runtime->watch) notify_stream(TN_LAYER_STREAM_ORDERED, stream, event);
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
  if (!begin->handle) return *ns = end->recorded_ns - begin->recorded_ns, TN_OK;
  return device_result(d, "event_elapsed",
                       d->type->backend.event_elapsed(d->handle, begin->handle, end->handle, ns));
}
