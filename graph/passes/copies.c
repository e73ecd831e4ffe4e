/*
 * Copies that nobody could tell from what they copy: neither is written to afterwards. A part of a
 * buffer that nodes make is copied all the same: the copy may be there so that the whole can go.
 */
#include "graph/passes/passes.h"
#include "tenon/ops.h"

enum { ALIGNMENT = 64 }; /* of what the pools give, by which kernels are chosen */

/* Of a bool a cast makes 0 or 1 of what is there, and of an infinite E5M2 the largest number. */
static bool changes_own_type(tn_dtype dtype) { return dtype == TN_BOOL || dtype == TN_F8_E5M2; }

/* A cast to the type that it is already, too. */
static bool is_copy(const record *r, const record_node *n) {
  if (n->num_in != 1 || n->num_inout || n->num_out != 1 || n->in[0] == TN_GRAPH_NONE ||
      n->out[0] == TN_GRAPH_NONE)
    return false;
  const record_value *x = &r->values[n->in[0]], *y = &r->values[n->out[0]];
  return n->op->id == TN_OP_COPY ||
         (n->op->id == TN_OP_CAST && x->dtype == y->dtype && !changes_own_type(x->dtype));
}

/* As the copy would be: kernels may add in another order where memory begins elsewhere. */
static bool is_aligned(const record_buffer *b, const record_value *x) {
  uint64_t at = x->offset;
  if (b->real) at += b->real->dl.byte_offset;
  if (b->real && !b->real->device->opaque) at += (uint64_t)(uintptr_t)b->real->dl.data;
  return at % ALIGNMENT == 0;
}

/* Row-major, never written after the copy, and either all of its buffer or of one that is there
 * all along. */
static bool can_stand_in(const passes *p, const record_value *x) {
  const record_buffer *b = &p->r->buffers[x->buffer];
  if (p->uses[x->buffer].shared || x->version != b->version || !record_is_row_major(x) ||
      !is_aligned(b, x))
    return false;
  if (b->kind != TN_GRAPH_MADE) return true;
  return x->node != TN_GRAPH_NONE && x->offset == 0 && record_bytes(x) == p->uses[x->buffer].bytes;
}

void pass_copies(passes *p) {
  for (uint32_t k = 0; k < p->r->num_nodes; ++k) {
    const record_node *n = &p->r->nodes[k];
    if (!p->runs[k] || !is_copy(p->r, n) || !passes_sole_write(p, n->out[0]) ||
        !can_stand_in(p, &p->r->values[n->in[0]]))
      continue;
    const record_value x = p->r->values[n->in[0]];
    passes_redirect(p, p->r->values[n->out[0]].buffer, &x);
    passes_drop(p, k);
    ++p->program->counts.merged;
  }
}
