/*
 * Opening and closing runtimes, taking plugins, and reporting what became of each.
 *
 * A closed runtime stays in memory while tensors of it live: the last release destroys
 * it (runtime_release). After fork() the child's copy of a runtime refuses every call; the
 * only trace of that in the hot path is one comparison with a counter that the child's
 * fork handler raises.
 */
#include "dispatcher/watch.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/scan.h"

_Atomic uint32_t fork_generation;

static void after_fork_in_child(void) { atomic_fetch_add(&fork_generation, 1); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

tn_status runtime_check_slow(const tn_runtime *runtime) {
  if (runtime->is_grave) return fail(TN_ERR_INVALID_ARGUMENT, "a tensor is used after its release");
  if (atomic_load(&fork_generation) != runtime->fork_generation)
    return fail(TN_ERR_FORKED, "this runtime was opened before fork(); open a new one in the "
                               "child, or fork before opening");
  if (atomic_load(&runtime->closed)) return fail(TN_ERR_CLOSED, "the runtime was closed");
  return TN_OK;
}

/* --- plugins --- */

static tn_status add_record(tn_runtime *r, const char *path, const char *origin,
                            plugin_record **out) {
  const host_memory *memory = &r->memory;
  plugin_record **grown = host_alloc(memory, (r->num_records + 1) * sizeof *grown);
  plugin_record *record = host_alloc(memory, sizeof *record);
  char *path_copy = host_strdup(memory, path), *origin_copy = host_strdup(memory, origin);
  if (!grown || !record || !path_copy || !origin_copy) {
    host_free(memory, grown);
    host_free(memory, record);
    host_free(memory, path_copy);
    host_free(memory, origin_copy);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a plugin's record");
  }
  if (r->num_records) memcpy(grown, r->records, r->num_records * sizeof *grown);
  host_free(memory, r->records);
  r->records = grown;
  record->path = path_copy;
  record->origin = origin_copy;
  *out = grown[r->num_records++] = record;
  return TN_OK;
}

/* The record of a file that was unloaded serves again, so that a host which loads and
 * unloads for ever does not gather records. */
static tn_status record_for(tn_runtime *r, const char *path, const char *origin,
                            plugin_record **out) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->unloaded && strcmp(r->records[i]->path, path) == 0) {
      *out = r->records[i];
      (*out)->unloaded = false;
      return TN_OK;
    }
  return add_record(r, path, origin, out);
}

static const plugin_record *find_taken(const tn_runtime *r, const char *name) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->plugin && strcmp(r->records[i]->name, name) == 0) return r->records[i];
  return NULL;
}

static const plugin_entry *entry_of(const tn_runtime *r, const tn_plugin *plugin) {
  for (const plugin_entry *e = r->registry.plugins; e; e = e->next)
    if (e->plugin == plugin) return e;
  return NULL;
}

static tn_status scan(const tn_runtime *r, plugin_record *record) {
  scan_result result;
  tn_status status = scan_plugin(&r->config, record->path, &result);
  record->scan = result.outcome;
  record->scan_us = result.us;
  if (result.note[0])
    runtime_log(r, TN_LOG_INFO, "the scan's verdict of %s cannot be remembered: %s", record->path,
                result.note);
  return status;
}

/* Inspects, loads and registers; on refusal the message says why. */
static tn_status take_plugin(tn_runtime *r, plugin_record *record, bool filtered) {
  tn_plugin_note note = {0};
  tn_status status = loader_inspect(record->path, &note);
  memcpy(record->name, note.name, sizeof record->name);
  if (status) return status;
  if (filtered && !config_selects(r->config.plugins, record->name))
    return fail(TN_ERR_PLUGIN_REFUSED, "left out by TENON_PLUGINS=%s", r->config.plugins);
  const plugin_record *other = find_taken(r, record->name);
  if (other)
    return fail(TN_ERR_PLUGIN_REFUSED, "a plugin named %s was taken from %s already", record->name,
                other->path);
  const tn_plugin *plugin;
  status = scan(r, record);
  if (!status) status = loader_load(record->path, &note, &r->host, &plugin);
  if (status) return status;
  bool was_unloaded;
  status = unload_undo(r, plugin, &was_unloaded);
  if (was_unloaded && !status) record->plugin = plugin;
  if (was_unloaded) return status;
  uint32_t first_type = atomic_load(&r->registry.num_types);
  plugin_entry *entry;
  status = registry_add(&r->memory, &r->registry, &r->host, plugin, &entry);
  if (status) return status;
  record->plugin = plugin;
  for (uint32_t i = first_type; i < atomic_load(&r->registry.num_types); ++i)
    device_enumerate(r, r->registry.types[i]);
  return TN_OK;
}

/* A refused plugin stays in the report; only lack of memory stops the runtime. */
static tn_status try_plugin(tn_runtime *r, const char *path, const char *origin, bool filtered) {
  plugin_record *record = NULL;
  tn_status status = record_for(r, path, origin, &record);
  if (status) return status;
  status = take_plugin(r, record, filtered);
  if (!status) {
    runtime_log(r, TN_LOG_INFO, "plugin %s taken from %s", record->name, path);
    return TN_OK;
  }
  if (status == TN_ERR_OUT_OF_MEMORY) return status;
  record->reason = host_strdup(&r->memory, tn_last_error());
  runtime_log(r, TN_LOG_INFO, "plugin %s not taken: %s", path, tn_last_error());
  return record->reason ? status : TN_ERR_OUT_OF_MEMORY;
}

static tn_status take_plugins(tn_runtime *r) {
  candidate_list list = {0};
  tn_status status = loader_discover(&r->memory, &r->config, &list);
  for (size_t i = 0; !status && i < list.count; ++i) {
    status = try_plugin(r, list.items[i].path, list.items[i].origin, true);
    if (status && status != TN_ERR_OUT_OF_MEMORY) status = TN_OK;
  }
  candidate_list_free(&r->memory, &list);
  return status ? status : duplicates_find(r);
}

tn_status tn_runtime_load_plugin(tn_runtime *runtime, const char *path) {
  if (!runtime || !path)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_load_plugin: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  pthread_mutex_lock(&runtime->mutex);
  status = try_plugin(runtime, path, "tn_runtime_load_plugin", false);
  pthread_mutex_unlock(&runtime->mutex);
  if (!status) fail_clear();
  if (!status || status == TN_ERR_OUT_OF_MEMORY) return status;
  fail_prefix("plugin %s: ", path);
  return TN_ERR_PLUGIN_REFUSED;
}

/* Why a plugin that was taken has no device of a type of its; "" if it has. */
static const char *lack_of_devices(const tn_runtime *r, const plugin_entry *e) {
  for (uint32_t i = 0; e && i < atomic_load(&r->registry.num_types); ++i) {
    const device_type *type = r->registry.types[i];
    if (type->plugin == e && type->unavailable[0]) return type->unavailable;
  }
  return "";
}

tn_status tn_plugin_report(tn_runtime *runtime, size_t index, tn_plugin_info *info) {
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_plugin_report: runtime is NULL");
  tn_status status = struct_check("tn_plugin_report", "info", "tn_plugin_info", info);
  if (!status) status = runtime_check(runtime);
  if (status) return status;
  pthread_mutex_lock(&runtime->mutex);
  if (index >= runtime->num_records) {
    status =
        fail(TN_ERR_NOT_FOUND, "tn_plugin_report: there are %zu candidates", runtime->num_records);
  } else {
    const plugin_record *record = runtime->records[index];
    const plugin_entry *e = record->plugin ? entry_of(runtime, record->plugin) : NULL;
    tn_plugin_info full = {
        .struct_size = info->struct_size,
        .taken = e != NULL,
        .name = e ? e->name : record->name,
        .version = e ? e->version : "",
        .description = e ? e->description : "",
        .path = record->path,
        .origin = record->origin,
        .reason = record->unloaded ? "unloaded by tn_runtime_unload_plugin"
                  : record->reason ? record->reason
                                   : lack_of_devices(runtime, e),
        .num_backends = e ? (uint32_t)e->num_backends : 0,
        .num_kernels = e ? (uint32_t)e->num_kernels : 0,
        .num_operators = e ? (uint32_t)e->num_operators : 0,
        .num_layers = e ? (uint32_t)e->num_layers : 0,
        .scan = record->scan,
        .scan_us = record->scan_us,
    };
    memcpy(info, &full, info->struct_size < sizeof full ? info->struct_size : sizeof full);
  }
  pthread_mutex_unlock(&runtime->mutex);
  return status;
}

/* --- closing --- */

static void destroy(tn_runtime *r) {
  host_memory memory = r->memory;
  layers_close(r);
  for (uint32_t i = 0; r->devices && i < atomic_load(&r->num_devices); ++i)
    device_free(atomic_load(&r->devices[i]));
  watch_close(r);
  registry_free(&memory, &r->registry);
  thread_pool_destroy(r->threads);
  for (size_t i = 0; i < r->num_records; ++i) plugin_record_free(&memory, r->records[i]);
  for (tn_tensor *t = atomic_load(&r->spare_tensors), *next; t; t = next) {
    next = t->next_spare;
    host_free(&memory, t);
  }
  duplicates_free(&memory, r->duplicates);
  host_free(&memory, r->records);
  host_free(&memory, r->devices);
  config_free(&memory, &r->config);
  pthread_mutex_destroy(&r->mutex);
  host_free(&memory, r);
}

static bool has_tensors(const tn_runtime *r) {
  if (atomic_load(&r->external)) return true;
  for (uint32_t i = 0; i < atomic_load(&r->num_devices); ++i) {
    const tn_device *d = atomic_load(&r->devices[i]);
    if (d->pool && pool_blocks_in_use(d->pool)) return true;
  }
  return false;
}

/* Freeing and counting are one step under the mutex, so that of several threads that
 * release their last tensors exactly one finds none left. */
void runtime_release(tn_runtime *runtime, storage *s) {
  if (runtime_is_forked(runtime)) return; /* the mutex may be held by a thread of the parent */
  pthread_mutex_lock(&runtime->mutex);
  if (s) storage_free(s);
  bool alive = has_tensors(runtime);
  pthread_mutex_unlock(&runtime->mutex);
  if (!alive) destroy(runtime);
}

void tn_runtime_close(tn_runtime *runtime) {
  if (!runtime || runtime_check(runtime)) return;
  for (uint32_t i = 0; i < atomic_load(&runtime->num_devices); ++i) {
    tn_device *d = atomic_load(&runtime->devices[i]);
    if (atomic_load(&d->ready)) (void)tn_device_synchronize(d);
  }
  if (runtime->watch) notify_closing(runtime);
  atomic_store(&runtime->closed, true);
  runtime_release(runtime, NULL);
}

/* --- opening --- */

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
  r->log = OPTION(options, log);
  r->log_user = OPTION(options, log_user);
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
  if (!r->devices) return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  status = registry_init(&r->memory, &r->registry);
  if (status) return status;
  r->registry.deterministic_only = r->config.deterministic;
  if (!r->parallel.run) status = thread_pool_create(&r->memory, r->config.num_threads, &r->threads);
  if (!status) status = take_plugins(r);
  if (status) return status;
  device_sort(r);
  status = layers_open(r);
  return status ? status : device_choose(r, &r->chosen);
}

tn_status tn_runtime_open(const tn_runtime_options *options, tn_runtime **runtime) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_open: runtime is NULL");
  if (options && options->struct_size < sizeof(uint32_t))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_runtime_open: set options->struct_size to sizeof(tn_runtime_options)");
  const tn_allocator *allocator = OPTION(options, allocator);
  if (allocator && (!allocator->alloc || !allocator->free))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_open: the allocator lacks a function");
  host_memory memory = allocator ? *allocator : host_memory_default;
  tn_runtime *r = host_alloc(&memory, sizeof *r);
  if (!r) return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  r->memory = memory;
  r->fork_generation = atomic_load(&fork_generation);
  pthread_mutex_init(&r->mutex, NULL);
  tn_status status = open_parts(r, options);
  if (status) {
    destroy(r);
    return status;
  }
  fail_clear();
  *runtime = r;
  return TN_OK;
}

tn_device *tn_runtime_device(const tn_runtime *runtime) { return runtime ? runtime->chosen : NULL; }

/* --- operators and kernels, for those who ask --- */

size_t tn_op_count(tn_runtime *runtime) {
  size_t count = 0;
  for (uint32_t i = 0; runtime && i < OPS_MAX; ++i)
    count += registry_op(&runtime->registry, i) != NULL;
  return count;
}

const struct tn_operator *tn_op_at(tn_runtime *runtime, size_t index) {
  for (uint32_t i = 0; runtime && i < OPS_MAX; ++i) {
    const op_entry *e = registry_op(&runtime->registry, i);
    if (e && index-- == 0) return &e->row;
  }
  return NULL;
}

tn_status tn_op_find(tn_runtime *runtime, const char *name, uint32_t *op) {
  if (!runtime || !name || !op)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_op_find: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  const op_entry *e = registry_find_op(&runtime->registry, name);
  if (!e) return fail(TN_ERR_NOT_FOUND, "tn_op_find: there is no operator '%s'", name);
  *op = e->row.id;
  return TN_OK;
}

void kernel_describe(const cell *c, tn_kernel_info *info) {
  const tn_kernel *row = &c->kernel->row;
  tn_kernel_info full = {.struct_size = info->struct_size,
                         .priority = row->priority,
                         .name = row->name,
                         .plugin = c->kernel->plugin->name,
                         .note = row->note ? row->note : "",
                         .some_calls = !c->direct};
  memcpy(info, &full, info->struct_size < sizeof full ? info->struct_size : sizeof full);
}

tn_status tn_kernel_find(tn_device *device, uint32_t op, tn_dtype dtype, uint32_t rank,
                         tn_kernel_info *info) {
  if (!device) return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_find: device is NULL");
  if (op >= OPS_MAX || (unsigned)dtype >= TN_DTYPE_SLOTS)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_find: %u is no operator or %d no element type",
                op, (int)dtype);
  tn_status status = struct_check("tn_kernel_find", "info", "tn_kernel_info", info);
  if (!status) status = runtime_check(device->runtime);
  if (status) return status;
  const cell *c = registry_cells(device->table, op, dtype);
  for (; c && rank; --rank) c = atomic_load_explicit(&c->next, memory_order_acquire);
  if (!c)
    return fail(TN_ERR_UNSUPPORTED, "tn_kernel_find: no %skernel for operator %u and %s on %s",
                rank ? "further " : "", op, tn_dtype_name(dtype), device->id);
  kernel_describe(c, info);
  return TN_OK;
}

/* pre: the runtime's mutex is held. */
static const kernel_entry *kernel_at(const tn_runtime *runtime, size_t index) {
  for (const plugin_entry *e = runtime->registry.plugins; e; e = e->next) {
    if (atomic_load(&e->withdrawn)) continue;
    if (index < e->num_kernels) return &e->kernels[index];
    index -= e->num_kernels;
  }
  return NULL;
}

tn_status tn_kernel_at(tn_runtime *runtime, size_t index, tn_kernel_row *row) {
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_kernel_at: runtime is NULL");
  tn_status status = struct_check("tn_kernel_at", "row", "tn_kernel_row", row);
  if (!status) status = runtime_check(runtime);
  if (status) return status;
  pthread_mutex_lock(&runtime->mutex);
  const kernel_entry *k = kernel_at(runtime, index);
  pthread_mutex_unlock(&runtime->mutex);
  if (!k) return fail(TN_ERR_NOT_FOUND, "tn_kernel_at: there are fewer kernels than %zu", index);
  tn_kernel_row full = {row->struct_size,   k->op->row.id, k->row.name,     k->plugin->name,
                        k->row.device_type, {0},           k->row.priority, k->row.flags};
  memcpy(full.types, k->row.types, sizeof full.types);
  memcpy(row, &full, row->struct_size < sizeof full ? row->struct_size : sizeof full);
  return TN_OK;
}
