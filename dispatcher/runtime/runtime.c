/*
 * Opening and closing runtimes. A closed runtime stays whole while tensors of it live: the last
 * release destroys it (runtime_release).
 */
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/base/threads.h"
#include "dispatcher/device/device.h"
#include "dispatcher/device/pinned.h"
#include "dispatcher/layers/layers.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/plugins/duplicates.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/runtime/default_device.h"
#include "dispatcher/runtime/host_services.h"
#include "dispatcher/tensor/ones.h"
#include "dispatcher/tensor/tracked.h"
#include "tenon/ops.h"

/* --- closing --- */

/* Leaves the structs of the runtime and its devices. */
static void destroy(tn_runtime *r) {
  host_memory memory = r->memory;
  layers_close(r);
  for (uint32_t i = 0; r->devices && i < atomic_load(&r->num_devices); ++i)
    device_free(atomic_load(&r->devices[i]));
  for (tn_device *d = r->symbolic, *next; d; d = next) {
    next = d->next_symbolic;
    device_free(d);
  }
  r->symbolic = NULL;
  tracking_close(r);
  pinned_free_all(r);
  registry_free(&memory, &r->registry);
  thread_pool_destroy(r->threads);
  r->threads = NULL;
  plugins_free(r);
  for (tn_tensor *t = atomic_load(&r->spare_tensors), *next; t; t = next) {
    next = t->next_spare;
    host_free(&memory, t);
  }
  duplicates_free(&memory, r->duplicates);
  host_free(&memory, r->devices);
  host_free(&memory, r->ranked);
  config_free(&memory, &r->config);
  atomic_store(&r->num_devices, 0);
  atomic_store(&r->num_ranked, 0);
  atomic_store(&r->num_waiting, 0);
  r->devices = r->ranked = NULL;
  runtime_release_weak(r);
}

/* The host may have freed what its callback needs once tn_runtime_close has returned. */
static void log_no_more(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level, (void)line;
}

/* Returns how many of its blocks are in use. */
static uint64_t shut_device(tn_device *d) {
  if (!atomic_load(&d->ready)) return 0;
  device_shut(d);
  uint64_t in_use = pool_blocks_in_use(d->pool);
  if (in_use) pool_trim(d->pool);
  return in_use;
}

/* From here on nothing of the host's is called but its allocator and deleters, and blocks
 * that are in use hold the runtime. */
static void shut(tn_runtime *r) {
  uint64_t blocks = 0;
  r->host.num_threads = 1; /* what is left of work, in freeing memory, stays in its caller */
  thread_pool_stop(r->threads);
  for (uint32_t i = 0; i < atomic_load(&r->num_devices); ++i)
    blocks += shut_device(atomic_load(&r->devices[i]));
  for (tn_device *d = r->symbolic; d; d = d->next_symbolic) blocks += shut_device(d);
  if (atomic_fetch_add(&r->refs, blocks) + blocks > 1 && r->log.write) r->log.write = log_no_more;
  atomic_store(&r->closed, true);
}

void tn_runtime_close(tn_runtime *runtime) {
  if (!runtime || runtime_check(runtime)) return;
  for (uint32_t i = 0; i < atomic_load(&runtime->num_devices); ++i) {
    tn_device *d = atomic_load(&runtime->devices[i]);
    if (atomic_load(&d->ready)) (void)tn_device_synchronize(d);
    device_release_ones(d);
  }
  for (tn_device *d = runtime->symbolic; d; d = d->next_symbolic) device_release_ones(d);
  if (runtime->notified) notify_closing(runtime);
  shut(runtime);
  runtime_release(runtime);
}

/* --- opening --- */

static bool runtime_is_valid(const tn_runtime *r) {
  if (r->refs < 1 || r->weak_refs < 1 || r->closed || r->is_quarantine || r->closed_devices)
    return false;
  if (!r->chosen || !r->chosen->ready || r->chosen->runtime != r) return false;
  if (!r->threads == !r->parallel.run || !r->host.num_threads || r->host.impl != r) return false;
  return r->num_devices >= 1 && r->num_devices <= DEVICES_MAX && !r->layers >= !r->num_layers;
}

static bool has_option(const tn_runtime_options *options, size_t end) {
  return options && options->struct_size >= end;
}
#define OPTION(options, field)                                                                     \
  (has_option(options, offsetof(tn_runtime_options, field) + sizeof((options)->field))             \
       ? (options)->field                                                                          \
       : 0)

static void read_callbacks(tn_runtime *r, const tn_runtime_options *options) {
  const tn_parallel *parallel = OPTION(options, parallel);
  if (parallel && parallel->run) r->parallel = *parallel;
  r->log = (log_sink){OPTION(options, log), OPTION(options, log_user)};
  r->out_of_memory = OPTION(options, out_of_memory);
  r->out_of_memory_user = OPTION(options, out_of_memory_user);
  r->memory_limit = OPTION(options, memory_limit);
}

static tn_status open_parts(tn_runtime *r, const tn_runtime_options *options) {
  tn_status status = config_read(&r->memory, options, &r->config);
  if (status) return status;
  read_callbacks(r, options);
  host_init(r);
  r->devices = host_alloc(&r->memory, DEVICES_MAX * sizeof *r->devices);
  r->ranked = host_alloc(&r->memory, DEVICES_MAX * sizeof *r->ranked);
  if (!r->devices || !r->ranked)
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  status = registry_init(&r->memory, &r->registry);
  if (status) return status;
  r->registry.host_row_run = host_row_run;
  r->registry.deterministic_only = r->config.deterministic;
  if (r->config.deterministic) r->registry.deterministic_run = host_run_deterministic;
  if (!r->parallel.run) status = thread_pool_create(&r->memory, r->config.num_threads, &r->threads);
  if (r->threads) thread_pool_on_shortage(r->threads, host_tell_shortage, r);
  if (!status) status = plugins_open(r);
  if (!status) settings_warn(r);
  if (!status) status = layers_open(r);
  if (!status) status = device_choose(r, &r->chosen);
  return status;
}

static const runtime_hooks hooks = {.destroy = destroy, .copy = tn_copy};

tn_status tn_runtime_open(const tn_runtime_options *options, tn_runtime **runtime) {
  forks_watch();
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_open: runtime is NULL");
  if (options && options->struct_size < sizeof(uint32_t))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_runtime_open: set options->struct_size to sizeof(tn_runtime_options)");
  const tn_allocator *allocator = OPTION(options, allocator);
  if (allocator && (!allocator->alloc || !allocator->free))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_open: the allocator lacks a function");
  host_memory memory = allocator ? *allocator : host_memory_default;
  tn_runtime *r = handle_alloc(sizeof *r);
  if (!r) return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  r->memory = memory;
  r->hooks = &hooks;
  r->refs = r->weak_refs = 1;
  r->fork_generation = atomic_load(&fork_generation);
  pthread_mutex_init(&r->loading, NULL);
  pthread_mutex_init(&r->mutex, NULL);
  tn_status status = open_parts(r, options);
  if (status) {
    runtime_release(r);
    return status;
  }
  INVARIANT(runtime_is_valid(r));
  fail_clear();
  *runtime = r;
  return TN_OK;
}

tn_device *tn_runtime_device(const tn_runtime *runtime) { return runtime ? runtime->chosen : NULL; }
