/* Gradients of graphs: the walk, over the graph's own record, which it appends to. */
#include <inttypes.h>

#include "dispatcher/objects/tensor.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/gradient/recompute.h"
#include "graph/objects.h"
#include "tenon/ops.h"

/* --- public --- */

static tn_status check_symbolic(const tn_graph *graph, const tn_tensor *t, const char *what,
                                size_t i) {
  tn_status status = tensor_check(t, "tn_graph_gradient");
  if (status) return status;
  if (t->device != graph->device)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_gradient: %s %zu is of %s, not of %s", what, i,
                t->device->id, graph->device->id);
  if (!(TN_SET_FLOAT >> t->dtype & 1))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_gradient: %s %zu is %s: only floating-point tensors have gradients", what,
                i, tn_dtype_name((tn_dtype)t->dtype));
  return TN_OK;
}

static tn_status check(const tn_graph *graph, const tn_tensor *loss, size_t n,
                       tn_tensor *const *wrt, tn_tensor *const *gradients) {
  char text[128];
  if (!graph || (n && (!wrt || !gradients)))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_gradient: graph, wrt and gradients must not be NULL");
  tn_status status = runtime_check(graph->runtime);
  if (!status) status = check_symbolic(graph, loss, "loss", 0);
  for (size_t i = 0; !status && i < n; ++i) status = check_symbolic(graph, wrt[i], "wrt", i);
  if (status || loss->elements == 1) return status;
  return fail(TN_ERR_INVALID_ARGUMENT,
              "tn_graph_gradient: the loss (%s) has %" PRId64
              " elements, it must have one: sum it, or take its mean",
              tensor_text(text, sizeof text, loss), loss->elements);
}

tn_status tn_graph_gradient(tn_graph *graph, const tn_tensor *loss, size_t n, tn_tensor *const *wrt,
                            tn_tensor **gradients) {
  tn_status status = check(graph, loss, n, wrt, gradients);
  if (status) return status;
  const uint32_t nodes = graph->record.num_nodes, known = graph->record.num_values;
  uint32_t of_loss = 0;
  uint32_t *values = host_alloc(&graph->memory, (n + 1) * sizeof *values);
  tn_tensor **made = host_alloc(&graph->memory, (n + 1) * sizeof *made);
  if (!values || !made) status = fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a gradient");
  if (!status) status = capture_value(graph, loss, &of_loss);
  for (size_t i = 0; !status && i < n; ++i) status = capture_value(graph, wrt[i], &values[i]);
  recomputed again = {.graph = graph};
  gradient_walk w = {.record = &graph->record,
                     .runtime = graph->runtime,
                     .device = graph->device,
                     .tensor = recompute_tensor,
                     .complete = gradient_complete,
                     .context = &again};
  bool paused = graph_casts_pause(graph, true); /* types are those of the forward calls */
  if (!status) status = gradient_walk_run(&w, of_loss, NULL, n, values, made);
  graph_casts_pause(graph, paused);
  if (status) {
    fail_prefix("tn_graph_gradient: ");
    gradient_take_back(&graph->record, nodes, known);
  }
  recompute_free(&again);
  for (size_t i = 0; !status && i < n; ++i) gradients[i] = made[i];
  host_free(&graph->memory, values);
  host_free(&graph->memory, made);
  return status;
}

tn_status tn_graph_stop_gradient(tn_graph *graph, const tn_tensor *tensor, tn_tensor **stopped) {
  tn_tensor *made = NULL;
  uint32_t value;
  if (!graph || !stopped)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_stop_gradient: graph or result is NULL");
  tn_status status = runtime_check(graph->runtime);
  if (!status) status = check_symbolic(graph, tensor, "tensor", 0);
  if (!status) status = tn_copy(NULL, tensor, &made);
  if (!status) status = capture_value(graph, made, &value);
  if (status) return tn_tensor_release(made), status;
  graph->record.buffers[graph->record.values[value].buffer].stops_gradient = true;
  *stopped = made;
  return TN_OK;
}

/* Whether all that the call updates was empty before: it fills what it is given. */
static bool only_fills(const record *r, const record_node *n) {
  for (uint32_t i = n->num_in; i < n->num_in + n->num_inout; ++i) {
    if (n->in[i] == TN_GRAPH_NONE) continue;
    const record_value *v = &r->values[n->in[i]];
    if (v->version != 0 || r->buffers[v->buffer].kind != TN_GRAPH_MADE) return false;
  }
  return true;
}

/* One call has written all of the buffer, as it would write to a result that it made itself. */
static bool is_one_result(const record *r, uint32_t buffer) {
  const record_buffer *b = &r->buffers[buffer];
  if (b->kind != TN_GRAPH_MADE || b->version != 1) return false;
  const record_node *n = &r->nodes[b->node];
  for (uint32_t i = 0; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE || r->values[n->out[i]].buffer != buffer) continue;
    const record_value *v = &r->values[n->out[i]];
    return only_fills(r, n) && v->offset == 0 && record_is_row_major(v) &&
           record_bytes(v) == b->bytes;
  }
  return false;
}

tn_status tn_graph_recompute(tn_graph *graph, const tn_tensor *tensor) {
  uint32_t value;
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_recompute: graph is NULL");
  tn_status status = runtime_check(graph->runtime);
  if (!status) status = tensor_check(tensor, "tn_graph_recompute");
  if (!status && tensor->device != graph->device)
    status = fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_recompute: the tensor is of %s, not of %s",
                  tensor->device->id, graph->device->id);
  if (!status) status = capture_value(graph, tensor, &value);
  if (status) return status;
  uint32_t buffer = graph->record.values[value].buffer;
  if (!is_one_result(&graph->record, buffer))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_recompute: only what one call has computed as a whole, row-major, can be "
                "computed again");
  graph->record.buffers[buffer].recomputed = true;
  return TN_OK;
}
