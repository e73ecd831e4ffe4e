/*
 * What gradient rules read of a graph. A buffer that is marked is computed again by its node's
 * call, behind all that there is, once for a walk: nodes that it needs and that are marked likewise
 * first.
 */
#include "graph/gradient/recompute.h"

#include <inttypes.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/memory/pool.h"
#include "tenon/ops.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a gradient");
}

/* --- as they are there --- */

static __attribute__((cold)) tn_status overwritten(const record *r, const record_value *v,
                                                   uint32_t by) {
  const record_buffer *b = &r->buffers[v->buffer];
  const record_node *n = &r->nodes[by];
  return fail(TN_ERR_INVALID_ARGUMENT,
              "it needs a tensor%s%s that node %" PRIu32 " (tn_%s%s%s) has overwritten since: take "
              "the gradient before that, or let that work on a tn_copy",
              b->name ? " " : "", b->name ? b->name : "", by, n->op->name, n->site ? ", at " : "",
              n->site ? n->site : "");
}

/* The value in memory that begins where its buffer does. */
static tn_status show(const record_value *v, const tn_tensor *memory, tn_tensor **tensor) {
  /* The tensor at hand may be a view; values are counted from where the buffer begins. */
  return header_make(v, memory, memory->storage->block->offset - memory->dl.byte_offset, tensor);
}

static tn_status present(tn_graph *g, uint32_t value, tn_tensor **tensor) {
  const record_value v = g->record.values[value];
  const tn_tensor *kept;
  uint32_t by;
  if (!record_is_intact(&g->record, &v, &by)) return overwritten(&g->record, &v, by);
  tn_status status = capture_kept(g, v.buffer, &kept);
  return status ? status : show(&v, kept, tensor);
}

/* --- computed again --- */

static bool is_marked(const recomputed *a, uint32_t buffer) {
  const record_buffer *b = &a->graph->record.buffers[buffer];
  return b->recomputed && b->version == 1 && buffer < a->num_buffers;
}

static bool is_missing(const recomputed *a, uint32_t buffer) {
  return is_marked(a, buffer) && !a->of_buffer[buffer];
}

static tn_status any_tensor(const recomputed *a, uint32_t value, tn_tensor **tensor) {
  const record_value v = a->graph->record.values[value];
  if (!is_marked(a, v.buffer)) return present(a->graph, value, tensor);
  return show(&v, a->of_buffer[v.buffer], tensor);
}

static tn_status call_again(recomputed *a, uint32_t k) {
  const record_node n = a->graph->record.nodes[k];
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  size_t all = (size_t)n.num_in + n.num_out;
  tn_tensor **in = host_alloc(&a->graph->memory, (all + 1) * sizeof *in), **out = in + n.num_in;
  tn_status status = in ? TN_OK : no_memory();
  for (uint32_t i = 0; !status && i < n.num_in; ++i)
    if (n.in[i] != TN_GRAPH_NONE) status = any_tensor(a, n.in[i], &in[i]);
  const tn_call call = {
      .struct_size = sizeof call,
      .op = n.op->id,
      .in = (const tn_tensor *const *)in,
      .out = out,
      .attrs = record_attrs(&n, (const tn_tensor *const *)in + record_inputs(&n), attrs),
      .num_in = (uint16_t)record_inputs(&n),
      .num_out = (uint16_t)n.num_out,
      .skip_out = n.skip_out};
  const char *site = tn_call_site(n.site);
  if (!status) status = tn_invoke(&call);
  tn_call_site(site);
  if (!status) a->graph->record.nodes[a->graph->record.num_nodes - 1].again = true;
  for (uint32_t i = 0; !status && i < n.num_out; ++i) {
    if (n.out[i] == TN_GRAPH_NONE) continue;
    uint32_t buffer = a->graph->record.values[n.out[i]].buffer;
    if (is_missing(a, buffer)) a->of_buffer[buffer] = out[i], out[i] = NULL;
  }
  for (size_t i = 0; in && i < all; ++i) tn_tensor_release(in[i]);
  host_free(&a->graph->memory, in);
  return status;
}

/* Marks the nodes whose calls are to be made again for `node`; gives the first of them. */
static uint32_t find_needed(const recomputed *a, uint32_t node, bool *needed) {
  uint32_t left = 1, first = node;
  needed[node] = true;
  for (uint32_t k = node + 1; left && k-- > 0;) {
    const record_node *n = &a->graph->record.nodes[k];
    if (!needed[k]) continue;
    --left;
    first = k;
    for (uint32_t i = 0; i < n->num_in; ++i) {
      if (n->in[i] == TN_GRAPH_NONE) continue;
      const record_value *v = &a->graph->record.values[n->in[i]];
      if (!is_missing(a, v->buffer) || needed[v->node]) continue;
      needed[v->node] = true;
      ++left;
    }
  }
  return first;
}

static tn_status compute_again(recomputed *a, uint32_t node) {
  bool *needed = host_alloc(&a->graph->memory, (size_t)node + 1);
  tn_status status = needed ? TN_OK : no_memory();
  uint32_t first = needed ? find_needed(a, node, needed) : 0;
  for (uint32_t k = first; !status && k <= node; ++k)
    if (needed[k]) status = call_again(a, k);
  host_free(&a->graph->memory, needed);
  return status;
}

tn_status recompute_tensor(gradient_walk *w, uint32_t value, tn_tensor **tensor) {
  recomputed *a = w->context;
  const record_value v = w->record->values[value];
  if (!w->record->buffers[v.buffer].recomputed) return present(a->graph, value, tensor);
  if (!a->of_buffer) {
    a->of_buffer =
        host_alloc(&a->graph->memory, ((size_t)w->num_buffers + 1) * sizeof *a->of_buffer);
    if (!a->of_buffer) return no_memory();
    a->num_buffers = w->num_buffers;
  }
  tn_status status = is_missing(a, v.buffer) ? compute_again(a, v.node) : TN_OK;
  return status ? status : any_tensor(a, value, tensor);
}

void recompute_free(recomputed *a) {
  for (uint32_t i = 0; a->of_buffer && i < a->num_buffers; ++i) tn_tensor_release(a->of_buffer[i]);
  host_free(&a->graph->memory, a->of_buffer);
}
