/*
 * Constant folding: a node whose inputs are all constants is run once, on the program's device,
 * and its results are constants. Not random ones, whose results change from run to run, nor those
 * that would put much more memory into the program than its constants have: a fill or a broadcast
 * copy of a large tensor is as soon computed as read. And no more than a program's constants are
 * worth: what computes for long from little is left to the runs.
 */
#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/passes/schedule.h"

#include <string.h>

/* A result may always be SMALL bytes, and else GROWTH times what it was computed from. */
enum { SMALL = 1 << 20, GROWTH = 4 };

/* What all of it may cost, by node_cost: as many calls, and each byte of the graph's constants read
 * as often. */
enum { MOST_CALLS = 1 << 16, MOST_READS = 64 };

typedef struct folding {
  passes *p;
  uint64_t *weight;    /* by buffer: bytes of the constants that a constant came from, at most its
                          own */
  tn_tensor **headers; /* by value: those of the node at hand */
  uint64_t left;       /* of what it may cost */
} folding;

/* --- which --- */

static bool is_constant(const record *r, uint32_t value) {
  return value == TN_GRAPH_NONE || r->buffers[r->values[value].buffer].kind == TN_GRAPH_CONSTANT;
}

static uint64_t inputs_weight(const folding *f, const record_node *n) {
  uint64_t weight = 0;
  for (uint32_t i = 0; i < n->num_in; ++i) {
    uint32_t k = 0;
    if (n->in[i] == TN_GRAPH_NONE) continue;
    while (n->in[k] != n->in[i]) ++k; /* each once */
    if (k == i) weight += f->weight[f->p->r->values[n->in[i]].buffer];
  }
  return weight;
}

static uint64_t outputs_bytes(const folding *f, const record_node *n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) bytes += record_bytes(&f->p->r->values[n->out[i]]);
  return bytes;
}

static bool can_fold(const folding *f, uint32_t k) {
  const record_node *n = &f->p->r->nodes[k];
  if (n->op->flags & (TN_OPERATOR_RANDOM | TN_OPERATOR_DATA_DEPENDENT)) return false;
  for (uint32_t i = 0; i < n->num_in; ++i)
    if (!is_constant(f->p->r, n->in[i])) return false;
  if (!passes_is_pure(f->p, k)) return false;
  if (node_cost(f->p->r, n, f->p->program->device) > f->left) return false;
  uint64_t bytes = outputs_bytes(f, n);
  return bytes <= SMALL || bytes / GROWTH <= inputs_weight(f, n);
}

/* --- running it --- */

static tn_status show_inputs(const folding *f, const record_node *n) {
  const record *r = f->p->r;
  for (uint32_t i = 0; i < n->num_in; ++i) {
    if (n->in[i] == TN_GRAPH_NONE || f->headers[n->in[i]]) continue;
    const record_value *v = &r->values[n->in[i]];
    tn_tensor *real;
    tn_status status = program_real(f->p->program, v->buffer, &real);
    if (!status) status = header_make(v, real, 0, &f->headers[n->in[i]]);
    if (status) return status;
  }
  return TN_OK;
}

static tn_status make_outputs(const folding *f, const record_node *n) {
  const tn_program *program = f->p->program;
  for (uint32_t i = 0; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE) continue;
    const record_value *v = &f->p->r->values[n->out[i]];
    tn_status status = tn_tensor_empty_on(program->device, program->device->default_stream,
                                          v->dtype, v->rank, v->shape, &f->headers[n->out[i]]);
    if (status) return status;
  }
  return TN_OK;
}

static tn_status run(const folding *f, uint32_t k) {
  const record_node *n = &f->p->r->nodes[k];
  const tn_program *program = f->p->program;
  tn_prepared *call = NULL;
  tn_status status = show_inputs(f, n);
  if (!status) status = make_outputs(f, n);
  if (!status)
    status = node_prepare(program, k, program->device->default_stream, f->headers, &call);
  if (!status) status = tn_run(call);
  tn_prepared_release(call);
  return status;
}

static void forget(const folding *f, const uint32_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i] == TN_GRAPH_NONE) continue;
    tn_tensor_release(f->headers[values[i]]);
    f->headers[values[i]] = NULL;
  }
}

/* --- what becomes of it --- */

static void become_constant(const folding *f, uint32_t value, uint64_t weight) {
  const record_value *v = &f->p->r->values[value];
  record_buffer *b = &f->p->r->buffers[v->buffer];
  b->kind = TN_GRAPH_CONSTANT;
  b->dtype = v->dtype;
  b->rank = v->rank;
  memcpy(b->shape, v->shape, sizeof b->shape);
  b->bytes = record_bytes(v);
  b->real = f->headers[value];
  tn_tensor_retain(b->real);
  f->weight[v->buffer] = weight < b->bytes ? weight : b->bytes;
}

/* A node that does not run now will say so when the program runs, with its own message. */
static tn_status fold_node(folding *f, uint32_t k) {
  const record_node *n = &f->p->r->nodes[k];
  const uint64_t weight = inputs_weight(f, n);
  f->left -= node_cost(f->p->r, n, f->p->program->device);
  tn_status status = run(f, k);
  for (uint32_t i = 0; !status && i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) become_constant(f, n->out[i], weight);
  forget(f, n->in, n->num_in);
  forget(f, n->out, n->num_out);
  if (!status) {
    passes_drop(f->p, k);
    ++f->p->program->counts.folded;
    return TN_OK;
  }
  if (status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_LOST) return status;
  fail_clear();
  return TN_OK;
}

tn_status pass_fold(passes *p) {
  const record *r = p->r;
  folding f = {.p = p, .left = MOST_CALLS * call_cost(p->program->device)};
  f.weight = host_alloc(&r->memory, ((size_t)r->num_buffers + 1) * sizeof *f.weight);
  f.headers = host_alloc(&r->memory, ((size_t)r->num_values + 1) * sizeof *f.headers);
  tn_status status =
      f.weight && f.headers ? TN_OK : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t i = 0; !status && i < r->num_buffers; ++i) {
    if (r->buffers[i].kind != TN_GRAPH_CONSTANT) continue;
    f.weight[i] = r->buffers[i].bytes;
    f.left += MOST_READS * r->buffers[i].bytes;
  }
  for (uint32_t k = 0; !status && k < r->num_nodes; ++k)
    if (p->runs[k] && can_fold(&f, k)) status = fold_node(&f, k);
  host_free(&r->memory, f.weight);
  host_free(&r->memory, f.headers);
  return status;
}
