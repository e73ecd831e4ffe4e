/*
 * The runtime's objects as the dispatcher's files share them: runtime, device, stream,
 * tensor and its storage. Nothing here is known outside libtenon.
 */
#ifndef TENON_DISPATCHER_RUNTIME_H
#define TENON_DISPATCHER_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "config.h"
#include "error.h"
#include "forks.h"
#include "loader.h"
#include "pool.h"
#include "registry.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"
#include "threads.h"

/* What a runtime owns. Devices and tensors point to it; it lives until it is closed and
 * the last of its tensors is released. */
struct tn_runtime {
  tn_host host; /* services handed to plugins; host.impl is this runtime */
  host_memory memory;
  config config;
  uint32_t fork_generation;
  _Atomic bool closed;
  pthread_mutex_t mutex; /* guards registry writes, records, devices */
  registry registry;
  plugin_record **records;
  size_t num_records;
  _Atomic(tn_device *) *devices; /* [DEVICES_MAX], best first after open */
  _Atomic uint32_t num_devices;
  tn_device *chosen;
  thread_pool *threads;
  tn_parallel parallel; /* the embedder's, run NULL if there is none */
  void (*log)(void *user, tn_log_level level, const char *line);
  void *log_user;
  bool (*out_of_memory)(void *user, tn_device *device, size_t bytes);
  void *out_of_memory_user;
  uint64_t memory_limit;
  struct layer_link *layers; /* in call order */
  uint32_t num_layers;
  _Atomic uint64_t external;          /* imported storages alive */
  _Atomic(tn_tensor *) spare_tensors; /* headers of released views */
  struct watch *watch;                /* while a layer wants notices, else NULL: watch.h */
  struct duplicate *duplicates;       /* libraries found twice */
  bool is_grave;                      /* stands in for the runtime of released tensors */
};

enum { DEVICES_MAX = 64 };

struct tn_device {
  tn_runtime *runtime;
  device_type *type;
  cell_slot *table;     /* type->table */
  _Atomic bool ready;   /* opened: handle, pool and default stream exist */
  _Atomic uint8_t lost; /* DEVICE_*; 0 = in use */
  bool host_memory, synchronous, opaque;
  bool described;
  bool shared; /* host memory, and work beside the host: whoever reads in place waits first */
  void *handle;
  pool *pool;
  tn_stream *default_stream;
  pthread_mutex_t mutex; /* guards opening and the list of streams */
  tn_stream *streams;
  uint32_t index;
  uint32_t failed; /* tn_status of a failed opening */
  tn_device_props props;
  char id[96];
  char unavailable[256];
  struct {
    _Atomic uint64_t calls, bytes;
    _Atomic bool warned;
  } * fallback; /* [OPS_MAX] */
};

/* Why a device takes no more calls. */
enum { DEVICE_FAULTED = 1, DEVICE_WITHDRAWN = 2 };

struct tn_stream {
  tn_device *device;
  void *queue;
  void *native;
  pool_cache *cache;
  tn_stream *next, *previous;
};

struct tn_event {
  tn_device *device;
  void *handle; /* NULL on synchronous devices */
  bool recorded;
  uint64_t recorded_ns; /* synchronous devices: when */
};

typedef struct storage storage;

/* Where a tensor's header lies. */
enum {
  SPARE_WATCHED = -1, /* in memory of its own, to be kept after the release: watch.h */
  SPARE_NONE = 0,     /* in its storage */
  SPARE_VIEW = 1,     /* in memory of its own, to be recycled */
};

/* A view of a storage. `dl` is first: kernels get its address. */
struct tn_tensor {
  DLTensor dl; /* shape and strides point to the arrays below */
  _Atomic uint32_t refs;
  uint8_t dtype;
  bool contiguous;
  int8_t spare; /* where the header came from */
  bool read_only;
  storage *storage;
  tn_device *device;
  int64_t elements;
  int64_t shape[TN_MAX_RANK];
  int64_t strides[TN_MAX_RANK];
  tn_tensor *next_spare;
};

/* Memory with its owner: a pool block, in whose header this lies, or an import. */
struct storage {
  _Atomic uint32_t refs;
  uint32_t reserved;
  block *block; /* NULL for an import */
  tn_device *device;
  void (*destroy)(void *ctx); /* of an import */
  void *destroy_ctx;
  tn_tensor first; /* the tensor made together with the storage */
};

/* TN_ERR_FORKED, TN_ERR_CLOSED or TN_OK. */
tn_status runtime_check_slow(const tn_runtime *runtime);
static inline tn_status runtime_check(const tn_runtime *runtime) {
  if (__builtin_expect(atomic_load_explicit(&fork_generation, memory_order_relaxed) ==
                               runtime->fork_generation &&
                           !atomic_load_explicit(&runtime->closed, memory_order_relaxed),
                       1))
    return TN_OK;
  return runtime_check_slow(runtime);
}

/* Whether the runtime is a copy from before fork(). */
static inline bool runtime_is_forked(const tn_runtime *runtime) {
  return atomic_load_explicit(&fork_generation, memory_order_relaxed) != runtime->fork_generation;
}

/* TN_ERR_DEVICE_LOST, or TN_ERR_CLOSED where the plugin was unloaded; TN_OK where another
 * thread has loaded it again meanwhile. */
tn_status device_gone(const tn_device *device);

/* Whether device_check says TN_OK. */
static inline bool device_is_fine(const tn_device *device) {
  const tn_runtime *r = device->runtime;
  return atomic_load_explicit(&fork_generation, memory_order_relaxed) == r->fork_generation &&
         !atomic_load_explicit(&r->closed, memory_order_relaxed) &&
         !atomic_load_explicit(&device->lost, memory_order_relaxed);
}

/* The same as runtime_check for a device, with TN_ERR_DEVICE_LOST. */
static inline tn_status device_check(const tn_device *device) {
  tn_status status = runtime_check(device->runtime);
  if (status) return status;
  if (__builtin_expect(atomic_load_explicit(&device->lost, memory_order_relaxed), 0))
    return device_gone(device);
  return TN_OK;
}

/* Opens the device if that has not happened yet. */
tn_status device_open_slow(tn_device *device);
static inline tn_status device_ready(tn_device *device) {
  tn_status status = device_check(device);
  if (status) return status;
  if (__builtin_expect(atomic_load_explicit(&device->ready, memory_order_acquire), 1)) return TN_OK;
  return device_open_slow(device);
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

/* device.c: appends the devices of one type to the runtime's list; what is wrong with
 * them goes into type->unavailable. */
void device_enumerate(tn_runtime *runtime, device_type *type);
void device_free(tn_device *device);
/* Closes the handle; pre: no tensors. */
void device_close(tn_device *device);
/* Waits for the work of all its streams. pre: ready. */
tn_status device_wait(tn_device *device);
/* Orders the list best first. */
void device_sort(tn_runtime *runtime);
/* select.c: the device that the configuration asks for. */
tn_status device_choose(tn_runtime *runtime, tn_device **device);
/* A device whose memory is host memory and that has a kernel for the slot, opened. */
tn_device *device_fallback(tn_runtime *runtime, const tn_device *from, uint32_t op, tn_dtype dtype);

/* tensor.c: gives memory back to its pool or its producer. */
void storage_free(storage *s);
/* runtime.c: frees a storage (NULL for none) of a closed runtime, and the runtime with
 * the last of them. */
void runtime_release(tn_runtime *runtime, storage *s);
void runtime_log(const tn_runtime *runtime, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills as much of *info as its struct_size has room for. */
void kernel_describe(const cell *c, tn_kernel_info *info);

/* unload.c: gives back what the plugin brought before it was unloaded, if it was.
 * pre: the runtime's mutex is held. */
tn_status unload_undo(tn_runtime *runtime, const tn_plugin *plugin, bool *was_unloaded);

/* duplicates.c: notes the libraries that the process has twice; those known stay known.
 * pre: no other thread uses the list. TN_ERR_OUT_OF_MEMORY. */
typedef struct duplicate duplicate;
tn_status duplicates_find(tn_runtime *runtime);
void duplicates_free(const host_memory *memory, duplicate *first);

/* host.c: the table of services for plugins. */
void host_init(tn_runtime *runtime);

/* stream.c */
tn_status stream_make(tn_device *device, tn_stream **out);
void stream_free(tn_stream *stream);
tn_status stream_wait(tn_stream *stream);

/* layers.c */
tn_status layers_open(tn_runtime *runtime);
void layers_close(tn_runtime *runtime);
/* For which device, NULL for none, the calling thread's calls stand in from here on; returns
 * what it was before. The string must live as long. */
const char *layers_fallback_from(const char *device);
/* Whether they do. */
bool layers_in_fallback(void);
/* One of these rows that is on, or NULL. */
const tn_layer *layers_find_of(const tn_runtime *runtime, const tn_layer *rows, size_t count);

/* tensor.c: a tensor of memory on the stream; dims are valid and fit. */
tn_status tensor_make(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, int64_t elements, tn_tensor **out);
/* A view header sharing x's storage; shape and strides are the caller's to fill, then
 * tensor_finish. */
tn_status tensor_view(const tn_tensor *x, tn_tensor **out);
/* Derives elements and contiguity from shape and strides. */
void tensor_finish(tn_tensor *t);
bool strides_are_contiguous(int32_t rank, const int64_t *shape, const int64_t *strides);
void strides_fill(int32_t rank, const int64_t *shape, int64_t *strides);
DLDataType dtype_to_dl(tn_dtype dtype);
tn_dtype dtype_from_dl(DLDataType type);
/* A header and storage for foreign memory, counted in runtime->external. */
tn_status tensor_import(tn_device *device, void (*destroy)(void *), void *ctx, tn_tensor **out);
/* "cuda:0 f32 [2, 3]", with strides if they are not row-major. Returns text. */
const char *tensor_text(char *text, size_t size, const tn_tensor *t);
/* Refuses NULL and tensors of dead runtimes. */
tn_status tensor_check(const tn_tensor *t, const char *function);

/* transfer.c: raw copies between a contiguous tensor's memory and the host's. */
tn_status transfer_to_device(tn_stream *stream, tn_tensor *dst, const void *src, size_t bytes);
tn_status transfer_to_host(tn_stream *stream, const tn_tensor *src, void *dst, size_t bytes);
/* Writes a tensor of any strides from row-major host memory, with no kernel where the device has
 * none. pre: no element of it appears twice. */
tn_status transfer_push(tn_stream *stream, tn_tensor *dst, const void *src);
/* Waits, if the stream's device shares the host's memory: before the host uses it in place. */
tn_status transfer_settle(tn_stream *stream);
/* The stream whose work made the tensor, as far as that is known: the one that its memory was
 * taken for. */
tn_stream *transfer_home(const tn_tensor *t);
/* Where a tensor's first element lies, on a device of host memory. */
void *transfer_address(const tn_tensor *t);

#endif
