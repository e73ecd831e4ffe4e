/* Opening and closing streams and events, and waiting for a stream. */
#ifndef TENON_DISPATCHER_STREAM_H
#define TENON_DISPATCHER_STREAM_H

#include "dispatcher/objects/stream.h"

/* Makes its queue and cache; `stream` is zeroed memory. */
tn_status stream_open(tn_device *device, tn_stream *stream);
/* Waits for its work and gives back what stream_open made. Does nothing the second time. */
void stream_shut(tn_stream *stream);
void event_shut(tn_event *event);
tn_status stream_wait(tn_stream *stream);
/* Whether a stream of the device with this serial number is there; it is never followed. */
bool stream_exists(tn_device *device, uint64_t serial);

#endif
