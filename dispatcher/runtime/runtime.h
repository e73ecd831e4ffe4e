/*
 * The runtime's objects as the dispatcher's files share them: runtime, device, stream,
 * tensor and its storage. Nothing here is known outside libtenon.
 */
#ifndef TENON_DISPATCHER_RUNTIME_H
#define TENON_DISPATCHER_RUNTIME_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "dispatcher/base/config.h"
#include "dispatcher/base/error.h"
#include "dispatcher/base/forks.h"
#include "dispatcher/base/threads.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/registry/registry.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

/* A text that was handed out and has been replaced since. */
typedef struct retired_text {
  struct retired_text *next;
  char *text;
} retired_text;

/* What a runtime owns. It is whole, with devices, plugins and layers, until it is closed and
 * nothing holds memory of its devices any more (`held`). Its shell, this struct and those of
 * its devices, outlives it: streams and events keep it, and then it is kept for a while for
 * handles that are never given back (shell.c). In a shell all calls are refused. */
struct tn_runtime {
  tn_host host; /* services handed to plugins; host.impl is this runtime */
  host_memory memory;
  config config;
  uint32_t fork_generation;
  _Atomic bool closed;
  pthread_mutex_t loading; /* one thread at a time loads and unloads: plugins.h */
  pthread_mutex_t mutex;   /* guards what others read of the records, and duplicates; held for
                              moments, and never while code of plugins or of the host runs */
  registry registry;
  plugin_record **records;
  size_t num_records, max_records, num_refused;
  retired_text *retired;
  _Atomic uint32_t num_waiting;  /* records that wait; read without a mutex */
  _Atomic(tn_device *) *devices; /* [DEVICES_MAX] in order of their coming */
  _Atomic uint32_t num_devices;
  _Atomic(tn_device *) *ranked; /* [DEVICES_MAX] as tn_device_at shows them: best first */
  _Atomic uint32_t num_ranked;
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
  /* 1 until it is closed, 1 for each import and piece of pinned memory, and from the close
   * on 1 for each block of its pools that is in use: what keeps it whole. */
  _Atomic uint64_t held;
  _Atomic uint64_t shell_held;        /* 1 while whole, 1 for each stream and event */
  tn_device *shells;                  /* of its devices, once it is whole no more */
  _Atomic(tn_tensor *) spare_tensors; /* headers of released views */
  struct watch *watch;                /* while a layer wants notices, else NULL: watch.h */
  struct duplicate *duplicates;       /* libraries found twice */
  bool is_grave;                      /* stands in for the runtime of released tensors */
};

enum { DEVICES_MAX = 64 };

struct tn_stream {
  tn_device *device;
  void *queue;
  void *native;
  pool_cache *cache; /* NULL once the stream is shut */
  tn_stream *next, *previous;
};

struct tn_event {
  tn_device *device;
  void *handle; /* NULL on synchronous devices, and once the event is shut */
  bool recorded, shut;
  uint64_t recorded_ns; /* synchronous devices: when */
  tn_event *next, *previous;
};

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
  pthread_mutex_t mutex; /* guards opening and the lists of streams and events */
  tn_stream *streams;
  tn_event *events;
  tn_stream own_stream;                  /* the default stream, which nobody destroys */
  _Atomic(tn_tensor *) ones[TN_F64 + 1]; /* ones.c */
  tn_device *next_shell;
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

/* What the backend knows of the stream: what layers tell it by on a synchronous device is not. */
static inline void *stream_queue(const tn_stream *stream) {
  return stream->device->synchronous ? NULL : stream->queue;
}

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

/* device.c: devices that were found and nobody sees yet. */
typedef struct device_list {
  tn_runtime *runtime;
  uint32_t count;
  tn_device *items[DEVICES_MAX];
} device_list;
/* Finds the devices of a type that is about to be registered; what is wrong with them goes into
 * type->unavailable. ctx: a device_list. TN_ERR_OUT_OF_MEMORY. */
tn_status devices_find(device_type *type, void *ctx);
void devices_drop(device_list *list);
/* Appends them to the runtime's. pre: `loading` is held. */
void devices_publish(const device_list *list);
/* Brings tn_device_at's list up to date: sorted anew, or with what is new at its end.
 * pre: `loading` is held. */
void devices_rank(tn_runtime *runtime, bool anew);
/* Leaves the device's shell, on the runtime's list. */
void device_free(tn_device *device);
/* Closes the handle; pre: no tensors, streams and events are shut. */
void device_close(tn_device *device);
/* The runtime is closing: gives back what the backend made for streams and events, which may
 * be destroyed later. pre: ready, no work is pending. */
void device_shut(tn_device *device);
/* Waits for the work of all its streams. pre: ready. */
tn_status device_wait(tn_device *device);
/* select.c: the device that the configuration asks for. */
tn_status device_choose(tn_runtime *runtime, tn_device **device);
/* A device whose memory is host memory and that has a kernel for the slot, opened. */
tn_device *device_fallback(tn_runtime *runtime, const tn_device *from, uint32_t op, tn_dtype dtype);

/* tensor.c: gives memory back to its pool or its producer. */
void storage_free(storage *s);
/* runtime.c: frees a storage of a closed runtime, and the runtime with the last of them. No
 * lock is held: an import's deleter may release tensors of the same runtime. */
void runtime_release(tn_runtime *runtime, storage *s);
/* Holds the runtime whole, and lets go: the last one destroys it. */
static inline void runtime_hold(tn_runtime *runtime) { atomic_fetch_add(&runtime->held, 1); }
void runtime_drop(tn_runtime *runtime);

/* shell.c: zeroed memory of the C library for a runtime or a device, NULL when there is none. */
void *shell_alloc(size_t bytes);
/* For one that no host has seen. */
void shell_free(void *shell);
/* A stream or an event holds the runtime's shell, and lets go; so does the runtime itself
 * when it is destroyed. */
static inline void shell_hold(tn_runtime *runtime) { atomic_fetch_add(&runtime->shell_held, 1); }
void shell_drop(tn_runtime *runtime);

/* log.c: writes a line where the host wants it, if the level is on. */
void runtime_log(const tn_runtime *runtime, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void log_line(const tn_runtime *runtime, tn_log_level level, const char *format, va_list args);

/* Fills as much of *info as its struct_size has room for. */
void kernel_describe(const cell *c, tn_kernel_info *info);

/* unload.c: gives back what the plugin brought before it was unloaded, if it was.
 * pre: `loading` is held. */
tn_status unload_undo(tn_runtime *runtime, const tn_plugin *plugin, bool *was_unloaded);

/* duplicates.c: notes the libraries that the process has twice; those known stay known.
 * TN_ERR_OUT_OF_MEMORY. */
typedef struct duplicate duplicate;
tn_status duplicates_find(tn_runtime *runtime);
void duplicates_free(const host_memory *memory, duplicate *first);

/* settings.c: logs what was asked for and came to nothing. pre: plugins were looked for. */
void settings_warn(const tn_runtime *runtime);

/* host.c: the table of services for plugins. */
void host_init(tn_runtime *runtime);

/* What table cells run on a deterministic runtime. */
tn_status host_run_steadily(const tn_kernel_args *args);

/* Logs that a runtime has fewer threads than wanted. */
void host_tell_shortage(void *runtime, uint32_t started, uint32_t wanted, const char *why);

/* stream.c */
/* Makes its queue and cache; `stream` is zeroed memory. */
tn_status stream_open(tn_device *device, tn_stream *stream);
/* Waits for its work and gives back what stream_open made. Does nothing the second time. */
void stream_shut(tn_stream *stream);
void event_shut(tn_event *event);
tn_status stream_wait(tn_stream *stream);

/* layers.c */
tn_status layers_open(tn_runtime *runtime);
void layers_close(tn_runtime *runtime);
/* For which device, NULL for none, the calling thread's calls stand in from here on; returns
 * what it was before. The string must live as long. */
const char *layers_fallback_from(const char *device);
/* Whether they do. */
bool layers_in_fallback(void);
/* For which call, NULL for none, the calling thread's copies make stand-ins from here on, an
 * operator or a function, which layers are told; returns what it was before. The string must
 * live as long as the runtime. */
const char *layers_stand_in(const char *call);
const char *layers_stands_in_for(void);
/* tn_copy to or from a stand-in that `call` needs. */
tn_status layers_copy_for(const char *call, tn_stream *stream, const tn_tensor *x, tn_tensor **y);
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
/* A header and storage for foreign memory, which holds the runtime. */
tn_status tensor_import(tn_device *device, void (*destroy)(void *), void *ctx, tn_tensor **out);
/* "cuda:0 f32 [2, 3]", with strides if they are not row-major. Returns text. */
const char *tensor_text(char *text, size_t size, const tn_tensor *t);
/* Refuses NULL and tensors of dead runtimes. */
tn_status tensor_check(const tn_tensor *t, const char *function);

/* ones.c: the device's scalar of value 1, which stays its own. pre: a type of tn_dtype. */
tn_status device_one(tn_device *device, tn_dtype dtype, const tn_tensor **one);
/* Gives them back. pre: no call is under way. */
void device_release_ones(tn_device *device);

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
