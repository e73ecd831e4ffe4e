/*
 * Autocast of a graph: its device's watcher, and the casts that the graph has. What a cast is of is
 * a value, a view of a buffer at one version: a parameter is cast once until it is updated.
 */
#include "dispatcher/notify/watch.h"
#include "graph/autocast/autocast.h"
#include "graph/objects.h"
#include "tenon/ops.h"

/* What a value was cast to. */
typedef struct value_casts {
  tn_tensor *f16, *bf16, *f32;
} value_casts;

struct graph_casts {
  autocast autocast; /* first */
  call_watcher watcher;
  tn_graph *graph;
  value_casts *of; /* by value */
  size_t num_values;
};

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

/* --- the casts that are there --- */

static tn_status reserve(struct graph_casts *c, uint32_t value) {
  const host_memory *memory = &c->graph->memory;
  size_t count = c->num_values ? c->num_values : 64;
  if (value < c->num_values) return TN_OK;
  while (count <= value) count *= 2;
  value_casts *wider = host_alloc(memory, count * sizeof *wider);
  if (!wider) return no_memory();
  for (size_t i = 0; i < c->num_values; ++i) wider[i] = c->of[i];
  host_free(memory, c->of);
  c->of = wider;
  c->num_values = count;
  return TN_OK;
}

static tn_tensor **place_of(struct graph_casts *c, uint32_t value, tn_dtype dtype) {
  value_casts *v = &c->of[value];
  return dtype == TN_F16 ? &v->f16 : dtype == TN_BF16 ? &v->bf16 : &v->f32;
}

static tn_status cast_once(autocast *a, tn_stream *stream, const tn_tensor *x, tn_dtype dtype,
                           tn_tensor **y) {
  struct graph_casts *c = (struct graph_casts *)a;
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = (int32_t)dtype};
  uint32_t value;
  tn_status status = capture_value(c->graph, x, &value);
  if (!status) status = reserve(c, value);
  if (status) return status;
  tn_tensor **kept = place_of(c, value, dtype);
  if (!*kept) status = tn_cast(stream, x, &attrs, kept);
  if (status) return status;
  tn_tensor_retain(*kept);
  *y = *kept;
  return TN_OK;
}

/* --- the watcher --- */

static tn_status invoke_recorded(autocast *a, const tn_call *call) {
  (void)a;
  return tn_invoke(call);
}

static tn_status watched_call(call_watcher *w, const tn_call *call) {
  struct graph_casts *c =
      (struct graph_casts *)(void *)((char *)w - offsetof(struct graph_casts, watcher));
  return autocast_invoke(&c->autocast, call);
}

tn_status tn_graph_autocast(tn_graph *graph, tn_dtype dtype) {
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_autocast: graph is NULL");
  tn_status status = runtime_check(graph->runtime);
  if (status) return fail_prefix("tn_graph_autocast: "), status;
  if (dtype != TN_F16 && dtype != TN_BF16 && dtype != TN_DTYPE_NONE)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_autocast: dtype is %s; it is TN_BF16 or TN_F16, or TN_DTYPE_NONE to end",
                tn_dtype_name(dtype));
  if (dtype && !graph->casts) {
    graph->casts = host_alloc(&graph->memory, sizeof *graph->casts);
    if (!graph->casts) return no_memory();
    graph->casts->graph = graph;
    graph->casts->autocast =
        (autocast){.cast = cast_once, .invoke = invoke_recorded, .check = capture_check};
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
  struct graph_casts *c = graph->casts;
  if (!c) return;
  for (size_t i = 0; i < c->num_values; ++i) {
    tn_tensor_release(c->of[i].f16);
    tn_tensor_release(c->of[i].bf16);
    tn_tensor_release(c->of[i].f32);
  }
  host_free(&graph->memory, c->of);
  host_free(&graph->memory, c);
  graph->casts = NULL;
}
