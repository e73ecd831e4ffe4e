/* The walk: what depends on what is asked for, and then each node's rule, last node first. */
#include "graph/gradient/walk.h"

#include <inttypes.h>
#include <string.h>

#include "dispatcher/objects/tensor.h"
#include "tenon/ops.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a gradient");
}

static bool is_float(tn_dtype dtype) { return TN_SET_FLOAT >> dtype & 1; }

/* --- what depends on what is asked for --- */

static bool reads_dependent(const gradient_walk *w, const record_node *n, uint32_t k) {
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) {
    if (n->in[i] == TN_GRAPH_NONE) continue;
    const record_value *v = &w->record->values[n->in[i]];
    if (is_float(v->dtype) && w->since[v->buffer] <= k) return true;
  }
  return false;
}

/* The copy that stops gradients, not what updates it later. */
static bool stops_at(const gradient_walk *w, const record_node *n) {
  const gradient_rule *how = gradient_rule_of(n->op);
  if (how && how->stops) return true;
  if (n->num_out != 1) return false;
  const record_value *v = &w->record->values[n->out[0]];
  return v->version == 1 && w->record->buffers[v->buffer].stops_gradient;
}

static void find_dependent(gradient_walk *w, uint32_t last) {
  for (uint32_t k = 0; k <= last; ++k) {
    const record_node *n = &w->record->nodes[k];
    if (stops_at(w, n) || !reads_dependent(w, n, k)) continue;
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      const record_value *v = &w->record->values[n->out[i]];
      if (is_float(v->dtype) && w->since[v->buffer] > k + 1) w->since[v->buffer] = k + 1;
    }
  }
}

/* --- one node --- */

/* What a rule is given and gives, in one piece of memory. */
typedef struct node_call {
  rule rule;
  record_value *values; /* copies, of inputs and then outputs: the record may move */
  tn_tensor **held;     /* references to inputs, outputs, gradients by outputs */
  void *room;
} node_call;

static tn_status call_reserve(const gradient_walk *w, const record_node *n, node_call *c) {
  size_t in = (size_t)n->num_in + n->num_inout, out = n->num_out, all = in + out;
  size_t bytes = all * (sizeof *c->values + sizeof(rule_shape)) +
                 (all + out + in) * sizeof(tn_tensor *) + in + 1;
  c->room = host_alloc(&w->record->memory, bytes);
  if (!c->room) return no_memory();
  c->values = c->room;
  rule_shape *shapes = (void *)(c->values + all);
  c->held = (void *)(shapes + all);
  const tn_tensor **given = (void *)(c->held + all + out);
  c->rule = (rule){.op = n->op,
                   .attrs = n->attrs,
                   .stream = w->stream,
                   .device = w->device,
                   .num_in = (uint32_t)in,
                   .num_inout = n->num_inout,
                   .num_out = (uint32_t)out,
                   .in_shape = shapes,
                   .out_shape = shapes + in,
                   .in = (void *)c->held,
                   .out = (void *)(c->held + in),
                   .out_gradient = (void *)(c->held + all),
                   .wanted = (void *)(given + in),
                   .in_gradient = given,
                   .memory = w->record->memory};
  return TN_OK;
}

static uint32_t value_at(const record_node *n, size_t in, size_t i) {
  return i < in ? n->in[i] : n->out[i - in];
}

static void take_shapes(const gradient_walk *w, const record_node *n, uint32_t k, node_call *c) {
  size_t in = c->rule.num_in, all = in + c->rule.num_out;
  for (size_t i = 0; i < all; ++i) {
    uint32_t value = value_at(n, in, i);
    if (value == TN_GRAPH_NONE) continue;
    const record_value *v = &w->record->values[value];
    rule_shape *shape = (rule_shape *)(uintptr_t)&c->rule.in_shape[i];
    c->values[i] = *v;
    *shape = (rule_shape){.dtype = v->dtype, .rank = v->rank};
    memcpy(shape->size, v->shape, sizeof shape->size);
    if (i < in)
      ((bool *)(uintptr_t)c->rule.wanted)[i] = is_float(v->dtype) && w->since[v->buffer] <= k;
  }
}

/* What the gradients that are wanted read. */
static void find_needs(const gradient_rule *how, const record_node *n, const rule *r, uint32_t *in,
                       uint32_t *out) {
  *in = how->num_parts ? 0 : gradient_needs_in(how, n);
  *out = how->num_parts ? 0 : gradient_needs_out(how, n);
  for (uint32_t i = 0; i < how->num_parts; ++i) {
    if (!rule_wants(r, how->parts[i].input)) continue;
    *in |= how->parts[i].needs_in;
    *out |= how->parts[i].needs_out;
  }
}

static tn_status take_tensors(gradient_walk *w, const record_node *n, const gradient_rule *how,
                              node_call *c) {
  tn_status status = TN_OK;
  size_t in = c->rule.num_in, all = in + c->rule.num_out;
  uint32_t needs_in, needs_out;
  find_needs(how, n, &c->rule, &needs_in, &needs_out);
  for (size_t i = 0; !status && i < all; ++i) {
    uint32_t value = value_at(n, in, i);
    bool wanted = i < in ? gradient_needs(n, needs_in, i) : gradient_needs(n, needs_out, i - in);
    /* What an in-out tensor was before, a plugin's rule knows by its shape alone. */
    if (n->op->gradient && i >= n->num_in && i < in) wanted = false;
    if (value != TN_GRAPH_NONE && wanted) status = w->tensor(w, value, &c->held[i]);
  }
  return status;
}

static tn_status take_gradients(gradient_walk *w, const record_node *n, node_call *c, bool *any) {
  tn_status status = TN_OK;
  size_t in = c->rule.num_in, all = in + c->rule.num_out;
  *any = false;
  for (size_t i = in; !status && i < all; ++i) {
    const record_value *v = &c->values[i];
    if (n->out[i - in] == TN_GRAPH_NONE || !is_float(v->dtype)) continue;
    status = gradient_of(w, v, &c->held[all + i - in]);
    *any |= c->held[all + i - in] != NULL;
  }
  for (size_t i = in; !status && *any && i < all; ++i)
    if (n->out[i - in] != TN_GRAPH_NONE && is_float(c->values[i].dtype))
      status = gradient_drop(w, &c->values[i]);
  return status;
}

static tn_status add_gradients(gradient_walk *w, const node_call *c) {
  tn_status status = c->rule.status;
  for (size_t i = 0; !status && i < c->rule.num_in; ++i)
    if (c->rule.in_gradient[i]) status = gradient_add(w, &c->values[i], c->rule.in_gradient[i]);
  return status;
}

static __attribute__((cold)) tn_status no_rule(const record_node *n, const gradient_rule *how) {
  return fail(TN_ERR_UNSUPPORTED, "tn_%s has no gradient: %s", n->op->name,
              how ? how->refuses : "its plugin brought no rule for it");
}

static __attribute__((cold)) void name_node(const gradient_walk *w, uint32_t k) {
  const record_node *n = &w->record->nodes[k];
  fail_prefix("gradient of node %" PRIu32 " (tn_%s%s%s): ", k, n->op->name, n->site ? ", at " : "",
              n->site ? n->site : "");
}

static tn_status run_rule(gradient_walk *w, const record_node *n, uint32_t k, node_call *c) {
  const gradient_rule *how = gradient_rule_of(n->op);
  if (!how || !how->run) return no_rule(n, how);
  tn_status status = w->complete && how->needs_out ? w->complete(w, k, how->needs_out) : TN_OK;
  if (!status) status = take_tensors(w, n, how, c);
  if (status) return status;
  const char *site = tn_call_site(n->site);
  how->run(&c->rule);
  tn_call_site(site);
  return add_gradients(w, c);
}

/* Writes over what depended on what is asked for: before, that had no part in the loss. */
static bool overwrites_dependent(const gradient_walk *w, const record_node *n, uint32_t k) {
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE && w->since[w->record->values[n->out[i]].buffer] <= k)
      return true;
  return false;
}

static tn_status walk_node(gradient_walk *w, uint32_t k) {
  const record_node n = w->record->nodes[k];
  node_call c = {0};
  bool any;
  tn_status status = call_reserve(w, &n, &c);
  if (status) return status;
  take_shapes(w, &n, k, &c);
  status = take_gradients(w, &n, &c, &any);
  if (!status && any && reads_dependent(w, &n, k) && !stops_at(w, &n))
    status = run_rule(w, &n, k, &c);
  rule_end(&c.rule);
  for (size_t i = 0; i < (size_t)c.rule.num_in + 2 * (size_t)c.rule.num_out; ++i)
    tn_tensor_release(c.held[i]);
  host_free(&w->record->memory, c.room);
  if (status) name_node(w, k);
  return status;
}

/* --- the whole --- */

/* What is asked for of values that node k wrote (TN_GRAPH_NONE: that no node wrote). */
static tn_status take_results(gradient_walk *w, uint32_t k, size_t n, const uint32_t *wrt,
                              tn_tensor **gradients) {
  tn_status status = TN_OK;
  for (size_t i = 0; !status && i < n; ++i) {
    const record_value v = w->record->values[wrt[i]];
    if (v.node == k) status = gradient_of(w, &v, &gradients[i]);
  }
  return status;
}

static bool is_own(const tn_tensor *const *gradients, size_t i, const tn_tensor *seed) {
  const tn_tensor *g = gradients[i];
  if (!g->contiguous || g->read_only || (seed && g->storage == seed->storage)) return false;
  for (size_t k = 0; k < i; ++k)
    if (gradients[k] && gradients[k]->storage == g->storage) return false;
  return true;
}

/* Callers get memory that they may write to, row-major, each its own: what passes through an
 * operator unchanged would be one gradient of two tensors. */
static tn_status finish_results(const gradient_walk *w, const tn_tensor *seed, size_t n,
                                tn_tensor **gradients) {
  tn_status status = TN_OK;
  for (size_t i = 0; !status && i < n; ++i) {
    tn_tensor *dense = NULL;
    if (!gradients[i] || is_own((const tn_tensor *const *)gradients, i, seed)) continue;
    status = tn_copy(w->stream, gradients[i], &dense);
    if (status) break;
    tn_tensor_release(gradients[i]);
    gradients[i] = dense;
  }
  return status;
}

static void find_extents(gradient_walk *w) {
  for (uint32_t i = 0; i < w->record->num_values; ++i) {
    const record_value *v = &w->record->values[i];
    uint64_t bytes = record_extent(v);
    if (v->buffer < w->num_buffers && bytes > w->extent[v->buffer]) w->extent[v->buffer] = bytes;
  }
}

static tn_status start(gradient_walk *w, uint32_t loss, const tn_tensor *seed, size_t n,
                       const uint32_t *wrt) {
  const host_memory *memory = &w->record->memory;
  const record_value v = w->record->values[loss];
  tn_tensor *one = NULL;
  w->num_buffers = w->record->num_buffers;
  w->since = host_alloc(memory, ((size_t)w->num_buffers + 1) * sizeof *w->since);
  w->gradients = host_alloc(memory, ((size_t)w->num_buffers + 1) * sizeof *w->gradients);
  w->extent = host_alloc(memory, ((size_t)w->num_buffers + 1) * sizeof *w->extent);
  if (!w->since || !w->gradients || !w->extent) return no_memory();
  find_extents(w);
  for (uint32_t b = 0; b < w->num_buffers; ++b) w->since[b] = UINT32_MAX;
  for (size_t i = 0; i < n; ++i) {
    const record_value *x = &w->record->values[wrt[i]];
    uint32_t from = x->node == TN_GRAPH_NONE ? 0 : x->node + 1;
    if (from < w->since[x->buffer]) w->since[x->buffer] = from;
  }
  if (v.node != TN_GRAPH_NONE) find_dependent(w, v.node);
  if (seed) return gradient_add(w, &v, seed);
  tn_status status = tn_ones(w->device, w->stream, v.dtype, v.rank, v.shape, &one);
  if (!status) status = gradient_add(w, &v, one);
  tn_tensor_release(one);
  return status;
}

static void finish(gradient_walk *w, tn_status status, size_t n, tn_tensor **gradients) {
  const host_memory *memory = &w->record->memory;
  for (uint32_t b = 0; w->gradients && b < w->num_buffers; ++b) gradient_free(&w->gradients[b]);
  host_free(memory, w->gradients);
  host_free(memory, w->since);
  host_free(memory, w->extent);
  for (size_t i = 0; status && i < n; ++i) {
    tn_tensor_release(gradients[i]);
    gradients[i] = NULL;
  }
}

tn_status gradient_walk_run(gradient_walk *w, uint32_t loss, const tn_tensor *seed, size_t n,
                            const uint32_t *wrt, tn_tensor **gradients) {
  for (size_t i = 0; i < n; ++i) gradients[i] = NULL;
  tn_status status = start(w, loss, seed, n, wrt);
  uint32_t last = w->record->values[loss].node;
  for (uint32_t k = last == TN_GRAPH_NONE ? 0 : last + 1; !status && k-- > 0;) {
    status = take_results(w, k, n, wrt, gradients);
    const record_node *node = &w->record->nodes[k];
    if (!status && (reads_dependent(w, node, k) || overwrites_dependent(w, node, k)))
      status = walk_node(w, k);
    if (w->done) w->done(w, k);
  }
  if (!status) status = take_results(w, TN_GRAPH_NONE, n, wrt, gradients);
  if (!status) status = finish_results(w, seed, n, gradients);
  finish(w, status, n, gradients);
  return status;
}
