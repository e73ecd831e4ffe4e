/*
 * From names to numbers: each graph of the file becomes a list of nodes whose inputs and outputs
 * are slots. What is wrong with names and order is found here, once, and evaluations know no
 * strings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "lib.h"

/* What is being planned: a graph of the file, or a function's nodes. */
typedef struct source {
  Onnx__Node *const *nodes;
  size_t num_nodes;
  const Onnx__Graph *graph; /* NULL: a function */
  const Onnx__Function *function;
} source;

static tn_status no_memory(void) { return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a plan"); }

/* --- names --- */

/* FNV-1a. */
static uint32_t hash_of(const char *name) {
  uint32_t hash = 2166136261u;
  while (*name) hash = (hash ^ (uint8_t)*name++) * 16777619u;
  return hash;
}

/* The table's place for a name: that of its slot, or a free one. */
static uint32_t *place_of(const plan_graph *g, const char *name) {
  uint32_t mask = g->room_table - 1, i = hash_of(name) & mask;
  while (g->table[i] != NO_SLOT && strcmp(g->names[g->table[i]], name)) i = (i + 1) & mask;
  return &g->table[i];
}

static bool table_grow(plan_graph *g) {
  uint32_t room = g->room_table ? 2 * g->room_table : 64;
  uint32_t *table = malloc(room * sizeof *table);
  if (!table) return false;
  memset(table, 255, room * sizeof *table);
  free(g->table);
  g->table = table;
  g->room_table = room;
  for (uint32_t i = 0; i < g->num_slots; i++) *place_of(g, g->names[i]) = i;
  return true;
}

static bool slots_grow(plan_graph *g) {
  uint32_t room = g->room ? 2 * g->room : 32;
  const char **names = realloc(g->names, room * sizeof *names);
  if (names) g->names = names;
  int64_t *last = realloc(g->last, room * sizeof *last);
  if (last) g->last = last;
  uint32_t *uses = realloc(g->uses, room * sizeof *uses);
  if (uses) g->uses = uses;
  if (!names || !last || !uses) return false;
  g->room = room;
  return true;
}

/* pre: there is room. */
static uint32_t slot_new(plan_graph *g, const char *name) {
  g->names[g->num_slots] = name;
  g->last[g->num_slots] = -1;
  g->uses[g->num_slots] = 0;
  return g->num_slots++;
}

/* A slot for a name that the graph does not have yet. */
static tn_status slot_add(plan_graph *g, const char *name, uint32_t *slot) {
  if (2 * (g->num_slots + 1) > g->room_table && !table_grow(g)) return no_memory();
  if (g->num_slots == g->room && !slots_grow(g)) return no_memory();
  uint32_t *place = place_of(g, name);
  if (*place != NO_SLOT)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: two values are named %s", g->name, name);
  *slot = *place = slot_new(g, name);
  return TN_OK;
}

static uint32_t slot_find(const plan_graph *g, const char *name) {
  return g->room_table ? *place_of(g, name) : NO_SLOT;
}

static bool made_later(const source *s, const char *name) {
  for (size_t i = 0; i < s->num_nodes; i++)
    for (size_t k = 0; k < s->nodes[i]->n_output; k++)
      if (!strcmp(s->nodes[i]->output[k], name)) return true;
  return false;
}

/* The value of a name, here or further out; reading it is noted. */
static tn_status resolve(plan_graph *g, const source *s, const char *name, int64_t reader,
                         plan_ref *ref) {
  *ref = (plan_ref){0, NO_SLOT};
  if (!*name) return TN_OK;
  for (plan_graph *at = g; at; at = at->outer, ref->up++) {
    ref->slot = slot_find(at, name);
    if (ref->slot == NO_SLOT) continue;
    int64_t last = at == g ? reader : at->at;
    if (at->last[ref->slot] < last) at->last[ref->slot] = last;
    at->uses[ref->slot]++;
    return TN_OK;
  }
  if (made_later(s, name))
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "graph %s: %s is read before the node that makes it: nodes must be in order, "
                     "and none may need its own result",
                     g->name, name);
  return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: nothing makes %s", g->name, name);
}

/* --- nodes --- */

static int64_t opset_of(const plan_graph *g, const char *domain) {
  for (size_t i = 0; i < g->num_opsets; i++) {
    const char *named = g->opsets[i]->domain ? g->opsets[i]->domain : "";
    if (!strcmp(named, "ai.onnx")) named = "";
    if (!strcmp(named, domain)) return g->opsets[i]->version;
  }
  return 0;
}

static tn_status plan_of(tn_onnx *m, plan_graph *outer, const source *s,
                         Onnx__OperatorSet *const *opsets, size_t num_opsets, int depth,
                         plan_graph **plan);

static tn_status plan_body(tn_onnx *m, plan_graph *g, const Onnx__Node *node, const char *attribute,
                           plan_graph **body) {
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__Attribute *a = node->attribute[i];
    if (!a->name || strcmp(a->name, attribute) || !a->g) continue;
    source s = {a->g->node, a->g->n_node, a->g, NULL};
    return plan_of(m, g, &s, g->opsets, g->num_opsets, g->depth + 1, body);
  }
  return onnx_fail(TN_ERR_INVALID_ARGUMENT, "node %s (%s) has no %s", node->name ? node->name : "",
                   node->op_type, attribute);
}

static const Onnx__Function *function_find(const tn_onnx *m, const plan_node *n, size_t *index) {
  for (size_t i = 0; i < m->proto->n_functions; i++) {
    const Onnx__Function *f = m->proto->functions[i];
    const char *domain = f->domain ? f->domain : "";
    *index = i;
    if (f->name && !strcmp(f->name, n->node->op_type) && !strcmp(domain, n->domain) &&
        !strcmp(f->overload ? f->overload : "", n->node->overload ? n->node->overload : ""))
      return f;
  }
  return NULL;
}

static tn_status plan_function(tn_onnx *m, plan_graph *g, plan_node *n, size_t index) {
  static plan_graph in_progress;
  const Onnx__Function *f = n->function;
  source s = {f->node, f->n_node, NULL, f};
  n->kind = PLAN_FUNCTION;
  if (m->functions[index] == &in_progress)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "function %s calls itself", f->name);
  if (!m->functions[index]) {
    plan_graph *plan = NULL;
    m->functions[index] = &in_progress;
    tn_status status =
        plan_of(m, NULL, &s, f->opset_import, f->n_opset_import, g->depth + 1, &plan);
    m->functions[index] = status ? NULL : plan;
    if (status) return status;
  }
  n->body[0] = m->functions[index];
  return TN_OK;
}

static tn_status unserved(plan_node *n, const char *why) {
  n->kind = PLAN_UNSERVED;
  snprintf(n->reason, sizeof n->reason, "%s", why);
  return TN_OK;
}

/* Why an operator that has no adapter has none. */
static const char *reason_of(const plan_node *n) {
  static const char *const kinds[][2] = {{"Sequence", "sequences are not served"},
                                         {"SplitToSequence", "sequences are not served"},
                                         {"ConcatFromSequence", "sequences are not served"},
                                         {"Optional", "optional values are not served"},
                                         {"String", "strings are not served"},
                                         {"RegexFullMatch", "strings are not served"},
                                         {"TfIdfVectorizer", "strings are not served"},
                                         {"Gradient", "training is not served"},
                                         {"Momentum", "training is not served"},
                                         {"Adagrad", "training is not served"},
                                         {"Adam", "training is not served"}};
  if (!n->opset) return "the model does not say which version of the operator's domain it means";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strncmp(n->node->op_type, kinds[i][0], strlen(kinds[i][0]))) return kinds[i][1];
  return "the operator is not served";
}

static tn_status plan_kind_of(tn_onnx *m, plan_graph *g, plan_node *n) {
  const Onnx__Node *node = n->node;
  const char *op = node->op_type;
  size_t index;
  n->function = function_find(m, n, &index);
  if (n->function) return plan_function(m, g, n, index);
  if (*n->domain || !n->opset) {
    if (!n->opset || !onnx_adapter_find(n->domain, op, n->opset, &op))
      return unserved(n, reason_of(n));
    return TN_OK;
  }
  tn_status status = TN_OK;
  if (!strcmp(op, "If")) {
    n->kind = PLAN_IF;
    status = plan_body(m, g, node, "then_branch", &n->body[0]);
    return status ? status : plan_body(m, g, node, "else_branch", &n->body[1]);
  }
  if (!strcmp(op, "Loop") || !strcmp(op, "Scan")) {
    n->kind = *op == 'L' ? PLAN_LOOP : PLAN_SCAN;
    return plan_body(m, g, node, "body", &n->body[0]);
  }
  if (!strcmp(op, "Shape") || !strcmp(op, "Size"))
    n->kind = PLAN_SHAPE;
  else if (!strcmp(op, "ConstantOfShape"))
    n->kind = PLAN_FILL;
  else if (!strcmp(op, "Constant"))
    n->kind = PLAN_WEIGHT;
  else if (!onnx_adapter_find("", op, n->opset, &op))
    return unserved(n, reason_of(n));
  return TN_OK;
}

static bool graph_weight_add(plan_graph *g, uint32_t slot, onnx_weight *weight) {
  if (!(g->num_weights & (g->num_weights + 1)) || !g->num_weights) {
    size_t room = g->num_weights ? 2 * (size_t)(g->num_weights + 1) : 2;
    struct plan_weight *more = realloc(g->weights, room * sizeof *more);
    if (!more) return false;
    g->weights = more;
  }
  g->weights[g->num_weights++] = (struct plan_weight){slot, weight};
  return true;
}

tn_status plan_constant(plan_graph *g, onnx_weight *weight, int64_t reader, uint32_t *slot) {
  if (g->num_slots == g->room && !slots_grow(g)) return no_memory();
  *slot = slot_new(g, weight->name);
  g->last[*slot] = reader;
  g->uses[*slot] = 1;
  return graph_weight_add(g, *slot, weight) ? TN_OK : no_memory();
}

static tn_status plan_outputs(tn_onnx *m, plan_graph *g, plan_node *n) {
  for (size_t i = 0; i < n->node->n_output; i++) {
    n->out[i] = NO_SLOT;
    if (!*n->node->output[i]) continue;
    tn_status status = slot_add(g, n->node->output[i], &n->out[i]);
    if (status) return status;
  }
  if (n->kind != PLAN_WEIGHT) return TN_OK;
  onnx_weight *weight;
  if (n->node->n_output != 1 || n->out[0] == NO_SLOT)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: a constant without a name", g->name);
  tn_status status = weight_of_constant(m, n->node, &weight);
  if (status) return status;
  return graph_weight_add(g, n->out[0], weight) ? TN_OK : no_memory();
}

static tn_status plan_node_of(tn_onnx *m, plan_graph *g, const source *s, plan_node *n,
                              const Onnx__Node *node) {
  tn_status status = TN_OK;
  n->node = node;
  if (!node->op_type || !*node->op_type)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: node %lld has no operator", g->name,
                     (long long)g->at);
  n->domain = node->domain && strcmp(node->domain, "ai.onnx") ? node->domain : "";
  n->opset = opset_of(g, n->domain);
  n->in = calloc(node->n_input + 1, sizeof *n->in);
  n->out = calloc(node->n_output + 1, sizeof *n->out);
  if (!n->in || !n->out) return no_memory();
  for (size_t i = 0; i < node->n_input && !status; i++)
    status = resolve(g, s, node->input[i], g->at, &n->in[i]);
  if (!status) status = plan_kind_of(m, g, n);
  if (!status) status = plan_outputs(m, g, n);
  m->num_nodes++;
  return status;
}

/* --- graphs --- */

/* Which slots each node is the last to read, and those of its own that nobody reads. */
static tn_status plan_lifetimes(plan_graph *g) {
  uint32_t *made = calloc(g->num_nodes + 1, sizeof *made);
  if (!made) return no_memory();
  bool enough = true;
  for (uint32_t i = 0; i < g->num_nodes; i++)
    for (size_t k = 0; k < g->nodes[i].node->n_output; k++)
      if (g->nodes[i].out[k] != NO_SLOT && g->last[g->nodes[i].out[k]] < 0)
        g->last[g->nodes[i].out[k]] = i;
  for (uint32_t s = 0; s < g->num_slots; s++)
    if (g->last[s] >= 0 && g->last[s] < g->num_nodes) made[g->last[s]]++;
  for (uint32_t i = 0; i < g->num_nodes && enough; i++)
    enough = !made[i] || (g->nodes[i].done = malloc(made[i] * sizeof *g->nodes[i].done));
  for (uint32_t s = 0; s < g->num_slots && enough; s++)
    if (g->last[s] >= 0 && g->last[s] < g->num_nodes) {
      plan_node *n = &g->nodes[g->last[s]];
      n->done[n->num_done++] = s;
    }
  free(made);
  return enough ? TN_OK : no_memory();
}

static tn_status plan_weights(tn_onnx *m, plan_graph *g, const Onnx__Graph *from) {
  for (size_t i = 0; i < from->n_initializer; i++) {
    Onnx__Tensor *t = from->initializer[i];
    onnx_weight *weight;
    uint32_t slot;
    const char *name = t->name ? t->name : "";
    if (!*name)
      return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: a weight without a name", g->name);
    tn_status status = slot_add(g, name, &slot);
    if (!status) status = weight_take(m, name, t, &weight);
    if (status) return status;
    if (!graph_weight_add(g, slot, weight)) return no_memory();
  }
  if (!from->n_sparse_initializer) return TN_OK;
  return onnx_fail(TN_ERR_UNSUPPORTED, "graph %s: sparse weights are not served", g->name);
}

static const char *input_name(const source *s, size_t i) {
  const char *name = s->graph ? s->graph->input[i]->name : s->function->input[i];
  return name ? name : "";
}

/* Inputs that are weights too are weights. */
static tn_status plan_inputs(plan_graph *g, const source *s) {
  size_t count = s->graph ? s->graph->n_input : s->function->n_input;
  g->in = calloc(count + 1, sizeof *g->in);
  if (!g->in) return no_memory();
  for (size_t i = 0; i < count; i++) {
    const char *name = input_name(s, i);
    if (!*name)
      return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: an input without a name", g->name);
    uint32_t slot = slot_find(g, name);
    if (slot != NO_SLOT && slot < g->num_weights) continue;
    tn_status status = slot_add(g, name, &g->in[g->num_in]);
    if (status) return status;
    g->num_in++;
  }
  return TN_OK;
}

static tn_status plan_results(plan_graph *g, const source *s) {
  size_t count = s->graph ? s->graph->n_output : s->function->n_output;
  g->out = calloc(count + 1, sizeof *g->out);
  g->out_info = s->graph ? s->graph->output : NULL;
  if (!g->out) return no_memory();
  for (size_t i = 0; i < count; i++) {
    const char *name = s->graph ? s->graph->output[i]->name : s->function->output[i];
    tn_status status = resolve(g, s, name ? name : "", INT64_MAX, &g->out[i]);
    if (status) return status;
    if (g->out[i].slot == NO_SLOT)
      return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graph %s: an output without a name", g->name);
    g->num_out++;
  }
  return TN_OK;
}

static tn_status plan_of(tn_onnx *m, plan_graph *outer, const source *s,
                         Onnx__OperatorSet *const *opsets, size_t num_opsets, int depth,
                         plan_graph **plan) {
  plan_graph *g = calloc(1, sizeof *g);
  if (!g) return no_memory();
  g->next = m->graphs;
  m->graphs = *plan = g;
  g->outer = outer;
  g->depth = depth;
  g->opsets = opsets;
  g->num_opsets = num_opsets;
  g->name = s->graph ? s->graph->name : s->function->name;
  if (!g->name) g->name = "?";
  if (depth > MAX_DEPTH)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "graphs inside graphs, more than %d", MAX_DEPTH);
  int64_t opset = opset_of(g, "");
  if (opset && (opset < OLDEST_OPSET || opset > NEWEST_OPSET))
    return onnx_fail(TN_ERR_UNSUPPORTED, "%s is of opset %lld; Tenon serves %d to %d",
                     s->graph ? "the model" : g->name, (long long)opset, OLDEST_OPSET,
                     NEWEST_OPSET);
  g->nodes = calloc(s->num_nodes + 1, sizeof *g->nodes);
  if (!g->nodes) return no_memory();
  tn_status status = s->graph ? plan_weights(m, g, s->graph) : TN_OK;
  if (!status) status = plan_inputs(g, s);
  for (size_t i = 0; i < s->num_nodes && !status; i++) {
    g->at = (int64_t)i;
    g->num_nodes++;
    status = plan_node_of(m, g, s, &g->nodes[i], s->nodes[i]);
  }
  g->at = INT64_MAX;
  if (!status) status = plan_results(g, s);
  if (!status) status = plan_fold(m, g, s->nodes);
  for (uint32_t i = 0; i < g->num_nodes && !status; i++) eval_classify(&g->nodes[i]);
  if (!status) status = plan_lifetimes(g);
  free(g->table);
  g->table = NULL;
  return status;
}

tn_status plan_model(tn_onnx *m) {
  const Onnx__Graph *graph = m->proto->graph;
  source s = {graph->node, graph->n_node, graph, NULL};
  m->functions = calloc(m->proto->n_functions + 1, sizeof *m->functions);
  if (!m->functions) return no_memory();
  return plan_of(m, NULL, &s, m->proto->opset_import, m->proto->n_opset_import, 0, &m->main);
}

void plans_free(plan_graph *list) {
  while (list) {
    plan_graph *g = list, *next = g->next;
    for (uint32_t i = 0; i < g->num_nodes; i++) {
      free(g->nodes[i].in);
      free(g->nodes[i].out);
      free(g->nodes[i].done);
    }
    free(g->names), free(g->last), free(g->uses), free(g->in), free(g->out);
    free(g->nodes), free(g->weights), free(g->table);
    free(g);
    list = next;
  }
}
