/*
 * Autocast of a graph: its device's watcher, and the casts that the graph has. What a cast is of is
 * a value, a view of a buffer at one version: a parameter is cast once until it is updated.
 */
#include "dispatcher/notify/watch.h"
#include "graph/autocast/autocast.h"
#include "graph/autocast/cache.h"
#include "graph/objects.h"
#include "tenon/ops.h"

struct graph_casts {
  autocast autocast; /* first */
  call_watcher watcher;
  tn_graph *graph;
  cast_cache cache;
};

static tn_status cast_once(autocast *a, tn_stream *stream, const tn_tensor *x, tn_dtype dtype,
                           tn_tensor **y) {
  struct graph_casts *c = (struct graph_casts *)a;
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = (int32_t)dtype};
  tn_tensor **kept;
  uint32_t value;
  tn_status status = capture_value(c->graph, x, &value);
  if (!status) status = cast_cache_place(&c->cache, &c->graph->memory, value, dtype, &kept);
  if (!status && !*kept) status = tn_cast(stream, x, &attrs, kept);
  if (status) return status;
  tn_tensor_retain(*kept);
  *y = *kept;
  return TN_OK;
}

static tn_status make_call(autocast *a, const tn_call *call) {
  (void)a;
  return tn_invoke(call);
}

static tn_status watched_call(call_watcher *w, const tn_call *call) {
  char *casts = (char *)w - offsetof(struct graph_casts, watcher);
  return autocast_invoke(&((struct graph_casts *)(void *)casts)->autocast, call);
}

tn_status tn_graph_autocast(tn_graph *graph, tn_dtype dtype) {
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_autocast: graph is NULL");
  tn_status status = runtime_check(graph->runtime);
  if (status) return fail_prefix("tn_graph_autocast: "), status;
  status = autocast_check("tn_graph_autocast", dtype);
  if (status) return status;
  if (dtype && !graph->casts) {
    graph->casts = host_alloc(&graph->memory, sizeof *graph->casts);
    if (!graph->casts) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
    graph->casts->graph = graph;
    graph->casts->autocast =
        (autocast){.cast = cast_once, .invoke = make_call, .check = capture_check};
    graph->casts->watcher.call = watched_call;
  }
  if (graph->casts) graph->casts->autocast.dtype = dtype;
  device_watcher_set(graph->device, dtype ? &graph->casts->watcher : NULL);
  return TN_OK;
}

bool graph_casts_pause(tn_graph *graph, bool paused) {
  if (!graph->casts) return false;
  bool before = graph->casts->watcher.paused;
  graph->casts->watcher.paused = paused;
  return before;
}

void graph_casts_free(tn_graph *graph) {
  if (graph->casts) cast_cache_free(&graph->casts->cache, &graph->memory);
  host_free(&graph->memory, graph->casts);
  graph->casts = NULL;
}
