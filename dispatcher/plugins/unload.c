/*
 * Logical unload: a plugin's kernels, operators and devices go, while its library, its
 * handles and the tensors on its devices stay until the runtime dies. Loading the same
 * file again gives back what was there, devices and live tensors included.
 */
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/plugins/records.h"

static plugin_entry *find_loaded(const tn_runtime *r, const char *name) {
  for (plugin_entry *e = r->registry.plugins; e; e = e->next)
    if (!atomic_load(&e->unloaded) && strcmp(e->name, name) == 0) return e;
  return NULL;
}

static tn_status check_unused(const tn_runtime *r, const plugin_entry *e) {
  if (r->chosen && r->chosen->type->plugin == e)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_runtime_unload_plugin: plugin %s serves %s, the runtime's default device; open "
                "a runtime with another one",
                e->name, r->chosen->id);
  for (size_t i = 0; i < e->num_layers; ++i)
    if (layer_place(r, &e->layers[i]))
      return fail(
          TN_ERR_INVALID_ARGUMENT,
          "tn_runtime_unload_plugin: layer %s of plugin %s is on; open a runtime without it",
          e->layers[i].name, e->name);
  return TN_OK;
}

static void mark_devices(const tn_runtime *r, const plugin_entry *e, bool unloaded) {
  for (uint32_t i = 0; i < atomic_load(&r->num_devices); ++i) {
    tn_device *d = atomic_load(&r->devices[i]);
    if (d->type->plugin != e) continue;
    if (unloaded)
      atomic_fetch_or(&d->attention, DEVICE_UNLOADED);
    else
      atomic_fetch_and(&d->attention, (uint8_t)~DEVICE_UNLOADED);
  }
}

/* pre of this and the next: `loading` is held. */
static void mark_record(tn_runtime *r, plugin_record *record) {
  pthread_mutex_lock(&r->mutex);
  record->plugin = NULL;
  record->state = PLUGIN_UNLOADED;
  pthread_mutex_unlock(&r->mutex);
}

/* The record of a plugin that was taken, or that waits and then never comes. */
static plugin_record *find_record(const tn_runtime *r, const char *name, plugin_state state) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->state == state && strcmp(r->records[i]->name, name) == 0)
      return r->records[i];
  return NULL;
}

/* Lets the work end that was under way, and gives cached memory back. */
static void settle_devices(const tn_runtime *r, const plugin_entry *e) {
  for (uint32_t i = 0; i < atomic_load(&r->num_devices); ++i) {
    tn_device *d = atomic_load(&r->devices[i]);
    if (d->type->plugin != e || !atomic_load(&d->ready)) continue;
    if (!(atomic_load(&d->attention) & DEVICE_FAULTED)) (void)device_wait(d);
    pool_trim(d->pool);
  }
}

static tn_status unload(tn_runtime *r, const char *name, plugin_entry **entry) {
  plugin_entry *e = find_loaded(r, name);
  if (!e) return fail(TN_ERR_NOT_FOUND, "tn_runtime_unload_plugin: no plugin '%s' is loaded", name);
  tn_status status = check_unused(r, e);
  if (status) return status;
  mark_devices(r, e, true);
  registry_unregister(&r->registry, e);
  mark_record(r, find_record(r, name, PLUGIN_TAKEN));
  *entry = e;
  return TN_OK;
}

tn_status tn_runtime_unload_plugin(tn_runtime *runtime, const char *name) {
  if (!runtime || !name)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_unload_plugin: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  plugin_entry *e = NULL;
  plugins_lock(runtime);
  plugin_record *waiting = find_record(runtime, name, PLUGIN_WAITING);
  if (!waiting || find_loaded(runtime, name)) status = unload(runtime, name, &e);
  for (; waiting && !status; waiting = find_record(runtime, name, PLUGIN_WAITING))
    mark_record(runtime, waiting);
  if (!status) warnings_find(runtime);
  plugins_unlock(runtime);
  if (status) return status;
  if (e) settle_devices(runtime, e);
  runtime_log(runtime, TN_LOG_INFO, "plugin %s unloaded", name);
  return TN_OK;
}

tn_status unload_undo(tn_runtime *runtime, const tn_plugin *plugin, bool *was_unloaded) {
  for (plugin_entry *e = runtime->registry.plugins; e; e = e->next) {
    *was_unloaded = e->plugin == plugin && atomic_load(&e->unloaded);
    if (!*was_unloaded) continue;
    tn_status status = registry_restore(&runtime->memory, &runtime->registry, e);
    if (!status) mark_devices(runtime, e, false);
    return status;
  }
  *was_unloaded = false;
  return TN_OK;
}
