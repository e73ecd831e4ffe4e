/*
 * Notices: what layers are told beside calls, of tensors, streams, events and memory. Nothing of
 * this is entered while no layer that wants them is on; `runtime->notified` says whether one is.
 */
#ifndef TENON_DISPATCHER_NOTIFY_H
#define TENON_DISPATCHER_NOTIFY_H

#include "dispatcher/base/clock.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"

/* One layer that is on, with the state that its open made. */
typedef struct layer_link {
  const tn_layer *layer;
  const char *plugin;
  void *state;
} layer_link;

/* The layer's place in the order of calls, from 1 on; 0 where it is not on. */
uint32_t layer_place(const tn_runtime *runtime, const tn_layer *layer);

/* The time if the runtime is notified, else 0. */
static inline uint64_t notify_clock(const tn_runtime *runtime) {
  if (__builtin_expect(!runtime->notified, 1)) return 0;
  return clock_ns();
}

/* Tell the layers. pre: the runtime is notified. `stream` may be NULL. */
void notify_tensor(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream);
/* A copy that began at the time of notify_clock and is done, as far as the host is concerned. */
void notify_copy(tn_layer_event_kind kind, const tn_tensor *t, const tn_stream *stream,
                 uint64_t began_ns);
void notify_stream(tn_layer_event_kind kind, const tn_stream *stream, const void *object);
/* Work of `second` from here on comes behind `first`'s, as if by an event of the program's. */
void notify_order(const tn_stream *first, const tn_stream *second);
/* The host waited for the stream, or the event, from then until now. */
void notify_waited(const tn_stream *stream, uint64_t began_ns);
void notify_passed(const tn_event *event, uint64_t began_ns);
void notify_memory(tn_layer_event_kind kind, const tn_device *device, const void *memory);
void notify_object(tn_layer_event_kind kind, const tn_device *device, const void *object,
                   uint64_t bytes);
void notify_prepared(tn_layer_event_kind kind, const tn_device *device, const void *prepared,
                     const tn_operator *op);
void notify_closing(const tn_runtime *runtime);

#endif
