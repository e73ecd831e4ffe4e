/* Streams and events as structs; stream.h in the room device has what is done with them. */
#ifndef TENON_DISPATCHER_OBJECTS_STREAM_H
#define TENON_DISPATCHER_OBJECTS_STREAM_H

#include "tenon/tenon.h"

struct tn_stream {
  tn_device *device;
  void *queue;
  void *native;
  struct pool_cache *cache; /* NULL once the stream is shut */
  tn_stream *next, *previous;
  uint64_t serial; /* no other stream of the process has it */
};

struct tn_event {
  tn_device *device;
  void *handle; /* NULL on synchronous devices, and once the event is shut */
  bool recorded, shut;
  uint64_t recorded_ns; /* synchronous devices: when */
  tn_event *next, *previous;
};

#endif
