/*
 * Nodes, one after the other. A node all of whose inputs are known is computed on the host; any
 * other makes its calls on the evaluation's device: a graph's, which records them, or a real one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib.h"

tn_status eval_fail(evaluation *e, tn_status status, const char *format, ...) {
  char text[900];
  va_list list;
  if (e->status) return e->status; /* the first failure is the one that tells */
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  e->status = status;
  if (!e->at) return onnx_fail(status, "%s", text);
  const Onnx__Node *node = e->at->node;
  return onnx_fail(status, "node %s (%s, opset %lld%s%s): %s",
                   node->name && *node->name ? node->name
                   : node->n_output          ? node->output[0]
                                             : "without a name",
                   node->op_type, (long long)e->at->opset, *e->at->domain ? " of " : "",
                   e->at->domain, text);
}

/* Nodes of the graph count too: an adapter may make many. */
bool eval_counts(evaluation *e, uint64_t nodes) {
  if (!e->graph) return true;
  e->built += nodes;
  if (e->built <= MAX_BUILT && tn_graph_num_nodes(e->graph) <= MAX_BUILT) return true;
  eval_fail(e, TN_ERR_UNSUPPORTED, "loops and functions that come to more than %d nodes",
            MAX_BUILT);
  return false;
}

value *frame_value(const frame *f, const plan_node *n, size_t in) {
  if (in >= n->node->n_input || n->in[in].slot == NO_SLOT) return NULL;
  for (uint32_t up = n->in[in].up; up; up--) f = f->outer;
  return f->slots[n->in[in].slot];
}

/* --- shapes --- */

/* Shape, with the part of it that opset 15 may ask for, and Size. */
static void eval_shape(evaluation *e, frame *f, const plan_node *n, value **out) {
  value *x = frame_value(f, n, 0);
  onnx_node c;
  node_begin(&c, n->node, e->model->runtime, e->device);
  c.scope = f->scope;
  if (!x) {
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "there is no input");
    return;
  }
  if (n->node->op_type[1] == 'i') {
    out[0] = value_of_numbers(e, TN_I64, 0, NULL, &x->host.elements);
    return;
  }
  int64_t rank = x->host.rank, start = node_int(&c, "start", 0), end = node_int(&c, "end", rank);
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  out[0] = value_of_numbers(e, TN_I64, 1, (int64_t[]){end - start}, x->host.shape + start);
}

/* A tensor of one number: known while it is small, else filled by the device. */
static void eval_fill(evaluation *e, frame *f, const plan_node *n, value **out) {
  value *shape = frame_value(f, n, 0);
  onnx_node c;
  node_begin(&c, n->node, e->model->runtime, e->device);
  c.scope = f->scope;
  const Onnx__Attribute *a = node_attribute(&c, "value");
  onnx_tensor number = {.dtype = TN_F32, .elements = 1};
  int64_t size[TN_MAX_RANK], elements = 1;
  if (!shape || (!shape->host.data && !value_fetch(e, shape))) {
    e->wants_run = e->wants_run || !e->status;
    eval_fail(e, TN_ERR_UNSUPPORTED, "a shape that is not known before the run");
    return;
  }
  if (shape->host.dtype != TN_I64 || shape->host.elements > TN_MAX_RANK) {
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "a shape of %lld sizes of type %s",
              (long long)shape->host.elements, tn_dtype_name(shape->host.dtype));
    return;
  }
  for (int64_t i = 0; i < shape->host.elements; i++) {
    size[i] = ((const int64_t *)shape->host.data)[i];
    if (size[i] < 0 || __builtin_mul_overflow(elements, size[i], &elements)) {
      eval_fail(e, TN_ERR_INVALID_ARGUMENT, "a size of %lld", (long long)size[i]);
      return;
    }
  }
  if (a && a->t) onnx_tensor_take(a->t, &number);
  if (!number.dtype || number.elements != 1) {
    free(number.data);
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "a value that is not one number");
    return;
  }
  int32_t rank = (int32_t)shape->host.elements;
  size_t each = tn_dtype_size(number.dtype);
  if (elements <= MAX_KNOWN) {
    out[0] = value_of_numbers(e, number.dtype, rank, size, NULL);
    for (int64_t i = 0; out[0] && number.data && i < elements; i++)
      memcpy((char *)out[0]->host.data + (size_t)i * each, number.data, each);
  } else {
    value *one = value_of_numbers(e, number.dtype, 0, NULL, number.data);
    tn_tensor *x = one ? value_tensor(e, one) : NULL, *y = NULL;
    tn_status status = x ? tn_tensor_expand(x, rank, size, &y) : e->status;
    if (status) eval_fail(e, status, "%s", tn_last_error());
    if (y) out[0] = value_of_tensor(e, y);
    value_release(one);
  }
  free(number.data);
}

/* --- calls --- */

/* What draws anew in each run is never computed beforehand. */
static bool draws(const Onnx__Node *node) {
  static const char *const ops[] = {"Random", "Bernoulli", "Multinomial"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strncmp(node->op_type, ops[i], strlen(ops[i]))) return true;
  return false;
}

/* What makes at most as many elements as there are in what it reads, each with each, in as many
 * steps as it reads and makes. */
static bool combines(const char *op) {
  static const char *const ops[] = {
      "Abs",        "Add",       "And",        "Cast",      "Ceil",       "Compress",  "Concat",
      "Cos",        "Div",       "Equal",      "Erf",       "Exp",        "Flatten",   "Floor",
      "Gather",     "Greater",   "Identity",   "Less",      "Log",        "Max",       "Min",
      "Mod",        "Mul",       "Neg",        "NonZero",   "Not",        "Or",        "Pow",
      "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu",
      "Reshape",    "Round",     "Sigmoid",    "Sign",      "Sin",        "Slice",     "Split",
      "Sqrt",       "Squeeze",   "Sub",        "Tanh",      "Transpose",  "Unsqueeze", "Where"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(op, ops[i])) return true;
  return false;
}

void eval_classify(plan_node *n) {
  n->draws = draws(n->node);
  n->combines = combines(n->node->op_type);
}

static bool is_large(const tn_tensor *x) { return x && tn_tensor_elements(x) > MAX_KNOWN; }

/* The graph that nobody runs: of some nodes one after the other, since making it takes longer than
 * what it holds. NULL: there is no memory. */
static tn_graph *sizes_graph(evaluation *e) {
  enum { MOST_USES = 64 };
  if (e->sizes_uses++ % MOST_USES == 0) {
    tn_graph_destroy(e->sizes);
    e->sizes = NULL;
  }
  if (!e->sizes && tn_graph_create(e->model->runtime, "sizes", &e->sizes)) e->sizes = NULL;
  return e->sizes;
}

/* Whether a node of known inputs makes more than it should, in between or at the end: its calls are
 * recorded in a graph that nobody runs, where sizes cost nothing. */
static bool grows(evaluation *e, onnx_node *c) {
  int64_t most = 1;
  for (int i = 0; i < c->num_in; i++)
    if (c->in[i].elements > 1 && __builtin_mul_overflow(most, c->in[i].elements, &most))
      most = INT64_MAX;
  if (most <= MAX_KNOWN && e->at->combines) return false;
  tn_graph *graph = sizes_graph(e);
  bool large = false;
  if (!graph) return true;
  tn_status status = TN_OK;
  c->device = tn_graph_device(graph);
  c->symbolic = true;
  for (int i = 0; i < c->num_in && !status; i++) {
    const onnx_tensor *t = &c->in[i];
    char name[40];
    snprintf(name, sizeof name, "x%llu,%d", (unsigned long long)e->sizes_uses, i);
    if (t->present) status = tn_graph_input(graph, name, t->dtype, t->rank, t->shape, &c->x[i]);
  }
  if (!status) status = node_run(c);
  for (int i = 0; i < c->num_kept; i++) large = large || is_large(c->kept[i]);
  for (int i = 0; i < c->num_out; i++) large = large || is_large(c->y[i]);
  /* What depends on numbers makes no more than it reads. */
  bool grows = large || status || c->status || (*c->cannot && !c->wants_run);
  for (int i = 0; i < c->num_in; i++) tn_tensor_release(c->x[i]), c->x[i] = NULL;
  for (int i = 0; i < c->num_out; i++) tn_tensor_release(c->y[i]), c->y[i] = NULL;
  node_end(c);
  if (status) e->sizes_uses = 0; /* the next node begins anew */
  *c->cannot = 0;
  c->wants_run = c->symbolic = false;
  c->status = TN_OK;
  return grows;
}

/* Steps of a node that reads `elements`, which may meet each other in products and windows. What it
 * makes is counted when it is made. */
static int64_t fold_steps(const evaluation *e, const onnx_node *c, int64_t elements) {
  int64_t steps = 1, square = elements * elements;
  if (e->at->combines) return elements;
  for (int i = 0; i < c->num_in; i++)
    if (c->in[i].elements > 1 && __builtin_mul_overflow(steps, c->in[i].elements, &steps))
      return INT64_MAX;
  return steps > square ? steps : square;
}

/* Whether everything that the node reads is known, and little, and the model has not computed too
 * much yet. */
static bool folds(evaluation *e, onnx_node *c) {
  int64_t elements = 0;
  for (int i = 0; i < c->num_in; i++) {
    if (!c->in[i].present) continue;
    if (!c->in[i].data) return false;
    elements += c->in[i].elements;
    if (elements > MAX_FOLDED) return false;
  }
  const uint64_t steps = (uint64_t)fold_steps(e, c, elements);
  if ((e->graph && e->fold_steps + steps > FOLD_STEPS) || e->at->draws || grows(e, c)) return false;
  e->fold_steps += steps;
  return true;
}

/* Outputs of a call on the host device, as numbers. false: they are too many. */
static bool take_known(evaluation *e, onnx_node *c, value **out) {
  for (int i = 0; i < c->num_out; i++)
    if (c->y[i] && tn_tensor_elements(c->y[i]) > MAX_KNOWN) return false;
  for (int i = 0; i < c->num_out && !e->status; i++) {
    tn_tensor *y = c->y[i];
    if (!y) continue;
    e->fold_steps += (uint64_t)tn_tensor_elements(y);
    out[i] = value_of_numbers(e, tn_tensor_dtype(y), tn_tensor_rank(y), tn_tensor_shape(y), NULL);
    tn_status status = out[i] ? tn_tensor_to_host(y, out[i]->host.data, tn_tensor_bytes(y)) : TN_OK;
    if (status) eval_fail(e, status, "%s", tn_last_error());
  }
  return true;
}

static void take_tensors(evaluation *e, onnx_node *c, value **out) {
  for (int i = 0; i < c->num_out; i++) {
    if (!c->y[i]) continue;
    out[i] = value_of_tensor(e, c->y[i]);
    c->y[i] = NULL;
  }
}

/* What a call came to, in words. */
static void judge(evaluation *e, const onnx_node *c, tn_status status) {
  if (*c->cannot) {
    e->wants_run = e->wants_run || (c->wants_run && !e->status);
    eval_fail(e, TN_ERR_UNSUPPORTED, "%s", c->cannot);
  } else if (status) {
    eval_fail(e, status, "%s", tn_last_error());
  }
}

typedef struct fetching {
  evaluation *e;
  value **from;
} fetching;

static tn_status fetch(onnx_node *c, int in) {
  fetching *f = c->context;
  if (!value_fetch(f->e, f->from[in])) return f->e->status;
  c->in[in].data = f->from[in]->host.data;
  return TN_OK;
}

/* Calls on a host device; false where the results are more than the host should know. */
static bool call_known(evaluation *e, onnx_node *c, value **out) {
  tn_status status = TN_OK;
  c->device = e->host;
  c->stream = NULL;
  for (int i = 0; i < c->num_in && !status; i++)
    if (c->in[i].present)
      status = tn_tensor_from_host(e->host, c->in[i].dtype, c->in[i].rank, c->in[i].shape,
                                   c->in[i].data, &c->x[i]);
  if (!status) status = node_run(c);
  judge(e, c, status);
  bool few = e->status || take_known(e, c, out);
  for (int i = 0; i < c->num_in; i++) tn_tensor_release(c->x[i]), c->x[i] = NULL;
  for (int i = 0; i < c->num_out; i++) tn_tensor_release(c->y[i]), c->y[i] = NULL;
  node_end(c);
  e->folded += few;
  return few;
}

static void call_on_device(evaluation *e, onnx_node *c, value **from, value **out) {
  fetching context = {e, from};
  c->device = e->device;
  c->stream = e->stream;
  c->symbolic = e->graph != NULL;
  c->context = &context;
  c->fetch = e->graph ? NULL : fetch;
  for (int i = 0; i < c->num_in && !e->status; i++)
    if (from[i]) c->x[i] = value_tensor(e, from[i]);
  if (!e->status) judge(e, c, node_run(c));
  if (!e->status) take_tensors(e, c, out);
  for (int i = 0; i < c->num_out; i++) tn_tensor_release(c->y[i]);
  node_end(c);
}

static void eval_call(evaluation *e, frame *f, const plan_node *n, value **out) {
  value *from[NODE_TENSORS];
  onnx_node *c = malloc(sizeof *c);
  if (!c) {
    eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a node");
    return;
  }
  node_begin(c, n->node, e->model->runtime, e->device);
  c->opset = n->opset;
  c->scope = f->scope;
  c->ops = &e->model->ops;
  judge(e, c, TN_OK);
  for (int i = 0; i < c->num_in && !e->status; i++) {
    from[i] = frame_value(f, n, (size_t)i);
    if (from[i]) c->in[i] = from[i]->host;
  }
  if (!e->status && !(folds(e, c) && call_known(e, c, out))) call_on_device(e, c, from, out);
  free(c);
}

/* A Constant whose value is an attribute of the function that it stands in is made here; others
 * are weights. */
static void eval_kind(evaluation *e, frame *f, const plan_node *n, value **out) {
  if (n->node->n_output > NODE_TENSORS)
    eval_fail(e, TN_ERR_UNSUPPORTED, "more than %d outputs", NODE_TENSORS);
  else if (n->kind == PLAN_UNSERVED)
    eval_fail(e, TN_ERR_UNSUPPORTED, "%s", n->reason);
  else if (!n->node->n_output && (n->kind == PLAN_SHAPE || n->kind == PLAN_FILL))
    eval_fail(e, TN_ERR_INVALID_ARGUMENT, "a node without outputs");
  else if (n->kind == PLAN_SHAPE)
    eval_shape(e, f, n, out);
  else if (n->kind == PLAN_FILL)
    eval_fill(e, f, n, out);
  else if (n->kind == PLAN_CALL)
    eval_call(e, f, n, out);
  else if (n->kind != PLAN_WEIGHT && n->kind != PLAN_JOINED)
    eval_control(e, f, n, out);
}

static void eval_node(evaluation *e, frame *f, const plan_node *n) {
  value *out[NODE_TENSORS] = {0};
  const char *site =
      tn_call_site(n->node->name && *n->node->name ? n->node->name : n->node->op_type);
  e->at = n;
  const size_t tensors = n->node->n_input + n->node->n_output;
  if (eval_counts(e, 1 + tensors / BUILT_TENSORS)) eval_kind(e, f, n, out);
  e->at = n;
  for (size_t i = 0; i < n->node->n_output && i < NODE_TENSORS; i++) {
    if (n->kind == PLAN_WEIGHT) break;
    if (n->out[i] == NO_SLOT) {
      value_release(out[i]);
      continue;
    }
    f->slots[n->out[i]] = out[i];
  }
  for (uint32_t i = 0; i < n->num_done; i++) {
    value_release(f->slots[n->done[i]]);
    f->slots[n->done[i]] = NULL;
  }
  tn_call_site(site);
}

static void frame_begin(evaluation *e, frame *f, value *const *in) {
  for (uint32_t i = 0; i < f->graph->num_weights && !e->status; i++)
    f->slots[f->graph->weights[i].slot] = value_of_weight(e, f->graph->weights[i].weight);
  for (uint32_t i = 0; i < f->graph->num_in; i++) f->slots[f->graph->in[i]] = value_keep(in[i]);
}

/* An output that the graph's body only hands through may be a value further out. */
static void take_outputs(evaluation *e, frame *f, value **out) {
  for (uint32_t i = 0; i < f->graph->num_out; i++) {
    const frame *at = f;
    for (uint32_t up = f->graph->out[i].up; up; up--) at = at->outer;
    out[i] = value_keep(at->slots[f->graph->out[i].slot]);
    if (!out[i] && !e->status)
      eval_fail(e, TN_ERR_UNSUPPORTED, "output %u of graph %s was not made", i, f->graph->name);
  }
}

tn_status eval_graph(evaluation *e, const plan_graph *g, frame *outer, const node_scope *scope,
                     value *const *in, value **out) {
  frame f = {g, calloc(g->num_slots + 1, sizeof(value *)), outer, scope};
  for (uint32_t i = 0; i < g->num_out; i++) out[i] = NULL;
  if (!f.slots) return eval_fail(e, TN_ERR_OUT_OF_MEMORY, "no memory for a graph's values");
  frame_begin(e, &f, in);
  for (uint32_t i = 0; i < g->num_nodes && !e->status; i++) eval_node(e, &f, &g->nodes[i]);
  if (!e->status) take_outputs(e, &f, out);
  for (uint32_t i = 0; i < g->num_slots; i++) value_release(f.slots[i]);
  for (uint32_t i = 0; i < g->num_out && e->status; i++) {
    value_release(out[i]);
    out[i] = NULL;
  }
  free(f.slots);
  return e->status;
}
