/* Notices to layers; see notify.h. Places that would otherwise pay for asking whether one wants
 * them are reached through tracked.c. */
#include "dispatcher/notify/notify.h"

#include "dispatcher/notify/origin.h"

uint32_t layer_place(const tn_runtime *runtime, const tn_layer *layer) {
  for (uint32_t i = 0; i < runtime->num_layers; ++i)
    if (runtime->layers[i].layer == layer) return i + 1;
  return 0;
}

static void send(const tn_runtime *runtime, const tn_layer_event *event) {
  for (uint32_t i = 0; i < runtime->num_layers; ++i) {
    const layer_link *link = &runtime->layers[i];
    if (link->layer->notify) link->layer->notify(link->state, event);
  }
}

static tn_layer_event event_of(tn_layer_event_kind kind, const tn_device *device) {
  return (tn_layer_event){
      .struct_size = sizeof(tn_layer_event),
      .kind = kind,
      .device_type = device->type->backend.device_type,
      .device_index = (int32_t)device->index,
      .site = error_call_site(),
      .backend = &device->type->backend,
      .stand_in_for = origin_stands_in_for(),
  };
}

static const void *stream_identity(const tn_stream *stream) {
  if (!stream) return NULL;
  return stream->queue ? stream->queue : stream->device->handle;
}

void notify_tensor(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream) {
  notify_copy(kind, t, stream, 0);
}

void notify_copy(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream,
                 uint64_t began_ns) {
  tn_layer_event event = event_of(kind, t->device);
  event.began_ns = began_ns;
  event.stream = stream_identity(stream);
  event.object = t;
  event.memory = t->storage;
  event.tensor = &t->dl;
  event.bytes = (uint64_t)t->elements * tn_dtype_size((tn_dtype)t->dtype);
  send(t->device->runtime, &event);
}

void notify_stream(tn_layer_event_kind kind, const tn_stream *stream, const void *object) {
  tn_layer_event event = event_of(kind, stream->device);
  event.stream = stream_identity(stream);
  event.object = object;
  send(stream->device->runtime, &event);
}

void notify_waited(const tn_stream *stream, uint64_t began_ns) {
  tn_layer_event event = event_of(TN_LAYER_STREAM_WAITED, stream->device);
  event.stream = stream_identity(stream);
  event.began_ns = began_ns;
  send(stream->device->runtime, &event);
}

void notify_passed(const tn_event *waited, uint64_t began_ns) {
  tn_layer_event event = event_of(TN_LAYER_EVENT_PASSED, waited->device);
  event.object = waited;
  event.began_ns = began_ns;
  send(waited->device->runtime, &event);
}

void notify_order(const tn_stream *first, const tn_stream *second) {
  const char event = 0; /* layers know events by their address */
  notify_object(TN_LAYER_EVENT_MADE, first->device, &event, 0);
  notify_stream(TN_LAYER_EVENT_RECORDED, first, &event);
  notify_stream(TN_LAYER_STREAM_ORDERED, second, &event);
  notify_object(TN_LAYER_EVENT_DESTROYED, first->device, &event, 0);
}

void notify_memory(tn_layer_event_kind kind, const tn_device *device, const void *memory) {
  tn_layer_event event = event_of(kind, device);
  event.memory = memory;
  send(device->runtime, &event);
}

void notify_object(tn_layer_event_kind kind, const tn_device *device, const void *object,
                   uint64_t bytes) {
  tn_layer_event event = event_of(kind, device);
  event.object = object;
  event.bytes = bytes;
  send(device->runtime, &event);
}

void notify_prepared(tn_layer_event_kind kind, const tn_device *device, const void *prepared,
                     const tn_operator *op) {
  tn_layer_event event = event_of(kind, device);
  event.object = prepared;
  event.op = op;
  send(device->runtime, &event);
}

void notify_closing(const tn_runtime *runtime) {
  tn_layer_event event = {
      .struct_size = sizeof event, .kind = TN_LAYER_RUNTIME_CLOSING, .site = error_call_site()};
  send(runtime, &event);
}
