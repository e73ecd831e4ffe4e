/*
 * Taking plugins: at once, when they are needed, or because the host names a file. Every
 * step that can fail comes before anything can be seen of the plugin.
 */
#include "dispatcher/plugins/plugins.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/process_state.h"
#include "dispatcher/device/device.h"
#include "dispatcher/load/brings.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/plugins/duplicates.h"
#include "dispatcher/plugins/records.h"
#include "dispatcher/scanner/scanner.h"

/* Records kept of files that the host named and that were refused. */
enum { REFUSED_MAX = 1024 };

void plugins_lock(tn_runtime *r) {
  log_hold();
  pthread_mutex_lock(&r->loading);
}

void plugins_unlock(tn_runtime *r) {
  pthread_mutex_unlock(&r->loading);
  log_resume();
}

/* --- from a file to a registered plugin; pre of all: `loading` is held --- */

static tn_status scan(tn_runtime *r, plugin_record *record) {
  scan_result result;
  tn_status status = scan_plugin(&r->config, record->path, &record->file, &result);
  pthread_mutex_lock(&r->mutex);
  record->scan = result.outcome;
  record->scan_us = result.us;
  pthread_mutex_unlock(&r->mutex);
  if (result.note[0])
    runtime_log(r, TN_LOG_INFO, "the scan's verdict of %s cannot be remembered: %s", record->path,
                result.note);
  if (result.warning[0]) runtime_log(r, TN_LOG_WARN, "plugin %s: %s", record->path, result.warning);
  return status;
}

/* Registers with the devices that the backends find. */
static tn_status add(tn_runtime *r, const tn_plugin *plugin) {
  process_state before;
  device_list devices = {.runtime = r};
  process_state_save(&before);
  tn_status status =
      registry_add(&r->memory, &r->registry, &r->host, plugin, devices_find, &devices);
  process_state_restore(&before);
  if (status)
    devices_drop(&devices);
  else
    devices_publish(&devices);
  return status;
}

static tn_status load(const tn_runtime *r, plugin_record *record, const tn_plugin_note *note,
                      const tn_plugin **plugin) {
  process_state before;
  process_state_save(&before);
  tn_status status = loader_load(record->path, &record->file, note, &r->host, plugin);
  process_state_restore(&before);
  if (status && status != TN_ERR_OUT_OF_MEMORY) record->loaded_in_vain = true;
  if (!status && record->brings) status = brings_check(record->brings, *plugin);
  return status;
}

static tn_status need_before(tn_runtime *r, const plugin_record *record, const tn_plugin *plugin);

static tn_status take_inspected(tn_runtime *r, plugin_record *record, const tn_plugin_note *note) {
  const tn_plugin *plugin;
  bool was_unloaded;
  const plugin_record *other = record_find_taken(r, record->name);
  if (other)
    return fail(TN_ERR_PLUGIN_REFUSED, "a plugin named %s was taken from %s already", record->name,
                other->path);
  tn_status status = scan(r, record);
  if (!status) status = load(r, record, note, &plugin);
  if (!status) status = need_before(r, record, plugin);
  if (!status) status = unload_undo(r, plugin, &was_unloaded);
  if (!status && !was_unloaded) status = add(r, plugin);
  if (!status) record_set_state(r, record, PLUGIN_TAKEN, plugin);
  return status;
}

static void set_name(tn_runtime *r, plugin_record *record, const tn_plugin_note *note) {
  if (memcmp(record->name, note->name, sizeof record->name) == 0) return;
  pthread_mutex_lock(&r->mutex);
  memcpy(record->name, note->name, sizeof record->name);
  pthread_mutex_unlock(&r->mutex);
}

/* Reads what the file says of itself. */
static tn_status inspect(tn_runtime *r, plugin_record *record, tn_plugin_note *note) {
  tn_status status = loader_inspect(record->path, &record->file, note);
  host_free(&r->memory, record->brings);
  record->brings = NULL;
  record->abi_min = note->abi_min, record->abi_max = note->abi_max;
  set_name(r, record, note);
  if (!status)
    status = loader_read_brings(&r->memory, record->path, &record->file, &record->brings);
  return status;
}

/* A plugin that ran and then could not be taken is told of aloud: the process may otherwise
 * come to work on another device without a word. Other refusals are in the report. Where
 * memory ran out the record is as before. */
static tn_status conclude(tn_runtime *r, plugin_record *record, plugin_state before,
                          tn_status status) {
  if (status == TN_ERR_OUT_OF_MEMORY) {
    record_set_state(r, record, before, NULL);
    return status;
  }
  if (status) {
    tn_log_level level = record->loaded_in_vain ? TN_LOG_WARN : TN_LOG_INFO;
    runtime_log(r, level, "plugin %s not taken: %s", record->path, tn_last_error());
    status = record_set_refused(r, record);
    if (status) record_set_state(r, record, before, NULL);
    return status;
  }
  runtime_log(r, TN_LOG_INFO, "plugin %s taken from %s", record->name, record->path);
  return TN_OK;
}

/* Loads one that waits; its file may have changed since. */
static tn_status take_waiting(tn_runtime *r, plugin_record *record) {
  tn_plugin_note note = {0};
  record_set_state(r, record, PLUGIN_LOADING, NULL);
  tn_status status = loader_inspect(record->path, &record->file, &note);
  if (!status && memcmp(note.name, record->name, sizeof note.name) != 0)
    status = fail(TN_ERR_PLUGIN_REFUSED, "the file was replaced by another plugin, %s", note.name);
  if (!status) status = take_inspected(r, record, &note);
  return conclude(r, record, PLUGIN_WAITING, status);
}

/* --- what is needed --- */

/* Whether a plugin that waits is asked for. */
typedef bool wants_fn(const plugin_record *record, const char *name);

static bool wants_all(const plugin_record *record, const char *name) {
  (void)record, (void)name;
  return true;
}

static bool wants_type(const plugin_record *record, const char *type) {
  return record->brings && brings_for_type(record->brings, type);
}

static bool wants_layer(const plugin_record *record, const char *name) {
  return record->brings && brings_has(record->brings, "layer", name);
}

static bool wants_operators(const plugin_record *record, const char *name) {
  (void)name;
  return record->brings && brings_operators(record->brings);
}

static bool wants_name(const plugin_record *record, const char *name) {
  return strcmp(record->name, name) == 0;
}

/* Whether one of its name is being loaded, and so comes before it. */
static bool is_behind(const tn_runtime *r, const plugin_record *record) {
  for (size_t i = 0; i < r->num_records; ++i)
    if (r->records[i]->state == PLUGIN_LOADING && wants_name(r->records[i], record->name))
      return true;
  return false;
}

/* In order of discovery, and of plugins with one name the first one first. */
static tn_status take_wanted(tn_runtime *r, wants_fn *wants, const char *name) {
  tn_status status = TN_OK;
  for (size_t i = 0; i < r->num_records && !status; ++i) {
    plugin_record *record = r->records[i];
    if (record->state != PLUGIN_WAITING || !wants(record, name) || is_behind(r, record)) continue;
    for (size_t k = 0; k <= i && !status; ++k)
      if (r->records[k]->state == PLUGIN_WAITING && wants_name(r->records[k], record->name))
        status = take_waiting(r, r->records[k]);
  }
  return status;
}

static bool names_operators(const tn_plugin *plugin) {
  for (uint32_t i = 0; i < plugin->num_kernels; ++i)
    if (!plugin_kernel(plugin, i)->op) return true;
  return false;
}

/* Operators that its kernels name. And before a plugin that the host names, those discovered
 * for its types of device: whose device it is, and which of two kernels of one priority is
 * taken, must not depend on what was needed so far. */
static tn_status need_before(tn_runtime *r, const plugin_record *record, const tn_plugin *plugin) {
  tn_status status = TN_OK;
  const char *last = "";
  if (names_operators(plugin)) status = take_wanted(r, wants_operators, NULL);
  if (!record->named) return status;
  for (uint32_t i = 0; i < plugin->num_backends && !status; ++i)
    status = take_wanted(r, wants_type, plugin->backends[i]->device_type);
  for (uint32_t i = 0; i < plugin->num_kernels && !status; ++i) {
    const char *type = plugin_kernel(plugin, i)->device_type;
    if (strcmp(type, last) != 0) status = take_wanted(r, wants_type, type);
    last = type;
  }
  return status;
}

static uint32_t count_waiting(const tn_runtime *r) {
  uint32_t count = 0;
  for (size_t i = 0; i < r->num_records; ++i) count += r->records[i]->state == PLUGIN_WAITING;
  return count;
}

/* After plugins were taken: nobody who finds that none waits must miss a device. */
static void settle(tn_runtime *r) {
  devices_rank(r, atomic_load(&r->num_waiting) != 0);
  atomic_store_explicit(&r->num_waiting, count_waiting(r), memory_order_release);
  warnings_find(r);
  (void)duplicates_find(r); /* whoever asks for them has them looked for again */
}

static tn_status need_slow(tn_runtime *r, wants_fn *wants, const char *name) {
  tn_status status = runtime_check(r);
  if (status) return status;
  plugins_lock(r);
  char message[2048];
  status = take_wanted(r, wants, name);
  snprintf(message, sizeof message, "%s", tn_last_error());
  settle(r);
  plugins_unlock(r);
  return status ? fail(status, "%s", message) : TN_OK;
}

/* On success the calling thread's message stays: what was refused on the way is reported. */
static tn_status need(tn_runtime *r, wants_fn *wants, const char *name) {
  char message[2048];
  if (!atomic_load_explicit(&r->num_waiting, memory_order_acquire)) return TN_OK;
  snprintf(message, sizeof message, "%s", tn_last_error());
  tn_status status = need_slow(r, wants, name);
  if (!status) status = fail(TN_OK, "%s", message);
  return status;
}

tn_status plugins_need_all(tn_runtime *r) { return need(r, wants_all, NULL); }
tn_status plugins_need_type(tn_runtime *r, const char *type) { return need(r, wants_type, type); }
tn_status plugins_need_layer(tn_runtime *r, const char *name) { return need(r, wants_layer, name); }
tn_status plugins_need_operators(tn_runtime *r) { return need(r, wants_operators, NULL); }

static bool wants_host(const plugin_record *record, const char *name) {
  char type[64];
  const char *at = record->brings;
  (void)name;
  return brings_next(&at, "host-device", type, sizeof type);
}

tn_status plugins_need_hosts(tn_runtime *r) {
  tn_status status = need(r, wants_host, NULL);
  for (uint32_t i = 0; !status && i < atomic_load(&r->registry.num_types); ++i) {
    const tn_backend *b = &r->registry.types[i]->backend;
    if (b->flags & TN_BACKEND_HOST_MEMORY) status = plugins_need_type(r, b->device_type);
  }
  return status;
}

/* --- when a runtime opens --- */

static tn_status add_candidate(tn_runtime *r, const struct candidate *c) {
  tn_plugin_note note = {0};
  plugin_record *record;
  tn_status status = records_reserve(r);
  if (!status) status = record_make(r, c->path, c->origin, &record);
  if (status) return status;
  record_list(r, record);
  status = inspect(r, record, &note);
  if (!status && !config_selects(r->config.plugins, record->name))
    status = fail(TN_ERR_PLUGIN_REFUSED, "left out by TENON_PLUGINS=%s", r->config.plugins);
  if (status) return conclude(r, record, PLUGIN_REFUSED, status);
  record_set_state(r, record, PLUGIN_WAITING, NULL);
  return TN_OK;
}

/* Without words a plugin may bring anything. */
static bool cannot_wait(const plugin_record *record, const char *name) {
  (void)name;
  return !record->brings || brings_has(record->brings, "kernels", TN_DEVICE_ANY_HOST);
}

static tn_status add_candidates(tn_runtime *r) {
  candidate_list list = {0};
  tn_status status = loader_discover(&r->memory, &r->config, &list);
  for (size_t i = 0; !status && i < list.count; ++i) status = add_candidate(r, &list.items[i]);
  candidate_list_free(&r->memory, &list);
  return status;
}

tn_status plugins_open(tn_runtime *r) {
  atomic_store(&r->num_waiting, 1); /* nobody has seen the order of devices yet */
  tn_status status = add_candidates(r);
  if (!status) status = take_wanted(r, r->config.device ? cannot_wait : wants_all, NULL);
  if (!status) settle(r);
  return status;
}

/* --- a file that the host names --- */

/* A record for it: that of an earlier time, or a new one that is not listed yet. */
static tn_status record_for(tn_runtime *r, const char *path, plugin_record **out, bool *is_new) {
  *out = record_find_path(r, path);
  *is_new = !*out;
  tn_status status = *is_new ? records_reserve(r) : TN_OK;
  if (!status && *is_new) status = record_make(r, path, "tn_runtime_load_plugin", out);
  return status;
}

static bool claims_device_of(const plugin_record *record, const plugin_record *other,
                             const char *kind) {
  char type[64];
  for (const char *at = other->brings; brings_next(&at, kind, type, sizeof type);)
    if (brings_has(record->brings, "device", type) ||
        brings_has(record->brings, "host-device", type))
      return true;
  return false;
}

/* One that waits, behind those found before it that claim its name or a device of its. */
static tn_status take_in_turn(tn_runtime *r, plugin_record *record) {
  tn_status status = TN_OK;
  for (size_t i = 0; r->records[i] != record && !status; ++i) {
    plugin_record *other = r->records[i];
    if (other->state == PLUGIN_WAITING &&
        (wants_name(other, record->name) || claims_device_of(other, record, "device") ||
         claims_device_of(other, record, "host-device")))
      status = take_waiting(r, other);
  }
  if (!status && record->state == PLUGIN_WAITING) status = take_waiting(r, record);
  return status;
}

static tn_status take_named(tn_runtime *r, plugin_record *record) {
  tn_plugin_note note = {0};
  plugin_state before = record->state;
  if (before == PLUGIN_WAITING) return take_in_turn(r, record);
  record_set_state(r, record, PLUGIN_LOADING, NULL);
  record->named = true;
  tn_status status = inspect(r, record, &note);
  if (!status) status = take_wanted(r, wants_name, record->name);
  if (!status) status = take_inspected(r, record, &note);
  return conclude(r, record, before, status);
}

/* Refused ones are listed up to a bound, so that trying for ever takes no memory. */
static void settle_new(tn_runtime *r, plugin_record *record) {
  if (record->state == PLUGIN_TAKEN || r->num_refused < REFUSED_MAX) {
    r->num_refused += record->state != PLUGIN_TAKEN;
    record_list(r, record);
  } else {
    plugin_record_free(&r->memory, record);
  }
}

static tn_status load_named(tn_runtime *r, const char *path) {
  plugin_record *record;
  bool is_new;
  tn_status status = record_for(r, path, &record, &is_new);
  if (status) return status;
  status = take_named(r, record);
  if (!status && record->state != PLUGIN_TAKEN)
    status = fail(TN_ERR_PLUGIN_REFUSED, "plugin %s: %s", path, record->reason);
  if (status == TN_ERR_OUT_OF_MEMORY && is_new)
    plugin_record_free(&r->memory, record);
  else if (is_new)
    settle_new(r, record);
  return status;
}

tn_status tn_runtime_load_plugin(tn_runtime *runtime, const char *path) {
  if (!runtime || !path)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_runtime_load_plugin: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  plugins_lock(runtime);
  status = load_named(runtime, path);
  if (!status) settle(runtime);
  plugins_unlock(runtime);
  if (!status) fail_clear();
  return status;
}
