/*
 * The device of symbolic tensors. To the dispatcher it is a device as others are: its memory is
 * opaque, which nobody follows, and is none; its table has no kernels; and each of its calls goes
 * to the recorder. So validation, inference, messages and views are those of every device, and a
 * call on a real one knows nothing of all this.
 */
#include <stdio.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/tensor/ones.h"
#include "graph/objects.h"

typedef struct symbolic {
  tn_graph *graph; /* NULL while the device waits for another */
  const tn_host *host;
} symbolic;

static tn_status symbolic_count(const tn_host *host, void *context, uint32_t *count) {
  (void)host, (void)context;
  *count = 0; /* they are made one by one */
  return TN_OK;
}

static tn_status symbolic_describe(const tn_host *host, void *context, uint32_t index,
                                   tn_device_props *out) {
  (void)host, (void)context, (void)index;
  out->dl_device_type = kDLExtDev;
  snprintf(out->name, sizeof out->name, "tensors of a graph, without memory");
  return TN_OK;
}

static tn_status symbolic_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context, (void)index;
  symbolic *s = host->alloc(host, sizeof *s, _Alignof(symbolic));
  if (!s) return host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
  *s = (symbolic){.host = host};
  *device = s;
  return TN_OK;
}

static void symbolic_close(void *device) {
  symbolic *s = device;
  s->host->free(s->host, s);
}

/* A handle that is no other's; there is nothing behind it. */
static tn_status symbolic_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  const symbolic *s = device;
  (void)bytes;
  if (kind != TN_MEMORY_DEVICE)
    return s->host->fail(TN_ERR_UNSUPPORTED, "a graph has no memory to pin");
  *ptr = s->host->alloc(s->host, 1, 1);
  return *ptr ? TN_OK : s->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

static void symbolic_free(void *device, uint32_t kind, void *ptr) {
  const symbolic *s = device;
  (void)kind;
  s->host->free(s->host, ptr);
}

/* What is written whole is the recorder's. */
static tn_status symbolic_copy(void *device, void *queue, uint32_t direction, void *dst,
                               uint64_t dst_offset, const void *src, uint64_t src_offset,
                               size_t bytes) {
  const symbolic *s = device;
  (void)queue, (void)dst, (void)dst_offset, (void)src, (void)src_offset, (void)bytes;
  return s->host->fail(
      TN_ERR_UNSUPPORTED,
      direction == TN_COPY_TO_DEVICE
          ? "a symbolic tensor is written from host memory whole, once, and before calls use it"
          : "a symbolic tensor has no numbers: compile its graph and run the program");
}

/* Its tables are never written to: kernels are for devices that plugins bring. */
static cell_slot no_kernels[OPS_MAX * TN_DTYPE_SLOTS];
static const tn_plugin no_plugin = {.struct_size = sizeof no_plugin, .name = "tenon"};
static const plugin_entry owner = {.plugin = &no_plugin, .name = "tenon"};
static device_type type = {
    .backend = {.struct_size = sizeof type.backend,
                .flags = TN_BACKEND_SYNCHRONOUS | TN_BACKEND_OPAQUE_MEMORY,
                .device_type = "graph",
                .count = symbolic_count,
                .describe = symbolic_describe,
                .open = symbolic_open,
                .close = symbolic_close,
                .alloc = symbolic_alloc,
                .free = symbolic_free,
                .copy = symbolic_copy},
    .plugin = &owner,
    .table = no_kernels,
};

static const call_recorder recorder = {capture_call, capture_write};

/* One that nobody uses any more, not even a tensor, for the graph. */
static tn_device *take_idle(tn_graph *graph) {
  tn_runtime *runtime = graph->runtime;
  pthread_mutex_lock(&runtime->mutex);
  tn_device *d = runtime->symbolic;
  while (d && (((symbolic *)d->handle)->graph || pool_blocks_in_use(d->pool))) d = d->next_symbolic;
  if (d) ((symbolic *)d->handle)->graph = graph;
  pthread_mutex_unlock(&runtime->mutex);
  return d;
}

tn_status symbolic_take(tn_graph *graph) {
  tn_device *d = take_idle(graph);
  if (!d) {
    tn_status status = device_make_symbolic(graph->runtime, &type, &recorder, &d);
    if (status) return status;
    ((symbolic *)d->handle)->graph = graph; /* before others look for an idle one */
    device_list_symbolic(d);
  }
  snprintf(d->id, sizeof d->id, "graph \"%.80s\"", graph->name);
  for (char *c = d->id; *c; ++c)
    if ((unsigned char)*c < ' ') *c = '?'; /* messages have one line */
  graph->device = d;
  return TN_OK;
}

void symbolic_give(tn_graph *graph) {
  tn_device *d = graph->device;
  if (!d || !d->handle) return;
  device_watcher_set(d, NULL);
  if (!runtime_check(graph->runtime)) device_release_ones(d);
  pthread_mutex_lock(&graph->runtime->mutex);
  ((symbolic *)d->handle)->graph = NULL;
  pthread_mutex_unlock(&graph->runtime->mutex);
}

tn_graph *symbolic_graph(const tn_device *device) {
  if (device->recorder != &recorder || !device->handle) return NULL;
  return ((const symbolic *)device->handle)->graph;
}
