/* A device as a struct, whether it can be used, and what its plugin's functions returned. */
#ifndef TENON_DISPATCHER_OBJECTS_DEVICE_H
#define TENON_DISPATCHER_OBJECTS_DEVICE_H

#include "dispatcher/objects/runtime.h"
#include "dispatcher/objects/stream.h"

/* Of a device whose tensors have no memory (graph/). */
struct plan;
typedef struct call_recorder {
  /* Takes each call, validated, with its outputs made, in place of a kernel. */
  tn_status (*call)(struct plan *p);
  /* Takes what is written to a contiguous tensor from host memory, in place of a copy. */
  tn_status (*write)(tn_tensor *t, const void *data, size_t bytes);
} call_recorder;

struct tn_device {
  tn_runtime *runtime;
  device_type *type;
  cell_slot *table;          /* type->table */
  _Atomic bool ready;        /* opened: handle, pool and default stream exist */
  _Atomic uint8_t attention; /* DEVICE_*: what is out of the ordinary; 0 = nothing */
  bool host_memory, synchronous, opaque;
  bool described;
  bool shared; /* host memory, and work beside the host: whoever reads in place waits first */
  void *handle;
  struct pool *pool;
  tn_stream *default_stream;
  pthread_mutex_t mutex; /* guards opening and the lists of streams and events */
  tn_stream *streams;
  tn_event *events;
  tn_stream own_stream;                      /* the default stream, which nobody destroys */
  _Atomic(tn_tensor *) ones[TN_F8_E5M2 + 1]; /* tensor/ones.h */
  tn_device *next_closed;
  uint32_t index;
  uint32_t failed; /* tn_status of a failed opening */
  tn_device_props props;
  char features[sizeof((tn_device_props *)0)->features]; /* once it is open */
  char id[96];
  char unavailable[256];
  char lost_by[512]; /* what was said of the fault; read once DEVICE_FAULTED is set */
  struct {
    _Atomic uint64_t calls, bytes;
    _Atomic bool warned;
  } * fallback;                  /* [OPS_MAX] */
  const call_recorder *recorder; /* NULL of a device that computes */
  tn_device *next_symbolic;      /* on the runtime's list of those that record */
  struct call_watcher *watcher;  /* of one that records: watch.h */
  /* Programs record their calls into device graphs on a queue that no stream has, one at a time:
   * whatever is put into a stream meanwhile, or asked of it, is no part of that. */
  pthread_mutex_t recording;
  void *recording_queue;                /* NULL until needed. Guarded by `recording` */
  struct stream_memory *program_memory; /* what programs run in (graph/). Guarded by `mutex` */
};

/* Why a device takes no more calls, or that somebody may watch them (watch.h). */
enum {
  DEVICE_FAULTED = 1,
  DEVICE_UNLOADED = 2,
  DEVICE_WATCHED = 4,
  DEVICE_FAULTING = 8, /* some thread is about to say so, or has */
  DEVICE_GONE = DEVICE_FAULTED | DEVICE_UNLOADED,
};

/* What the backend knows of the stream: what layers tell it by on a synchronous device is not. */
static inline void *stream_queue(const tn_stream *stream) {
  return stream->device->synchronous ? NULL : stream->queue;
}

/* TN_ERR_DEVICE_LOST, or TN_ERR_CLOSED where the plugin was unloaded; TN_OK where another
 * thread has loaded it again meanwhile. */
tn_status device_gone(const tn_device *device);

/* Whether device_check says TN_OK. */
static inline bool device_is_fine(const tn_device *device) {
  const tn_runtime *r = device->runtime;
  return atomic_load_explicit(&fork_generation, memory_order_relaxed) == r->fork_generation &&
         !atomic_load_explicit(&r->closed, memory_order_relaxed) &&
         !(atomic_load_explicit(&device->attention, memory_order_relaxed) & DEVICE_GONE);
}

/* Whether it says so, and nobody watches the device's calls: no more to ask than the other. */
static inline bool device_is_ordinary(const tn_device *device) {
  const tn_runtime *r = device->runtime;
  return atomic_load_explicit(&fork_generation, memory_order_relaxed) == r->fork_generation &&
         !atomic_load_explicit(&r->closed, memory_order_relaxed) &&
         !atomic_load_explicit(&device->attention, memory_order_relaxed);
}

/* The same as runtime_check for a device, with TN_ERR_DEVICE_LOST. */
static inline tn_status device_check(const tn_device *device) {
  tn_status status = runtime_check(device->runtime);
  if (status) return status;
  if (__builtin_expect(atomic_load_explicit(&device->attention, memory_order_relaxed) & DEVICE_GONE,
                       0))
    return device_gone(device);
  return TN_OK;
}

/* A function of a plugin failed: gives a status that exists, with a message that is of now, and
 * marks the device lost if that is what happened. */
__attribute__((cold)) tn_status device_failed(tn_device *device, tn_status status,
                                              const char *plugin, const char *what);

/* Passes on what a slot of the device's backend returned. */
static inline tn_status device_result(tn_device *device, const char *slot, tn_status status) {
  if (__builtin_expect(status == TN_OK, 1)) return TN_OK;
  return device_failed(device, status, device->type->plugin->name, slot);
}

/* The same of a slot that makes something, which is not NULL. */
tn_status device_made(tn_device *device, const char *slot, tn_status status, const void *made);

/* The kernel of a cell failed. */
__attribute__((cold)) tn_status kernel_status(tn_device *device, const cell *c, tn_status status);

#endif
