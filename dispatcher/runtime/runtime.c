/*
 * Opening and closing runtimes, and reporting what became of each plugin.
 *
 * A closed runtime stays whole while tensors of it live: the last release destroys it
 * (runtime_drop). After fork() the child's copy of a runtime refuses every call; the
 * only trace of that in the hot path is one comparison with a counter that the child's
 * fork handler raises.
 */
#include "dispatcher/base/invariant.h"
#include "dispatcher/layers/watch.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/runtime/plugins.h"

tn_status runtime_check_slow(const tn_runtime *runtime) {
  if (runtime->is_grave) return fail(TN_ERR_INVALID_ARGUMENT, "a tensor is used after its release");
  if (atomic_load(&fork_generation) != runtime->fork_generation)
    return fail(TN_ERR_FORKED, "this runtime was opened before fork(); open a new one in the "
                               "child, or fork before opening");
  if (atomic_load(&runtime->closed)) return fail(TN_ERR_CLOSED, "the runtime was closed");
  return TN_OK;
}

/* --- plugins --- */

static const plugin_entry *entry_of(const tn_runtime *r, const tn_plugin *plugin) {
  for (const plugin_entry *e = r->registry.plugins; e; e = e->next)
    if (e->plugin == plugin) return e;
  return NULL;
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
  if (!status) status = plugins_need_all(runtime);
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
        .reason = record->state == PLUGIN_UNLOADED  ? "unloaded by tn_runtime_unload_plugin"
                  : record->state == PLUGIN_REFUSED ? record->reason
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

/* Leaves the shell. */
static void destroy(tn_runtime *r) {
  host_memory memory = r->memory;
  layers_close(r);
  for (uint32_t i = 0; r->devices && i < atomic_load(&r->num_devices); ++i)
    device_free(atomic_load(&r->devices[i]));
  watch_close(r);
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
  shell_drop(r);
}

void runtime_drop(tn_runtime *runtime) {
  INVARIANT(atomic_load(&runtime->held) && atomic_load(&runtime->shell_held));
  if (atomic_fetch_sub(&runtime->held, 1) == 1) destroy(runtime);
}

void runtime_release(tn_runtime *runtime, storage *s) {
  if (runtime_is_forked(runtime)) return; /* locks may be held by threads of the parent */
  bool pooled = s->block != NULL;
  storage_free(s);
  if (pooled) runtime_drop(runtime);
}

/* The host may have freed what its callback needs once tn_runtime_close has returned. */
static void log_no_more(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level, (void)line;
}

/* From here on nothing of the host's is called but its allocator and deleters, and blocks
 * that are in use hold the runtime. */
static void shut(tn_runtime *r) {
  uint64_t blocks = 0;
  r->host.num_threads = 1; /* what is left of work, in freeing memory, stays in its caller */
  thread_pool_stop(r->threads);
  for (uint32_t i = 0; i < atomic_load(&r->num_devices); ++i) {
    tn_device *d = atomic_load(&r->devices[i]);
    if (!atomic_load(&d->ready)) continue;
    device_shut(d);
    uint64_t in_use = pool_blocks_in_use(d->pool);
    if (in_use) pool_trim(d->pool);
    blocks += in_use;
  }
  if (atomic_fetch_add(&r->held, blocks) + blocks > 1 && r->log) r->log = log_no_more;
  atomic_store(&r->closed, true);
}

void tn_runtime_close(tn_runtime *runtime) {
  if (!runtime || runtime_check(runtime)) return;
  for (uint32_t i = 0; i < atomic_load(&runtime->num_devices); ++i) {
    tn_device *d = atomic_load(&runtime->devices[i]);
    if (atomic_load(&d->ready)) (void)tn_device_synchronize(d);
    device_release_ones(d);
  }
  if (runtime->watch) notify_closing(runtime);
  shut(runtime);
  runtime_drop(runtime);
}

/* --- opening --- */

static bool runtime_is_valid(const tn_runtime *r) {
  if (r->held < 1 || r->shell_held < 1 || r->closed || r->is_grave || r->shells) return false;
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
  r->ranked = host_alloc(&r->memory, DEVICES_MAX * sizeof *r->ranked);
  if (!r->devices || !r->ranked)
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  status = registry_init(&r->memory, &r->registry);
  if (status) return status;
  r->registry.deterministic_only = r->config.deterministic;
  if (r->config.deterministic) r->registry.steady_run = host_run_steadily;
  if (!r->parallel.run) status = thread_pool_create(&r->memory, r->config.num_threads, &r->threads);
  if (r->threads) thread_pool_on_shortage(r->threads, host_tell_shortage, r);
  if (!status) status = plugins_open(r);
  if (!status) settings_warn(r);
  if (!status) status = layers_open(r);
  return status ? status : device_choose(r, &r->chosen);
}

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
  tn_runtime *r = shell_alloc(sizeof *r);
  if (!r) return fail(TN_ERR_OUT_OF_MEMORY, "tn_runtime_open: no host memory");
  r->memory = memory;
  r->held = r->shell_held = 1;
  r->fork_generation = atomic_load(&fork_generation);
  pthread_mutex_init(&r->loading, NULL);
  pthread_mutex_init(&r->mutex, NULL);
  tn_status status = open_parts(r, options);
  if (status) {
    runtime_drop(r);
    return status;
  }
  INVARIANT(runtime_is_valid(r));
  fail_clear();
  *runtime = r;
  return TN_OK;
}

tn_device *tn_runtime_device(const tn_runtime *runtime) { return runtime ? runtime->chosen : NULL; }

/* --- operators and kernels, for those who ask --- */

size_t tn_op_count(tn_runtime *runtime) {
  size_t count = 0;
  if (runtime) (void)plugins_need_operators(runtime);
  for (uint32_t i = 0; runtime && i < OPS_MAX; ++i)
    count += registry_op(&runtime->registry, i) != NULL;
  return count;
}

const struct tn_operator *tn_op_at(tn_runtime *runtime, size_t index) {
  if (runtime) (void)plugins_need_operators(runtime);
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
  if (!e) status = plugins_need_operators(runtime);
  if (status) return status;
  if (!e) e = registry_find_op(&runtime->registry, name);
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
  if (!status) status = plugins_need_all(runtime);
  if (status) return status;
  const kernel_entry *k = kernel_at(runtime, index);
  if (!k) return fail(TN_ERR_NOT_FOUND, "tn_kernel_at: there are fewer kernels than %zu", index);
  tn_kernel_row full = {row->struct_size,   k->op->row.id, k->row.name,     k->plugin->name,
                        k->row.device_type, {0},           k->row.priority, k->row.flags};
  memcpy(full.types, k->row.types, sizeof full.types);
  memcpy(row, &full, row->struct_size < sizeof full ? row->struct_size : sizeof full);
  return TN_OK;
}
