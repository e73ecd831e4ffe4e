/*
 * The runtime as a struct, and what every file above may do with it: see whether it can still
 * be used, keep it alive, write to its log. What fills the parts stands in the rooms above.
 */
#ifndef TENON_DISPATCHER_RUNTIME_H
#define TENON_DISPATCHER_RUNTIME_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "dispatcher/base/config.h"
#include "dispatcher/base/error.h"
#include "dispatcher/base/forks.h"
#include "dispatcher/base/log.h"
#include "dispatcher/registry/registry.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

/* What rooms below need of rooms above: given by whoever opens the runtime. */
typedef struct runtime_hooks {
  /* Destroys all but the structs of runtime and devices, when the last reference goes. */
  void (*destroy)(tn_runtime *runtime);
  /* tn_copy, the operator: how tensors are made row-major. */
  tn_status (*copy)(tn_stream *stream, const tn_tensor *x, tn_tensor **y);
} runtime_hooks;

/* What a runtime owns. It is whole, with devices, plugins and layers, until it is closed and
 * nothing holds memory of its devices any more (`refs`). This struct and those of its devices
 * outlive that: streams and events keep them (`weak_refs`), and then they are kept for a while for
 * handles that are never given back (lifetime.c). All calls are refused there. */
struct tn_runtime {
  tn_host host; /* services handed to plugins; host.impl is this runtime */
  const runtime_hooks *hooks;
  host_memory memory;
  config config;
  uint32_t fork_generation;
  _Atomic bool closed;
  pthread_mutex_t loading; /* one thread at a time loads and unloads: plugins.h */
  pthread_mutex_t mutex;   /* guards what others read of the records, duplicates and pinned
                              memory; held for moments, and never while code of plugins or of
                              the host runs */
  registry registry;
  struct plugin_record **records;
  size_t num_records, max_records, num_refused;
  struct retired_text *retired;  /* texts that were handed out and have been replaced since */
  _Atomic uint32_t num_waiting;  /* records that wait; read without a mutex */
  _Atomic(tn_device *) *devices; /* [DEVICES_MAX] in order of their coming */
  _Atomic uint32_t num_devices;
  _Atomic(tn_device *) *ranked; /* [DEVICES_MAX] as tn_device_at shows them: best first */
  _Atomic uint32_t num_ranked;
  tn_device *chosen;
  tn_device *symbolic;   /* devices that record, which nobody finds; under `mutex` */
  uint32_t num_watchers; /* threads that watch calls on the others (watch.h); under `mutex` */
  struct thread_pool *threads;
  tn_parallel parallel; /* the embedder's, run NULL if there is none */
  log_sink log;
  bool (*out_of_memory)(void *user, tn_device *device, size_t bytes);
  void *out_of_memory_user;
  uint64_t memory_limit;
  struct layer_link *layers; /* those that are on, in call order */
  uint32_t num_layers;
  struct recent_calls *recent; /* while any is on: recent.h */
  bool notified;               /* one of them wants notices, and tensors are tracked */
  /* 1 until it is closed, 1 for each import and piece of pinned memory, and from the close
   * on 1 for each block of its pools that is in use: what keeps it whole. */
  _Atomic uint64_t refs;
  _Atomic uint64_t weak_refs;         /* 1 while whole, 1 for each stream and event */
  tn_device *closed_devices;          /* their structs, once it is whole no more */
  _Atomic(tn_tensor *) spare_tensors; /* headers of released views */
  struct tracking *tracking;          /* of tensors, while notified: tracked.h */
  struct pinned *pinned;              /* while notified: pinned.h */
  struct duplicate *duplicates;       /* libraries found twice */
  bool is_quarantine;                 /* stands in for the runtime of released tensors */
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

/* Keeps the runtime whole, and lets go: the last one destroys it. */
static inline void runtime_retain(tn_runtime *runtime) { atomic_fetch_add(&runtime->refs, 1); }
void runtime_release(tn_runtime *runtime);

/* A stream or an event keeps the runtime's struct and its devices', and lets go; so does the
 * runtime itself when it is destroyed. */
static inline void runtime_retain_weak(tn_runtime *runtime) {
  atomic_fetch_add(&runtime->weak_refs, 1);
}
void runtime_release_weak(tn_runtime *runtime);

/* Zeroed memory of the C library for a runtime or a device, NULL when there is none. */
void *handle_alloc(size_t bytes);
/* For one that no host has seen. */
void handle_free(void *handle);

/* Writes a line where the host wants it, if the level is on. */
void runtime_log(const tn_runtime *runtime, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void runtime_log_args(const tn_runtime *runtime, tn_log_level level, const char *format,
                      va_list args);

#endif
