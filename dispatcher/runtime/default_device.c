/*
 * The choice of a device: by name ("type" or "type:index"), by the configured list, or
 * by score. A name that is unknown or unusable is an error that lists what exists and
 * why the rest cannot be used; nothing is ever substituted in silence.
 */
#include "dispatcher/runtime/default_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/plugins/plugins.h"

size_t tn_device_count(tn_runtime *runtime) {
  if (!runtime) return 0;
  (void)plugins_need_all(runtime);
  return atomic_load_explicit(&runtime->num_ranked, memory_order_acquire);
}

tn_device *tn_device_at(tn_runtime *runtime, size_t index) {
  return index < tn_device_count(runtime) ? atomic_load(&runtime->ranked[index]) : NULL;
}

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  if (used < size) vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

static void list_refused(tn_runtime *r, char *text, size_t size) {
  pthread_mutex_lock(&r->mutex);
  for (size_t i = 0; i < r->num_records; ++i) {
    const plugin_record *record = r->records[i];
    if (record->state == PLUGIN_REFUSED && record->reason)
      append(text, size, "; plugin %s: %s", record->name[0] ? record->name : record->path,
             record->reason);
  }
  pthread_mutex_unlock(&r->mutex);
}

/* "cpu:0 (...), cuda: no driver; plugin x was refused: ..." */
static void list_devices(tn_runtime *r, char *text, size_t size) {
  text[0] = 0;
  uint32_t count = (uint32_t)tn_device_count(r);
  for (uint32_t i = 0; i < count; ++i) {
    const tn_device *d = atomic_load(&r->ranked[i]);
    append(text, size, "%s%s", text[0] ? ", " : "", d->id);
    if (atomic_load(&d->attention) & DEVICE_UNLOADED)
      append(text, size, " (unusable: its plugin was unloaded)");
    else if (d->unavailable[0])
      append(text, size, " (unusable: %s)", d->unavailable);
  }
  if (count == 0) append(text, size, "none");
  for (uint32_t i = 0; i < atomic_load(&r->registry.num_types); ++i) {
    const device_type *t = r->registry.types[i];
    if (t->unavailable[0]) append(text, size, "; %s: %s", t->backend.device_type, t->unavailable);
  }
  list_refused(r, text, size);
}

/* Splits "type:index"; false if malformed. */
static bool parse_id(const char *id, size_t length, char *type, size_t size, uint32_t *index) {
  const char *colon = memchr(id, ':', length);
  size_t type_length = colon ? (size_t)(colon - id) : length;
  if (type_length == 0 || type_length >= size) return false;
  memcpy(type, id, type_length);
  type[type_length] = 0;
  *index = 0;
  if (!colon) return true;
  size_t digits = length - type_length - 1;
  if (digits == 0 || digits > 4) return false;
  for (size_t i = 1; i <= digits; ++i) {
    if (colon[i] < '0' || colon[i] > '9') return false;
    *index = *index * 10 + (uint32_t)(colon[i] - '0');
  }
  return true;
}

static tn_device *find(const tn_runtime *r, const char *type, uint32_t index) {
  uint32_t count = atomic_load(&r->num_devices);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device *d = atomic_load(&r->devices[i]);
    if (d->index == index && strcmp(d->type->backend.device_type, type) == 0 &&
        !(atomic_load(&d->attention) & DEVICE_UNLOADED))
      return d;
  }
  return NULL;
}

static tn_status find_text(tn_runtime *r, const char *id, size_t length, tn_device **device) {
  char type[64], list[1400];
  uint32_t index;
  if (!parse_id(id, length, type, sizeof type, &index)) {
    list_devices(r, list, sizeof list);
    return fail(TN_ERR_INVALID_ARGUMENT,
                "'%.*s' is no device name; write type or type:number. Devices: %s", (int)length, id,
                list);
  }
  tn_status status = plugins_need_type(r, type);
  if (status) return status;
  *device = find(r, type, index);
  if (!*device && !registry_find_type(&r->registry, type)) status = plugins_need_all(r);
  if (status) return status;
  if (!*device) *device = find(r, type, index);
  if (*device) return TN_OK;
  const device_type *t = registry_find_type(&r->registry, type);
  list_devices(r, list, sizeof list);
  if (t && t->unavailable[0])
    return fail(TN_ERR_NOT_FOUND, "there is no device '%.*s': %s. Devices: %s", (int)length, id,
                t->unavailable, list);
  return fail(TN_ERR_NOT_FOUND, "there is no device '%.*s'. Devices: %s", (int)length, id, list);
}

tn_status tn_device_find(tn_runtime *runtime, const char *id, tn_device **device) {
  if (!runtime || !id || !device)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_device_find: an argument is NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  tn_device *found;
  status = find_text(runtime, id, strlen(id), &found);
  if (!status) *device = found;
  return status;
}

/* The first of a comma-separated list that exists and opens. */
static tn_status choose_named(tn_runtime *r, tn_device **device) {
  tn_status status = TN_ERR_INVALID_ARGUMENT;
  char reasons[1900] = "";
  for (const char *at = r->config.device;; ++at) {
    size_t length = strcspn(at, ",");
    tn_device *d = NULL;
    status = find_text(r, at, length, &d);
    if (!status) status = device_ready(d);
    if (!status) {
      *device = d;
      return TN_OK;
    }
    if (status == TN_ERR_OUT_OF_MEMORY) return status;
    append(reasons, sizeof reasons, "%s%s", reasons[0] ? "; " : "", tn_last_error());
    at += length;
    if (!*at) break;
  }
  return fail(status == TN_ERR_INVALID_ARGUMENT ? status : TN_ERR_NOT_FOUND, "%s=%s: %s",
              r->config.device_from, r->config.device, reasons);
}

static tn_status choose_best(tn_runtime *r, tn_device **device) {
  uint32_t count = (uint32_t)tn_device_count(r);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device *d = atomic_load(&r->ranked[i]);
    if (d->props.score <= 0 || d->unavailable[0]) continue;
    tn_status status = device_ready(d);
    if (!status) *device = d;
    if (!status || status == TN_ERR_OUT_OF_MEMORY) return status;
    runtime_log(r, TN_LOG_WARN, "%s", tn_last_error());
  }
  char list[1900];
  list_devices(r, list, sizeof list);
  return fail(TN_ERR_NOT_FOUND, "no device can be used. Devices: %s", list);
}

tn_status device_choose(tn_runtime *runtime, tn_device **device) {
  return runtime->config.device ? choose_named(runtime, device) : choose_best(runtime, device);
}
