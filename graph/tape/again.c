/*
 * Blocks that the gradient computes again (tn_tape_recompute). Of what a block's calls make, rules'
 * tensors are not kept; what the calls read from outside is. Where a rule first needs one of them,
 * the calls that give what is missing of the block are made again, in their order.
 */
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/objects.h"
#include "graph/tape/tape.h"

uint32_t tape_block_of(const record *r, uint32_t value) {
  const record_value *v = &r->values[value];
  return v->version == 1 && v->node != TN_GRAPH_NONE ? r->nodes[v->node].block : 0;
}

tn_status tape_keep_for_block(tn_tape *tape, const tn_call *call, const record_node *node) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < call->num_in; ++i)
    if (call->in[i] && tape_block_of(&tape->record, node->in[i]) != node->block)
      status = tape_save(tape, node->in[i], (tn_tensor *)(uintptr_t)call->in[i]);
  return status;
}

void tape_drop_for_block(tn_tape *tape, const record_node *n) {
  for (uint32_t i = 0; i < n->num_in; ++i)
    if (n->in[i] != TN_GRAPH_NONE && tape_block_of(&tape->record, n->in[i]) != n->block)
      tape_drop(tape, n->in[i]);
}

bool tape_is_missing(tn_tape *tape, uint32_t value) {
  const record_value *v = &tape->record.values[value];
  saved_value *s = &tape->saved[value];
  uint32_t by;
  if (!s->tensor || s->again) return !s->tensor;
  if (record_is_intact(&tape->record, v, &by) && !tape_late_write(tape, v)) return false;
  tn_tensor_release(s->tensor);
  s->tensor = NULL;
  return true;
}

/* A block's calls while they are made again. */
typedef struct block_run {
  tn_tape *tape;
  tn_stream *stream;
  uint32_t block;
  uint32_t first, end; /* nodes */
  bool *needed;        /* by node, from the first */
  tn_tensor **made;    /* by buffer */
} block_run;

static bool is_missing(const block_run *b, uint32_t value) {
  const saved_value *s = &b->tape->saved[value];
  return s->uses && !s->tensor && tape_block_of(&b->tape->record, value) == b->block;
}

/* All that rules still wait for, and what that is made of. */
static void find_needed(const block_run *b) {
  const record *r = &b->tape->record;
  for (uint32_t i = 0; i < b->tape->num_saved; ++i)
    if (is_missing(b, i)) b->needed[r->values[i].node - b->first] = true;
  for (uint32_t k = b->end; k-- > b->first;) {
    const record_node *n = &r->nodes[k];
    for (uint32_t i = 0; b->needed[k - b->first] && i < n->num_in; ++i)
      if (n->in[i] != TN_GRAPH_NONE && tape_block_of(r, n->in[i]) == b->block)
        b->needed[r->values[n->in[i]].node - b->first] = true;
  }
}

static tn_status take_input(const block_run *b, uint32_t value, tn_tensor **tensor) {
  const record_value v = b->tape->record.values[value];
  if (tape_block_of(&b->tape->record, value) != b->block) return tape_kept(b->tape, value, tensor);
  return header_make(&v, b->made[v.buffer], 0, tensor);
}

static tn_status call_again(const block_run *b, uint32_t k) {
  const record *r = &b->tape->record;
  const record_node n = r->nodes[k];
  const size_t all = (size_t)n.num_in + n.num_out;
  tn_tensor *near[2 * TN_MAX_ARGS] = {NULL}, **in = near;
  if (all > sizeof near / sizeof *near) in = host_alloc(&b->tape->memory, all * sizeof *in);
  if (!in) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tape");
  tn_tensor **out = in + n.num_in;
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < n.num_in; ++i)
    if (n.in[i] != TN_GRAPH_NONE) status = take_input(b, n.in[i], &in[i]);
  const tn_call call = {.struct_size = sizeof call,
                        .op = n.op->id,
                        .stream = b->stream,
                        .in = (const tn_tensor *const *)in,
                        .out = out,
                        .attrs = n.attrs,
                        .num_in = (uint16_t)n.num_in,
                        .num_out = (uint16_t)n.num_out,
                        .skip_out = n.skip_out};
  const char *site = tn_call_site(n.site);
  if (!status) status = tn_invoke(&call);
  tn_call_site(site);
  if (status) fail_prefix("tn_%s, of a block that is computed again: ", n.op->name);
  for (uint32_t i = 0; !status && i < n.num_out; ++i)
    if (n.out[i] != TN_GRAPH_NONE) b->made[r->values[n.out[i]].buffer] = out[i];
  for (uint32_t i = 0; i < n.num_in; ++i) tn_tensor_release(in[i]);
  if (in != near) host_free(&b->tape->memory, in);
  return status;
}

/* What rules wait for is kept for them from here on. */
static tn_status hand_out(const block_run *b) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < b->tape->num_saved; ++i) {
    const record_value v = b->tape->record.values[i];
    if (!is_missing(b, i)) continue;
    status = header_make(&v, b->made[v.buffer], 0, &b->tape->saved[i].tensor);
    b->tape->saved[i].again = !status;
  }
  return status;
}

/* The block's nodes lie around this one. */
static void find_ends(block_run *b, uint32_t node) {
  const record *r = &b->tape->record;
  b->first = node;
  b->end = node + 1;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    if (r->nodes[k].block != b->block) continue;
    if (k < b->first) b->first = k;
    if (k >= b->end) b->end = k + 1;
  }
}

tn_status tape_compute_again(tn_tape *tape, tn_stream *stream, uint32_t value) {
  block_run b = {.tape = tape, .stream = stream, .block = tape_block_of(&tape->record, value)};
  const uint32_t num_buffers = tape->record.num_buffers; /* more may come */
  tn_status status = TN_OK;
  find_ends(&b, tape->record.values[value].node);
  b.needed = host_alloc(&tape->memory, b.end - b.first);
  b.made = host_alloc(&tape->memory, num_buffers * sizeof *b.made);
  if (!b.needed || !b.made) status = fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tape");
  if (!status) find_needed(&b);
  for (uint32_t k = b.first; !status && k < b.end; ++k)
    if (b.needed[k - b.first]) status = call_again(&b, k);
  if (!status) status = hand_out(&b);
  for (uint32_t i = 0; b.made && i < num_buffers; ++i) tn_tensor_release(b.made[i]);
  host_free(&tape->memory, b.needed);
  host_free(&tape->memory, b.made);
  return status;
}

void tape_drop_again(tn_tape *tape) {
  for (size_t i = 0; i < tape->num_saved; ++i) {
    if (!tape->saved[i].again) continue;
    tn_tensor_release(tape->saved[i].tensor);
    tape->saved[i].tensor = NULL;
    tape->saved[i].again = false;
  }
}
