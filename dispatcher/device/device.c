/*
 * Devices: enumerated when their plugin is registered, opened at first use. An open
 * device has a handle, a memory pool and a default stream.
 */
#include "dispatcher/device/device.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/base/process_state.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/load/plugin_check.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"

/* --- the pool's view of a device --- */

static tn_status pool_raw_alloc(void *ctx, size_t bytes, void **handle) {
  tn_device *d = ctx;
  *handle = NULL;
  fail_set_reason(false);
  tn_status status = d->type->backend.alloc(d->handle, TN_MEMORY_DEVICE, bytes, handle);
  return device_made(d, "alloc", status, *handle);
}

static void pool_raw_free(void *ctx, void *handle) {
  tn_device *d = ctx;
  d->type->backend.free(d->handle, TN_MEMORY_DEVICE, handle);
  if (d->runtime->notified) notify_object(TN_LAYER_MEMORY_RETURNED, d, handle, 0);
}

static tn_status pool_mark(void *ctx, void *stream, void **mark) {
  tn_device *d = ctx;
  const tn_backend *b = &d->type->backend;
  tn_status status = b->event_create(d->handle, mark);
  status = device_made(d, "event_create", status, *mark);
  if (status) return status;
  status = b->event_record(d->handle, *mark, ((tn_stream *)stream)->queue);
  status = device_result(d, "event_record", status);
  if (status) b->event_destroy(d->handle, *mark);
  return status;
}

static bool pool_passed(void *ctx, void *mark) {
  tn_device *d = ctx;
  tn_status status = d->type->backend.event_query(d->handle, mark);
  if (status == TN_ERR_NOT_READY) return false;
  (void)device_result(d, "event_query", status);
  return true;
}

static void pool_wait(void *ctx, void *mark) {
  tn_device *d = ctx;
  (void)device_result(d, "event_wait", d->type->backend.event_wait(d->handle, mark));
}

static void pool_unmark(void *ctx, void *mark) {
  tn_device *d = ctx;
  d->type->backend.event_destroy(d->handle, mark);
}

/* The calling thread is inside the host's callback. What that allocates itself must not call
 * it again, and so on until the stack ends. */
static _Thread_local bool is_helping;

static bool pool_pressure(void *ctx, size_t bytes) {
  tn_device *d = ctx;
  const tn_runtime *r = d->runtime;
  char message[512];
  if (!r->out_of_memory) return false;
  if (is_helping) {
    fail_prefix("inside out_of_memory, which is not called again: ");
    return false;
  }
  snprintf(message, sizeof message, "%s", tn_last_error());
  is_helping = true;
  bool helped = r->out_of_memory(r->out_of_memory_user, d, bytes);
  is_helping = false;
  fail(TN_OK, "%s", message); /* what failed in the callback is not what failed here */
  return helped;
}

static const pool_ops asynchronous_pool = {pool_raw_alloc, pool_raw_free, pool_mark,    pool_passed,
                                           pool_wait,      pool_unmark,   pool_pressure};
static const pool_ops synchronous_pool = {
    .raw_alloc = pool_raw_alloc, .raw_free = pool_raw_free, .pressure = pool_pressure};

/* --- opening and closing --- */

/* Ready, it has all its parts; not ready, none. */
static bool device_is_valid(const tn_device *d) {
  if (!d->runtime || !d->type || d->table != d->type->table || !d->fallback) return false;
  if (!d->pool) return !d->default_stream && !d->own_stream.cache && !d->streams && !d->events;
  return d->default_stream == &d->own_stream && d->own_stream.cache && d->own_stream.device == d;
}

/* pre: no other thread is using the device. */
static bool all_are_shut(const tn_device *d) {
  for (const tn_stream *s = d->streams; s; s = s->next)
    if (s->cache || s->queue) return false;
  for (const tn_event *e = d->events; e; e = e->next)
    if (!e->shut || e->handle) return false;
  return true;
}

static tn_status open_handle(tn_device *d) {
  process_state before;
  process_state_save(&before);
  fail_set_reason(false);
  tn_status status =
      d->type->backend.open(&d->runtime->host, d->type->plugin->context, d->index, &d->handle);
  process_state_restore(&before);
  if (status) d->handle = NULL;
  return device_made(d, "open", status, d->handle);
}

/* A description that failed may succeed later; what it left behind then counts for nothing. What
 * had to be mended in one is said. */
static tn_status describe(tn_device *d, char mended[PROPS_SAID_BYTES]) {
  d->props = (tn_device_props){.struct_size = sizeof d->props};
  fail_set_reason(false);
  tn_status status =
      d->type->backend.describe(&d->runtime->host, d->type->plugin->context, d->index, &d->props);
  status = device_result(d, "describe", status);
  if (!status) status = plugin_check_props(&d->props, d->type->backend.flags);
  d->described = !status;
  if (status) d->props = (tn_device_props){.struct_size = sizeof d->props};
  plugin_mend_props(&d->props, mended);
  return status;
}

/* A library that opening loads may give the device more features. Who asked for them before keeps
 * a pointer to the first ones, which stay as they are. */
static void describe_features_again(tn_device *d) {
  char mended[PROPS_SAID_BYTES];
  tn_device_props props = {.struct_size = sizeof props};
  fail_set_reason(false);
  if (d->type->backend.describe(&d->runtime->host, d->type->plugin->context, d->index, &props))
    props = d->props;
  plugin_mend_props(&props, mended);
  if (memcmp(d->features, props.features, sizeof d->features))
    memcpy(d->features, props.features, sizeof d->features);
}

static void make_homeless(void *header) {
  storage *s = header;
  atomic_fetch_or_explicit(&s->tag, STORAGE_HOMELESS, memory_order_relaxed);
}

static tn_status open_parts(tn_device *d) {
  char mended[PROPS_SAID_BYTES];
  tn_status status = d->described ? TN_OK : describe(d, mended);
  if (!status) status = open_handle(d);
  if (status) return status;
  pool_config wanted = {
      .ops = d->synchronous ? &synchronous_pool : &asynchronous_pool,
      .ctx = d,
      .memory = &d->runtime->memory,
      .alignment = d->props.alignment_bytes ? d->props.alignment_bytes : 64,
      .header_bytes = sizeof(storage),
      .limit = d->recorder ? 0 : d->runtime->memory_limit,
      .tracked = d->runtime->notified,
      .orphaned = make_homeless,
  };
  status = pool_create(&wanted, &d->pool);
  if (!status) status = stream_open(d, &d->own_stream);
  if (status) {
    device_close(d);
    return status;
  }
  d->default_stream = &d->own_stream;
  describe_features_again(d);
  INVARIANT(device_is_valid(d));
  if (d->runtime->notified) notify_stream(TN_LAYER_STREAM_MADE, d->default_stream, NULL);
  return status;
}

void device_close(tn_device *d) {
  INVARIANT(!d->pool || !pool_blocks_in_use(d->pool));
  stream_shut(&d->own_stream);
  pool_destroy(d->pool);
  if (d->recording_queue) d->type->backend.queue_destroy(d->handle, d->recording_queue);
  d->recording_queue = NULL;
  if (d->handle) d->type->backend.close(d->handle);
  d->default_stream = NULL;
  d->pool = NULL;
  d->handle = NULL;
  atomic_store(&d->ready, false);
}

void device_shut(tn_device *d) {
  for (tn_stream *s = d->streams; s; s = s->next) stream_shut(s);
  for (tn_event *e = d->events; e; e = e->next) event_shut(e);
  INVARIANT_OF_ALL(all_are_shut(d));
}

tn_status device_open_slow(tn_device *d) {
  tn_status status = TN_OK;
  log_hold();
  pthread_mutex_lock(&d->mutex);
  if (!atomic_load(&d->ready)) {
    status = open_parts(d);
    if (!status) {
      fail_clear();
      d->unavailable[0] = 0; /* as it may have been until now */
      atomic_store_explicit(&d->ready, true, memory_order_release);
    } else {
      snprintf(d->unavailable, sizeof d->unavailable, "%s", tn_last_error());
      fail(status, "device %s cannot be opened: %s", d->id, d->unavailable);
    }
  }
  pthread_mutex_unlock(&d->mutex);
  log_resume();
  return status;
}

/* --- enumeration --- */

/* Keeps the first of a kind: the others of the type are most often the same. */
static void keep_oddity(char *kept, size_t size, const tn_device *d, const char *what,
                        const char *reason) {
  if (!kept[0]) snprintf(kept, size, "device %s%s: %s", d->id, what, reason);
}

static tn_device *device_make(tn_runtime *runtime, device_type *type, uint32_t index) {
  char mended[PROPS_SAID_BYTES];
  tn_device *d = handle_alloc(sizeof *d);
  if (!d) return NULL;
  d->fallback = host_alloc_sparse(&runtime->memory, OPS_MAX * sizeof *d->fallback);
  if (!d->fallback) {
    handle_free(d);
    return NULL;
  }
  d->runtime = runtime;
  d->type = type;
  d->table = type->table;
  d->index = index;
  d->host_memory = type->backend.flags & TN_BACKEND_HOST_MEMORY;
  d->synchronous = type->backend.flags & TN_BACKEND_SYNCHRONOUS;
  d->shared = d->host_memory && !d->synchronous;
  d->opaque = type->backend.flags & TN_BACKEND_OPAQUE_MEMORY;
  pthread_mutex_init(&d->mutex, NULL);
  pthread_mutex_init(&d->recording, NULL);
  snprintf(d->id, sizeof d->id, "%s:%u", type->backend.device_type, index);
  tn_status status = describe(d, mended);
  if (!status && mended[0]) keep_oddity(type->mended, sizeof type->mended, d, "", mended);
  if (!status) return d;
  snprintf(d->unavailable, sizeof d->unavailable, "%s", tn_last_error());
  keep_oddity(type->oddity, sizeof type->oddity, d, " cannot be used", tn_last_error());
  return d;
}

tn_status device_make_symbolic(tn_runtime *runtime, device_type *type,
                               const call_recorder *recorder, tn_device **device) {
  tn_device *d = device_make(runtime, type, 0);
  if (!d) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
  d->recorder = recorder;
  tn_status status = device_ready(d);
  if (status) {
    device_list list = {.runtime = runtime, .count = 1, .items = {d}};
    devices_drop(&list);
    return status;
  }
  *device = d;
  return TN_OK;
}

void device_list_symbolic(tn_device *device) {
  tn_runtime *runtime = device->runtime;
  pthread_mutex_lock(&runtime->mutex);
  device->next_symbolic = runtime->symbolic;
  runtime->symbolic = device;
  pthread_mutex_unlock(&runtime->mutex);
}

void device_free(tn_device *d) {
  if (!d) return;
  tn_runtime *runtime = d->runtime;
  device_close(d);
  host_free_sparse(&runtime->memory, d->fallback, OPS_MAX * sizeof *d->fallback);
  d->fallback = NULL;
  d->next_closed = runtime->closed_devices;
  runtime->closed_devices = d;
}

/* Whether the backend may be asked at all: drivers do not survive a fork. */
static bool is_ours(const device_type *type) {
  const uint32_t plain = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS;
  const uint32_t flags = type->backend.flags;
  return (flags & TN_BACKEND_FORK_SAFE) || (flags & plain) == plain ||
         forks_allow(type->plugin->plugin);
}

static tn_status ask_count(const tn_runtime *runtime, const device_type *type, uint32_t *count) {
  if (is_ours(type)) return type->backend.count(&runtime->host, type->plugin->context, count);
  fail(TN_OK,
       "plugin %s was used before this process was forked, which its driver does not survive: "
       "fork first, or use other devices than %s in the parent",
       type->plugin->name, type->backend.device_type);
  runtime_log(runtime, TN_LOG_WARN, "no device of type %s: %s", type->backend.device_type,
              tn_last_error());
  return TN_OK;
}

/* Such a number is most often none: a count that was never written. */
static tn_status refuse_count(const tn_runtime *runtime, const device_type *type, uint32_t count) {
  fail(TN_OK, "its count gives %u devices of type %s, and a type has room for %d: none is taken",
       count, type->backend.device_type, DEVICES_OF_TYPE_MAX);
  runtime_log(runtime, TN_LOG_WARN, "plugin %s: %s", type->plugin->name, tn_last_error());
  return TN_ERR_BACKEND;
}

static tn_status count_devices(const tn_runtime *runtime, device_type *type, uint32_t *count) {
  fail(TN_OK, "it found no device and gave no reason");
  tn_status status = ask_count(runtime, type, count);
  if (status) status = fail_of_plugin(status, type->plugin->name, "count");
  if (!status && *count > DEVICES_OF_TYPE_MAX) status = refuse_count(runtime, type, *count);
  if (status) *count = 0;
  if (*count == 0) snprintf(type->unavailable, sizeof type->unavailable, "%s", tn_last_error());
  fail_set_reason(false);
  return status == TN_ERR_OUT_OF_MEMORY ? status : TN_OK;
}

tn_status devices_find(device_type *type, void *ctx) {
  device_list *list = ctx;
  uint32_t count = 0;
  tn_status status = count_devices(list->runtime, type, &count);
  for (uint32_t i = 0; !status && i < count; ++i) {
    tn_device *d = device_make(list->runtime, type, i);
    if (!d)
      status = fail(TN_ERR_OUT_OF_MEMORY, "no host memory for device %u of type %s", i,
                    type->backend.device_type);
    else
      list->items[list->count++] = d;
  }
  return status;
}

void devices_drop(device_list *list) {
  while (list->count) {
    tn_device *d = list->items[--list->count];
    pthread_mutex_destroy(&d->mutex);
    pthread_mutex_destroy(&d->recording);
    host_free_sparse(&list->runtime->memory, d->fallback, OPS_MAX * sizeof *d->fallback);
    handle_free(d);
  }
}

void devices_publish(const device_list *list) {
  tn_runtime *r = list->runtime;
  uint32_t at = atomic_load(&r->num_devices);
  pthread_mutex_lock(&r->mutex);
  for (uint32_t i = 0; i < list->count; ++i) {
    if (r->num_watchers) atomic_fetch_or(&list->items[i]->attention, DEVICE_WATCHED);
    atomic_store(&r->devices[at + i], list->items[i]);
  }
  atomic_store_explicit(&r->num_devices, at + list->count, memory_order_release);
  pthread_mutex_unlock(&r->mutex);
}

/* Puts a device at its place among the first `at`, or behind them. */
static void rank_one(tn_runtime *runtime, tn_device *d, uint32_t at, bool anew) {
  for (; anew && at > 0; --at) {
    tn_device *other = atomic_load(&runtime->ranked[at - 1]);
    if (other->props.score >= d->props.score) break;
    atomic_store(&runtime->ranked[at], other);
  }
  atomic_store(&runtime->ranked[at], d);
}

void devices_rank(tn_runtime *runtime, bool anew) {
  uint32_t count = atomic_load(&runtime->num_devices);
  for (uint32_t i = anew ? 0 : atomic_load(&runtime->num_ranked); i < count; ++i)
    rank_one(runtime, atomic_load(&runtime->devices[i]), i, anew);
  atomic_store_explicit(&runtime->num_ranked, count, memory_order_release);
}

tn_status device_wait(tn_device *device) {
  tn_status status = stream_wait(device->default_stream);
  log_hold(); /* backends and layers have their say under the mutex */
  pthread_mutex_lock(&device->mutex);
  for (tn_stream *s = device->streams; s && !status; s = s->next) status = stream_wait(s);
  pthread_mutex_unlock(&device->mutex);
  log_resume();
  return status;
}

/* --- public --- */

tn_runtime *tn_device_runtime(const tn_device *device) { return device ? device->runtime : NULL; }

tn_status tn_device_get_info(tn_device *device, tn_device_info *info) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_get_info: device is NULL");
  tn_status status = struct_check("tn_device_get_info", "info", "tn_device_info", info);
  if (!status) status = runtime_check(device->runtime);
  if (status) return status;
  uint64_t free_bytes = 0, total = device->props.memory_bytes;
  uint8_t attention = atomic_load(&device->attention);
  if (!(attention & DEVICE_GONE) && atomic_load(&device->ready) &&
      device->type->backend.memory_info &&
      device->type->backend.memory_info(device->handle, &free_bytes, &total))
    free_bytes = 0;
  tn_device_info full = {
      .struct_size = info->struct_size,
      .index = (int32_t)device->index,
      .type = device->type->backend.device_type,
      .id = device->id,
      .name = device->props.name,
      .features = atomic_load(&device->ready) ? device->features : device->props.features,
      .plugin = device->type->plugin->name,
      .unavailable = attention & DEVICE_UNLOADED ? "its plugin was unloaded" : device->unavailable,
      .memory_bytes = device->props.memory_bytes,
      .memory_free_bytes = free_bytes,
      .host_memory = device->host_memory,
      .lost = attention & DEVICE_FAULTED,
      .dl_device = {(DLDeviceType)device->props.dl_device_type, device->props.dl_device_id},
  };
  struct_fill(info, &full, sizeof full);
  return TN_OK;
}

tn_status tn_device_synchronize(tn_device *device) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_synchronize: device is NULL");
  tn_status status = device_ready(device);
  if (!status) status = device_wait(device);
  return status;
}

tn_status tn_device_memory_stats(tn_device *device, tn_memory_stats *stats) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_memory_stats: device is NULL");
  tn_status status = struct_check("tn_device_memory_stats", "stats", "tn_memory_stats", stats);
  if (!status) status = device_ready(device);
  if (status) return status;
  tn_memory_stats full = {.struct_size = stats->struct_size};
  pool_stats(device->pool, &full);
  struct_fill(stats, &full, sizeof full);
  return TN_OK;
}

tn_status tn_device_trim(tn_device *device) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_trim: device is NULL");
  tn_status status = device_ready(device);
  if (!status) pool_trim(device->pool);
  return status;
}
