/*
 * Gates: a value times a function of itself is one operator where there is one, as silu is x times
 * its sigmoid.
 */
#include "dispatcher/registry/schema.h"
#include "graph/passes/fuse.h"
#include "tenon/ops.h"

/* The node whose one result a value is, of one input, where nobody but `reader` reads that;
 * TN_GRAPH_NONE: none. */
static uint32_t sole_maker(const fusing *f, uint32_t value, uint32_t reader) {
  const record *r = f->p->r;
  const uint32_t j = value == TN_GRAPH_NONE ? TN_GRAPH_NONE : r->values[value].node;
  if (j == TN_GRAPH_NONE || !f->p->runs[j] || f->readers[j] != 1 || f->reader[j] != reader)
    return TN_GRAPH_NONE;
  const record_node *n = &r->nodes[j];
  const bool fits = n->num_in == 1 && !n->num_inout && n->num_out == 1 &&
                    n->in[0] != TN_GRAPH_NONE && passes_sole_write(f->p, n->out[0]) &&
                    fuse_same_value(&r->values[n->out[0]], &r->values[value]);
  return fits ? j : TN_GRAPH_NONE;
}

/* What nodes make of x alone, the last first, and the operator that x times that is. */
typedef struct gate {
  uint32_t op, count, nodes[2];
} gate;

/* The gate that ends in a value which node k reads; false: there is none. */
static bool find_gate(const fusing *f, uint32_t k, uint32_t value, gate *g) {
  const record *r = f->p->r;
  *g = (gate){.count = 1, .nodes = {sole_maker(f, value, k)}};
  if (g->nodes[0] == TN_GRAPH_NONE) return false;
  const record_node *last = &r->nodes[g->nodes[0]];
  if (last->op->id == TN_OP_SIGMOID) return g->op = TN_OP_SILU, true;
  if (last->op->id == TN_OP_HARDSIGMOID) return g->op = TN_OP_HARDSWISH, true;
  if (last->op->id != TN_OP_TANH) return false;
  g->nodes[g->count++] = sole_maker(f, last->in[0], g->nodes[0]);
  if (g->nodes[1] == TN_GRAPH_NONE || r->nodes[g->nodes[1]].op->id != TN_OP_SOFTPLUS) return false;
  const tn_softplus_attrs *attrs = r->nodes[g->nodes[1]].attrs;
  g->op = TN_OP_MISH; /* which is x itself where softplus is */
  return attrs->beta == 1 && attrs->threshold >= 20;
}

/* Whether the device has a kernel of `op`, of one input. */
static tn_status has_kernel(fusing *f, uint32_t op, const record_value *x, const record_value *y,
                            bool *has) {
  tn_tensor *in = NULL, *out = NULL;
  const cell *kernel = NULL;
  tn_status status = fuse_stand_in(f, 0, x, &in);
  if (!status) status = fuse_stand_in(f, FUSE_ARGS, y, &out);
  if (!status) status = fuse_find_kernel(op, &in, 1, out, NULL, &kernel);
  *has = !status && kernel;
  tn_tensor_release(in);
  tn_tensor_release(out);
  return fuse_forgive(status);
}

/* Node k becomes the gate's operator on its input `side`. */
static void become_gate(fusing *f, uint32_t k, uint32_t side, const gate *g) {
  record_node *n = &f->p->r->nodes[k];
  const uint32_t maker = f->p->r->values[n->in[side]].node;
  n->op = fuse_operator(g->op);
  n->in[0] = n->in[side];
  n->num_in = 1;
  if (maker != TN_GRAPH_NONE) --f->readers[maker];
  for (uint32_t i = 0; i < g->count; ++i) passes_drop(f->p, g->nodes[i]);
  f->p->program->counts.fused += g->count;
}

/* x times what follows from x alone, either way round. */
tn_status fuse_gate(fusing *f, uint32_t k) {
  const record *r = f->p->r;
  const record_node *n = &r->nodes[k];
  if (!f->p->runs[k] || n->op->id != TN_OP_MUL || n->num_in != 2 || n->num_inout ||
      n->num_out != 1 || n->out[0] == TN_GRAPH_NONE)
    return TN_OK;
  for (uint32_t side = 0; side < 2; ++side) {
    gate g;
    bool has;
    const record_value *x = &r->values[n->in[side]], *y = &r->values[n->out[0]];
    if (!find_gate(f, k, n->in[1 - side], &g) || f->p->uses[x->buffer].shared ||
        !fuse_same_shape(x, y) ||
        !fuse_same_value(x, &r->values[r->nodes[g.nodes[g.count - 1]].in[0]]))
      continue;
    tn_status status = has_kernel(f, g.op, x, y, &has);
    if (!status && has) become_gate(f, k, side, &g);
    return status;
  }
  return TN_OK;
}
