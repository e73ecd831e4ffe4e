/* What became of each candidate. */
#include "dispatcher/load/loader.h"
#include "dispatcher/plugins/plugins.h"

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
        .warnings = e && record->warnings ? record->warnings : "",
        .abi_min = record->abi_min,
        .abi_max = record->abi_max,
        .brings = record->brings ? record->brings : "",
    };
    struct_fill(info, &full, sizeof full);
  }
  pthread_mutex_unlock(&runtime->mutex);
  return status;
}
