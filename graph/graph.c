/* Graphs: making them, what goes in and out, and walking them. */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/memory/pool.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/objects.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

static tn_status graph_check(const char *function, const tn_graph *graph) {
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "%s: graph is NULL", function);
  tn_status status = runtime_check(graph->runtime);
  if (status) fail_prefix("%s: ", function);
  return status;
}

/* --- making and destroying --- */

static tn_status graph_make(tn_runtime *runtime, const char *name, tn_graph **made) {
  tn_graph *g = host_alloc(&runtime->memory, sizeof *g);
  if (!g) return no_memory();
  g->memory = g->record.memory = runtime->memory;
  g->runtime = runtime;
  runtime_retain_weak(runtime);
  g->name = host_strdup(&g->memory, name);
  tn_status status = g->name ? symbolic_take(g) : no_memory();
  if (status)
    tn_graph_destroy(g);
  else
    *made = g;
  return status;
}

tn_status tn_graph_create(tn_runtime *runtime, const char *name, tn_graph **graph) {
  if (!runtime || !graph)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_create: runtime and graph must not be NULL");
  tn_status status = runtime_check(runtime);
  return status ? status : graph_make(runtime, name ? name : "graph", graph);
}

tn_status tn_graph_copy(const tn_graph *graph, tn_graph **copy) {
  tn_graph *g;
  tn_status status = graph_check("tn_graph_copy", graph);
  if (!status && !copy) status = fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_copy: copy is NULL");
  if (!status) status = graph_make(graph->runtime, graph->name, &g);
  if (status) return status;
  status = record_copy(&graph->record, &g->record);
  if (!status) status = capture_begin_copy(g);
  if (status)
    tn_graph_destroy(g);
  else
    *copy = g;
  return status;
}

void tn_graph_destroy(tn_graph *graph) {
  if (!graph || runtime_is_forked(graph->runtime)) return;
  tn_runtime *runtime = graph->runtime;
  host_memory memory = graph->memory;
  graph_casts_free(graph);
  symbolic_give(graph);
  capture_end(graph);
  record_free(&graph->record);
  host_free(&memory, graph->name);
  host_free(&memory, graph);
  runtime_release_weak(runtime);
}

tn_device *tn_graph_device(const tn_graph *graph) { return graph ? graph->device : NULL; }

tn_graph *tn_tensor_graph(const tn_tensor *tensor) {
  return tensor ? symbolic_graph(tensor->device) : NULL;
}

/* --- what goes in and out --- */

static tn_status check_name(const tn_graph *g, const char *function, const char *name) {
  if (!name || !*name) return fail(TN_ERR_INVALID_ARGUMENT, "%s: it needs a name", function);
  for (uint32_t i = 0; i < g->record.num_buffers; ++i)
    if (g->record.buffers[i].name && !strcmp(g->record.buffers[i].name, name))
      return fail(TN_ERR_INVALID_ARGUMENT, "%s: the graph has a \"%s\" already", function, name);
  return TN_OK;
}

/* wanted: all but its name. */
static tn_status add_source(tn_graph *g, const char *function, const char *name,
                            record_buffer *wanted, tn_tensor **tensor) {
  tn_status status = graph_check(function, g);
  if (!status) status = check_name(g, function, name);
  if (!status && !tensor)
    status = fail(TN_ERR_INVALID_ARGUMENT, "%s: the result pointer is NULL", function);
  if (status) return status;
  wanted->name = host_strdup(&g->memory, name);
  if (!wanted->name) return no_memory();
  status = capture_source(g, function, wanted, tensor);
  if (status) host_free(&g->memory, wanted->name);
  return status;
}

tn_status tn_graph_input(tn_graph *graph, const char *name, tn_dtype dtype, int32_t rank,
                         const int64_t *shape, tn_tensor **tensor) {
  record_buffer wanted = {.kind = TN_GRAPH_INPUT, .dtype = dtype, .rank = rank};
  if (rank < 0 || rank > TN_MAX_RANK || (rank > 0 && !shape))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_input: the rank must be 0 to %d, with as many sizes", TN_MAX_RANK);
  if (rank) memcpy(wanted.shape, shape, (size_t)rank * sizeof *shape);
  if (graph) wanted.place = graph->record.num_inputs;
  tn_status status = add_source(graph, "tn_graph_input", name, &wanted, tensor);
  if (!status) ++graph->record.num_inputs;
  return status;
}

static tn_status add_real(tn_graph *g, const char *function, const char *name, uint32_t kind,
                          tn_tensor *value, tn_tensor **tensor) {
  tn_status status = tensor_check(value, function);
  if (status) return status;
  if (value->device->recorder)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: value is symbolic; it must be a real tensor",
                function);
  if (g && value->device->runtime != g->runtime)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: value is of another runtime", function);
  if (kind == TN_GRAPH_PARAMETER && (!value->contiguous || value->read_only))
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: value is %s", function,
                value->contiguous ? "read-only" : "not row-major; use tn_tensor_contiguous first");
  record_buffer wanted = {
      .kind = kind, .dtype = (tn_dtype)value->dtype, .rank = value->dl.ndim, .real = value};
  memcpy(wanted.shape, value->shape, sizeof wanted.shape);
  return add_source(g, function, name, &wanted, tensor);
}

tn_status tn_graph_parameter(tn_graph *graph, const char *name, tn_tensor *value,
                             tn_tensor **tensor) {
  return add_real(graph, "tn_graph_parameter", name, TN_GRAPH_PARAMETER, value, tensor);
}

tn_status tn_graph_constant(tn_graph *graph, const char *name, tn_tensor *value,
                            tn_tensor **tensor) {
  return add_real(graph, "tn_graph_constant", name, TN_GRAPH_CONSTANT, value, tensor);
}

tn_status tn_graph_output(tn_graph *graph, const char *name, const tn_tensor *tensor) {
  uint32_t value;
  tn_status status = graph_check("tn_graph_output", graph);
  if (!status) status = tensor_check(tensor, "tn_graph_output");
  if (status) return status;
  if (!name || !*name) return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_output: it needs a name");
  for (uint32_t i = 0; i < graph->record.num_outputs; ++i)
    if (!strcmp(graph->record.outputs[i].name, name))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_graph_output: the graph has an output \"%s\" already", name);
  if (tensor->device != graph->device)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_output: the tensor is of %s, not of %s",
                tensor->device->id, graph->device->id);
  status = capture_value(graph, tensor, &value);
  return status ? status : record_add_output(&graph->record, value, name);
}

/* --- walking --- */

size_t tn_graph_num_nodes(const tn_graph *graph) { return graph ? graph->record.num_nodes : 0; }
size_t tn_graph_num_values(const tn_graph *graph) { return graph ? graph->record.num_values : 0; }
size_t tn_graph_num_outputs(const tn_graph *graph) { return graph ? graph->record.num_outputs : 0; }

/* pre: count > 0 where graph is not NULL and the index is in range. */
static tn_status check_index(const char *function, const char *what, const tn_graph *graph,
                             size_t index, size_t count) {
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "%s: graph is NULL", function);
  if (index < count) return TN_OK;
  return fail(TN_ERR_NOT_FOUND, "%s: %zu is no %s, there are %zu", function, index, what, count);
}

tn_status tn_graph_node_at(const tn_graph *graph, size_t index, tn_graph_node *node) {
  const char *function = "tn_graph_node_at";
  tn_status status = check_index(function, "node", graph, index, tn_graph_num_nodes(graph));
  if (!status) status = struct_check(function, "node", "tn_graph_node", node);
  if (status) return status;
  const record_node *n = &graph->record.nodes[index];
  tn_graph_node full = {.struct_size = node->struct_size,
                        .num_in = n->num_in + n->num_inout,
                        .num_out = n->num_out,
                        .num_from = n->num_from,
                        .op = n->op,
                        .attrs = n->attrs,
                        .in = n->in,
                        .out = n->out,
                        .site = n->site ? n->site : ""};
  struct_fill(node, &full, sizeof full);
  return TN_OK;
}

tn_status tn_graph_value_at(const tn_graph *graph, size_t index, tn_graph_value *value) {
  const char *function = "tn_graph_value_at";
  tn_status status = check_index(function, "value", graph, index, tn_graph_num_values(graph));
  if (!status) status = struct_check(function, "value", "tn_graph_value", value);
  if (status) return status;
  const record_value *v = &graph->record.values[index];
  const record_buffer *b = &graph->record.buffers[v->buffer];
  tn_graph_value full = {.struct_size = value->struct_size,
                         .dtype = v->dtype,
                         .buffer = v->buffer,
                         .version = v->version,
                         .kind = b->kind,
                         .node = v->node,
                         .rank = v->rank,
                         .shape = v->shape,
                         .strides = v->strides,
                         .offset = v->offset,
                         .buffer_bytes = b->bytes,
                         .name = b->name ? b->name : ""};
  struct_fill(value, &full, sizeof full);
  return TN_OK;
}

/* --- symbolic tensors of what is there --- */

static tn_status written_since(const tn_graph *g, size_t value) {
  const record_buffer *b = &g->record.buffers[g->record.values[value].buffer];
  return fail(TN_ERR_INVALID_ARGUMENT,
              "tn_graph_tensor_at: node %" PRIu32
              " (tn_%s) has written to what value %zu shows since: what a tensor can show is the "
              "latest, of which value %" PRIu32 " is one",
              b->node, g->record.nodes[b->node].op->name, value, b->last_value);
}

tn_status tn_graph_tensor_at(tn_graph *graph, size_t value, tn_tensor **tensor) {
  const char *function = "tn_graph_tensor_at";
  const tn_tensor *kept;
  tn_status status = check_index(function, "value", graph, value, tn_graph_num_values(graph));
  if (!status) status = graph_check(function, graph);
  if (!status && !tensor)
    status = fail(TN_ERR_INVALID_ARGUMENT, "%s: the result pointer is NULL", function);
  if (status) return status;
  const record_value *v = &graph->record.values[value];
  const record_buffer *b = &graph->record.buffers[v->buffer];
  if (v->version != b->version) return written_since(graph, value);
  status = capture_kept(graph, v->buffer, &kept);
  /* The tensor kept may be a view; values are counted from where the buffer begins. */
  if (!status)
    status = header_make(v, kept, kept->storage->block->offset - kept->dl.byte_offset, tensor);
  if (status) return fail_prefix("%s: ", function), status;
  (*tensor)->read_only = b->kind == TN_GRAPH_INPUT || (b->kind == TN_GRAPH_CONSTANT && b->real);
  return TN_OK;
}

tn_status tn_graph_output_at(const tn_graph *graph, size_t index, uint32_t *value,
                             const char **name) {
  tn_status status =
      check_index("tn_graph_output_at", "output", graph, index, tn_graph_num_outputs(graph));
  if (status) return status;
  if (value) *value = graph->record.outputs[index].value;
  if (name) *name = graph->record.outputs[index].name;
  return TN_OK;
}
