/*
 * Layers: while any is on, every table cell runs layers_run instead of its kernel,
 * which hands the call from layer to layer and at last to the kernel. With none on the
 * cells hold the kernels and this file is never entered.
 */
#include "dispatcher/layers/layers.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/notify/origin.h"
#include "dispatcher/objects/recent.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/tensor/tracked.h"

typedef struct walk {
  const tn_runtime *runtime;
  const tn_device *device;
  uint32_t next;
  tn_kernel_fn run;
} walk;

/* A stream of a synchronous device has a queue for layers to tell it by, not for kernels. */
static tn_status run_kernel(const walk *w, const tn_kernel_args *args) {
  if (!w->device || !w->device->synchronous || !args->queue) return w->run(args);
  tn_kernel_args plain = *args;
  plain.queue = NULL;
  return w->run(&plain);
}

/* A status passes several plugins on its way back: each time it is made one that exists. */
static tn_status step(const tn_layer_call *call, void *ctx) {
  walk *w = ctx;
  char what[96];
  INVARIANT(w->next <= w->runtime->num_layers && call->args->kernel);
  if (w->next == w->runtime->num_layers) {
    tn_status status = run_kernel(w, call->args);
    if (status) status = fail_of_plugin(status, call->plugin, "kernel");
    return status;
  }
  const layer_link *link = &w->runtime->layers[w->next++];
  tn_status status = link->layer->call(link->state, call, step, w);
  if (!status) return TN_OK;
  snprintf(what, sizeof what, "layer %s", link->layer->name);
  return fail_of_plugin(status, link->plugin, what);
}

static bool may_run(const tn_device *d, const tn_kernel *row) {
  return strcmp(row->device_type, d->type->backend.device_type) == 0 ||
         (d->host_memory && strcmp(row->device_type, TN_DEVICE_ANY_HOST) == 0);
}

/* Rows for any host device do not say which device runs them; the handle does, and the row
 * where devices of several types have one handle. */
static const tn_device *device_of(const tn_runtime *runtime, const void *handle,
                                  const tn_kernel *row) {
  uint32_t count = atomic_load_explicit(&runtime->num_devices, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const tn_device *d = atomic_load(&runtime->devices[i]);
    if (d->handle == handle && may_run(d, row)) return d;
  }
  return NULL;
}

static tn_status layers_run(const tn_kernel_args *args) {
  const kernel_entry *kernel = (const kernel_entry *)(const void *)args->kernel;
  const op_entry *op = kernel->op;
  const tn_runtime *runtime = args->host->impl;
  const tn_device *device = device_of(runtime, args->device, args->kernel);
  tn_layer_call call = {
      .struct_size = sizeof call,
      .op = &op->row,
      .device_type = device ? device->type->backend.device_type : kernel->row.device_type,
      .device_index = device ? (int32_t)device->index : 0,
      .args = args,
      .plugin = kernel->plugin->name,
      .stream = args->queue ? args->queue : args->device,
      .site = error_call_site(),
      .backend = device ? &device->type->backend : NULL,
      .fallback_from = origin_fallback(),
      .stand_in_for = origin_stands_in_for(),
  };
  walk w = {
      runtime, device, 0,
      registry_run_fn(&runtime->registry, args->kernel, device ? &device->type->backend : NULL)};
  if (device) recent_note(runtime->recent, device, op->row.name);
  tn_status status = runtime->notified ? tracked_check_args(op, args) : TN_OK;
  if (status) (void)fail_by_plugin(status, "%s", tn_last_error());
  if (!status) status = step(&call, &w);
  return status;
}

static const tn_layer *find_layer(const registry *r, const char *name, size_t length,
                                  const char **plugin) {
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (size_t i = 0; i < e->num_layers; ++i)
      if (strlen(e->layers[i].name) == length && memcmp(e->layers[i].name, name, length) == 0) {
        *plugin = e->name;
        return &e->layers[i];
      }
  return NULL;
}

static tn_status no_layer(const registry *r, const char *name, size_t length) {
  char known[256] = "none";
  size_t used = 0;
  for (const plugin_entry *e = r->plugins; e; e = e->next)
    for (size_t i = 0; i < e->num_layers && used < sizeof known; ++i)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                               e->layers[i].name);
  return fail(TN_ERR_NOT_FOUND, "TENON_LAYERS: no plugin brings a layer '%.*s'; there are: %s",
              (int)length, name, known);
}

/* Loads the plugin that says it brings the layer, or else all of them, to name what there is. */
static tn_status need_layer(tn_runtime *runtime, const char *name, size_t length) {
  char text[128];
  const char *plugin;
  snprintf(text, sizeof text, "%.*s", (int)length, name);
  tn_status status = plugins_need_layer(runtime, text);
  if (!status && !find_layer(&runtime->registry, name, length, &plugin))
    status = plugins_need_all(runtime);
  return status;
}

static tn_status open_layer(tn_runtime *runtime, const char *name, size_t length) {
  const char *plugin = NULL;
  const tn_layer *layer = find_layer(&runtime->registry, name, length, &plugin);
  tn_status needed = layer ? TN_OK : need_layer(runtime, name, length);
  if (needed) return needed;
  if (!layer) layer = find_layer(&runtime->registry, name, length, &plugin);
  if (!layer) return no_layer(&runtime->registry, name, length);
  layer_link *link = &runtime->layers[runtime->num_layers];
  link->layer = layer;
  link->plugin = plugin;
  if (layer->open) {
    char what[96];
    fail_set_reason(false);
    tn_status status = layer->open(&runtime->host, &link->state);
    snprintf(what, sizeof what, "layer %s", layer->name);
    if (status) return fail_of_plugin(status, plugin, what);
  }
  ++runtime->num_layers;
  return TN_OK;
}

static bool wants_notices(const tn_runtime *runtime) {
  for (uint32_t i = 0; i < runtime->num_layers; ++i)
    if (runtime->layers[i].layer->notify) return true;
  return false;
}

tn_status layers_open(tn_runtime *runtime) {
  const char *names = runtime->config.layers;
  if (!names) return TN_OK;
  size_t commas = 0;
  for (const char *at = names; *at; ++at) commas += *at == ',';
  runtime->layers = host_alloc(&runtime->memory, (commas + 1) * sizeof *runtime->layers);
  runtime->recent = host_alloc(&runtime->memory, sizeof *runtime->recent);
  if (!runtime->layers || !runtime->recent)
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for layers");
  for (const char *at = names;; ++at) {
    size_t length = strcspn(at, ",");
    tn_status status = length ? open_layer(runtime, at, length) : TN_OK;
    if (status) return status;
    at += length;
    if (!*at) break;
  }
  if (runtime->num_layers) registry_set_layers(&runtime->registry, layers_run);
  return wants_notices(runtime) ? tracking_open(runtime) : TN_OK;
}

static const tn_layer *layer_at(const tn_runtime *runtime, size_t index, const char **plugin) {
  for (const plugin_entry *e = runtime->registry.plugins; e; e = e->next) {
    if (atomic_load(&e->unloaded)) continue;
    *plugin = e->name;
    if (index < e->num_layers) return &e->layers[index];
    index -= e->num_layers;
  }
  return NULL;
}

tn_status tn_layer_at(tn_runtime *runtime, size_t index, tn_layer_info *info) {
  if (!runtime) return fail(TN_ERR_INVALID_ARGUMENT, "tn_layer_at: runtime is NULL");
  tn_status status = struct_check("tn_layer_at", "info", "tn_layer_info", info);
  if (!status) status = runtime_check(runtime);
  if (!status) status = plugins_need_all(runtime);
  if (status) return status;
  const char *plugin = "";
  const tn_layer *layer = layer_at(runtime, index, &plugin);
  if (!layer) return fail(TN_ERR_NOT_FOUND, "tn_layer_at: there are fewer layers than %zu", index);
  tn_layer_info full = {.struct_size = info->struct_size,
                        .place = layer_place(runtime, layer),
                        .name = layer->name,
                        .plugin = plugin,
                        .description = layer->description ? layer->description : ""};
  struct_fill(info, &full, sizeof full);
  return TN_OK;
}

void layers_close(tn_runtime *runtime) {
  for (uint32_t i = runtime->num_layers; i-- > 0;)
    if (runtime->layers[i].layer->close) runtime->layers[i].layer->close(runtime->layers[i].state);
  host_free(&runtime->memory, runtime->layers);
  host_free(&runtime->memory, runtime->recent);
  runtime->recent = NULL;
  runtime->layers = NULL;
  runtime->num_layers = 0;
}
