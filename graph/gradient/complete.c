/*
 * Optional outputs that a call left out and a rule reads: statistics of a norm, the index of a
 * maximum. A graph's node gets them late, so that no program computes the call twice; calls on a
 * tape are asked for them at once.
 */
#include <string.h>

#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/gradient/recompute.h"
#include "tenon/ops.h"

static bool is_missing(const record_node *n, const op_entry *op, uint32_t i, uint32_t wanted) {
  return wanted >> i & 1 && n->out[i] == TN_GRAPH_NONE &&
         op->arg[op->num_in + i].kind == TN_ARG_OPTIONAL_OUT;
}

static bool any_missing(const record_node *n, const op_entry *op, uint32_t wanted) {
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (is_missing(n, op, i, wanted)) return true;
  return false;
}

/* What the call's inputs bind the type variables to. */
static void bind_types(const record *r, const record_node *n, const op_entry *op, tn_dtype *types) {
  for (uint32_t i = 0; i < record_inputs(n) + n->num_inout; ++i)
    if (record_argument(n, i) != TN_GRAPH_NONE && TN_TYPE_IS_VAR(op->arg[i].type))
      types[op->arg[i].type] = r->values[record_argument(n, i)].dtype;
}

static tn_dtype type_of(uint8_t type, const tn_dtype *types) {
  if (TN_TYPE_IS_FIXED(type)) return (tn_dtype)TN_TYPE_OPERAND(type);
  tn_dtype bound = types[type & (TN_MAX_TYPE_VARS - 1)];
  return TN_TYPE_IS_WIDE(type) ? tn_dtype_wide(bound) : bound;
}

/* As shape rules see a value. */
static void look_like(const record_value *v, DLTensor *t) {
  memset(t, 0, sizeof *t);
  t->ndim = v->rank;
  t->shape = (int64_t *)(uintptr_t)v->shape;
  t->strides = (int64_t *)(uintptr_t)v->strides;
  t->dtype = dtype_to_dl(v->dtype);
}

static tn_status infer(const tn_graph *g, const record_node *n, const op_entry *op,
                       extents *shapes) {
  DLTensor seen[TN_MAX_ARGS];
  const DLTensor *in[TN_MAX_ARGS] = {NULL};
  for (uint32_t i = 0; i < record_inputs(n) + n->num_inout; ++i) {
    if (record_argument(n, i) == TN_GRAPH_NONE) continue;
    look_like(&g->record.values[record_argument(n, i)], &seen[i]);
    in[i] = &seen[i];
  }
  const shape_query query = {.op = &op->row,
                             .host = &g->runtime->host,
                             .in = in,
                             .num_in = record_inputs(n),
                             .inout = in + record_inputs(n),
                             .num_inout = n->num_inout,
                             .attrs = n->attrs};
  return shape_infer(&query, shapes, op->num_out);
}

/* A value that node k wrote when it was recorded. */
static tn_status add_value(tn_graph *g, uint32_t k, tn_dtype dtype, const extents *shape,
                           uint32_t *value) {
  tn_tensor *t = NULL;
  tn_status status = tn_tensor_empty(g->device, dtype, shape->rank, shape->dim, &t);
  if (!status) status = capture_value(g, t, value);
  tn_tensor_release(t); /* the graph holds it */
  if (status) return status;
  record_value *v = &g->record.values[*value];
  record_buffer *b = &g->record.buffers[v->buffer];
  b->version = v->version = 1;
  b->node = v->node = k;
  return TN_OK;
}

tn_status gradient_complete(gradient_walk *w, uint32_t k, uint32_t wanted) {
  tn_graph *g = ((const recomputed *)w->context)->graph;
  const record_node n = g->record.nodes[k];
  const op_entry *op = registry_op(&g->runtime->registry, n.op->id);
  extents shapes[TN_MAX_ARGS];
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  if (op->lists || !any_missing(&n, op, wanted)) return TN_OK;
  bind_types(&g->record, &n, op, types);
  tn_status status = infer(g, &n, op, shapes);
  for (uint32_t i = n.num_inout; !status && i < n.num_out; ++i) {
    tn_dtype dtype = type_of(op->arg[op->num_in + i].type, types);
    if (!is_missing(&n, op, i, wanted) || !dtype) continue;
    status = add_value(g, k, dtype, &shapes[i - n.num_inout], &n.out[i]);
    if (!status) g->record.nodes[k].skip_out &= ~(1u << (i - n.num_inout));
  }
  return status;
}

void gradient_take_back(record *r, uint32_t nodes, uint32_t values) {
  while (r->num_nodes > nodes) record_drop_node(r);
  for (uint32_t k = 0; k < nodes; ++k) {
    record_node *n = &r->nodes[k];
    for (uint32_t i = n->num_inout; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE || n->out[i] < values) continue;
      n->out[i] = TN_GRAPH_NONE;
      n->skip_out |= 1u << (i - n->num_inout);
    }
  }
}
