/* What a model has: inputs, outputs, nodes that are not served; and what this library serves. */
#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "lib.h"

static const Onnx__ValueInfo *info_find(Onnx__ValueInfo *const *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (list[i]->name && !strcmp(list[i]->name, name)) return list[i];
  return NULL;
}

/* -1, 0 where no size is meant, names and "?" all say that a size is open. */
static tn_status take_dims(const Onnx__Shape *shape, tn_onnx_value *to) {
  size_t rank = shape->n_dim;
  int64_t *sizes = calloc(rank + 1, sizeof *sizes);
  const char **symbols = calloc(rank + 1, sizeof *symbols);
  to->shape = sizes;
  to->symbols = symbols;
  if (!sizes || !symbols) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a shape");
  for (size_t i = 0; i < rank; i++) {
    const Onnx__Dimension *d = shape->dim[i];
    bool open = !d->has_dim_value || d->dim_value <= 0;
    sizes[i] = open ? TN_SIZE_OPEN : d->dim_value;
    if (open && d->dim_param && *d->dim_param) symbols[i] = d->dim_param;
  }
  to->rank = (int32_t)rank;
  return TN_OK;
}

static tn_status describe(const Onnx__ValueInfo *info, const char *name, tn_onnx_value *to) {
  const Onnx__TensorType *type = info && info->type ? info->type->tensor_type : NULL;
  *to = (tn_onnx_value){.struct_size = sizeof *to, .name = name, .rank = TN_RANK_OPEN};
  if (info && info->type && !type)
    to->unserved = "no tensor: sequences, maps and optional values are not served";
  if (!type) return TN_OK;
  to->dtype = onnx_dtype(type->elem_type);
  if (type->elem_type == 8) to->unserved = "of strings, which Tenon does not have";
  return type->shape ? take_dims(type->shape, to) : TN_OK;
}

static tn_status list_unserved(tn_onnx *m) {
  m->unserved = calloc(m->num_nodes + 1, sizeof(plan_node *));
  if (!m->unserved) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a list of nodes");
  for (const plan_graph *g = m->graphs; g; g = g->next)
    for (uint32_t i = 0; i < g->num_nodes; i++)
      if (g->nodes[i].kind == PLAN_UNSERVED) m->unserved[m->num_unserved++] = &g->nodes[i];
  return TN_OK;
}

tn_status describe_model(tn_onnx *m) {
  const Onnx__Graph *graph = m->proto->graph;
  const plan_graph *g = m->main;
  tn_status status = list_unserved(m);
  m->in = calloc(g->num_in + 1, sizeof *m->in);
  m->out = calloc(g->num_out + 1, sizeof *m->out);
  if (!m->in || !m->out) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a model's values");
  for (uint32_t i = 0; i < g->num_in && !status; i++) {
    const char *name = g->names[g->in[i]];
    status = describe(info_find(graph->input, graph->n_input, name), name, &m->in[m->num_in++]);
  }
  for (uint32_t i = 0; i < g->num_out && !status; i++)
    status = describe(graph->output[i], graph->output[i]->name, &m->out[m->num_out++]);
  for (size_t i = 0; i < m->num_in; i++)
    if (m->in[i].unserved) m->no_tensor = &m->in[i];
  for (size_t i = 0; i < m->num_out; i++)
    if (m->out[i].unserved) m->no_tensor = &m->out[i];
  return status;
}

tn_status describe_check(const tn_onnx *m) {
  if (!m->no_tensor) return TN_OK;
  return onnx_fail(TN_ERR_UNSUPPORTED, "%s is %s", m->no_tensor->name, m->no_tensor->unserved);
}

void description_free(tn_onnx *m) {
  for (int which = 0; which < 2; which++) {
    tn_onnx_value *list = which ? m->out : m->in;
    for (size_t i = 0; i < (which ? m->num_out : m->num_in); i++) {
      free((void *)(uintptr_t)list[i].shape);
      free((void *)(uintptr_t)list[i].symbols);
    }
    free(list);
  }
  free(m->unserved);
}

size_t tn_onnx_num_inputs(const tn_onnx *m) { return m ? m->num_in : 0; }
size_t tn_onnx_num_outputs(const tn_onnx *m) { return m ? m->num_out : 0; }

/* Copies as much of a struct as the caller has room for. */
static tn_status give(void *to, const void *from, size_t size, const char *what) {
  uint32_t room;
  memcpy(&room, to, sizeof room);
  if (room < sizeof room || room > 4096)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "%s: struct_size is %u", what, room);
  memcpy((char *)to + sizeof room, (const char *)from + sizeof room,
         (room < size ? room : size) - sizeof room);
  return TN_OK;
}

tn_status tn_onnx_input_at(const tn_onnx *m, size_t index, tn_onnx_value *info) {
  if (!m || !info) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_input_at: NULL");
  if (index >= m->num_in)
    return onnx_fail(TN_ERR_NOT_FOUND, "tn_onnx_input_at: the model has %zu inputs", m->num_in);
  return give(info, &m->in[index], sizeof *info, "tn_onnx_input_at");
}

tn_status tn_onnx_output_at(const tn_onnx *m, size_t index, tn_onnx_value *info) {
  if (!m || !info) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_output_at: NULL");
  if (index >= m->num_out)
    return onnx_fail(TN_ERR_NOT_FOUND, "tn_onnx_output_at: the model has %zu outputs", m->num_out);
  return give(info, &m->out[index], sizeof *info, "tn_onnx_output_at");
}

const char *tn_onnx_metadata(const tn_onnx *m, const char *key) {
  for (size_t i = 0; m && key && i < m->proto->n_metadata; i++) {
    const Onnx__Entry *entry = m->proto->metadata[i];
    if (entry->key && !strcmp(entry->key, key)) return entry->value ? entry->value : "";
  }
  return NULL;
}

tn_status tn_onnx_metadata_at(const tn_onnx *m, size_t index, const char **key, const char **text) {
  if (!m || !key || !text) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_metadata_at: NULL");
  if (index >= m->proto->n_metadata)
    return onnx_fail(TN_ERR_NOT_FOUND, "tn_onnx_metadata_at: the model has %zu entries",
                     m->proto->n_metadata);
  const Onnx__Entry *entry = m->proto->metadata[index];
  *key = entry->key ? entry->key : "";
  *text = entry->value ? entry->value : "";
  return TN_OK;
}

tn_status tn_onnx_unserved_at(const tn_onnx *m, size_t index, tn_onnx_node *node) {
  if (!m || !node) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_unserved_at: NULL");
  if (index >= m->num_unserved)
    return onnx_fail(TN_ERR_NOT_FOUND, "tn_onnx_unserved_at: %zu nodes are not served",
                     m->num_unserved);
  const plan_node *n = m->unserved[index];
  const tn_onnx_node is = {.name = n->node->name ? n->node->name : "",
                           .op = n->node->op_type,
                           .domain = n->domain,
                           .opset = n->opset,
                           .reason = n->reason};
  return give(node, &is, sizeof is, "tn_onnx_unserved_at");
}

tn_status tn_onnx_report(tn_onnx *m, tn_onnx_info *info) {
  if (!m || !info) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_report: NULL");
  tn_onnx_info is = {.nodes = (uint32_t)m->num_nodes,
                     .producer = m->proto->producer_name ? m->proto->producer_name : "",
                     .weights = m->num_weights,
                     .weight_bytes = m->weight_bytes,
                     .joined = m->num_joined};
  for (size_t i = 0; i < m->proto->n_opset_import; i++) {
    const char *domain = m->proto->opset_import[i]->domain;
    if (!domain || !*domain || !strcmp(domain, "ai.onnx"))
      is.opset = m->proto->opset_import[i]->version;
  }
  pthread_mutex_lock(&m->lock);
  is.programs = programs_count(m);
  is.by_node = m->by_node;
  is.by_node_reason = m->by_node_reason;
  is.built = m->built;
  is.build_ns = m->build_ns;
  is.compile_ns = m->compile_ns;
  is.folded = m->folded;
  pthread_mutex_unlock(&m->lock);
  return give(info, &is, sizeof is, "tn_onnx_report");
}

/* --- operators --- */

/* What needs no adapter. */
static const char *const without_adapter[] = {"Constant", "ConstantOfShape", "If",   "Loop",
                                              "Scan",     "Shape",           "Size", NULL};

static int by_name(const void *a, const void *b) {
  const tn_onnx_operator *x = a, *y = b;
  int domains = strcmp(x->domain, y->domain), names = strcmp(x->name, y->name);
  return domains ? domains : names ? names : (x->since > y->since) - (x->since < y->since);
}

static tn_onnx_operator *operators;
static size_t num_operators;

static void operators_list(void) {
  const adapter_row *row;
  size_t room = 16;
  while (adapter_row_at(room)) room++;
  operators = calloc(room + 8, sizeof *operators);
  for (size_t i = 0; operators && (row = adapter_row_at(i)); i++)
    operators[num_operators++] =
        (tn_onnx_operator){.name = row->onnx,
                           .domain = row->domain ? row->domain : "",
                           .since = row->since ? row->since : OLDEST_OPSET,
                           .until = row->until ? row->until : NEWEST_OPSET};
  for (size_t i = 0; operators && without_adapter[i]; i++)
    operators[num_operators++] = (tn_onnx_operator){
        .name = without_adapter[i], .domain = "", .since = OLDEST_OPSET, .until = NEWEST_OPSET};
  if (operators) qsort(operators, num_operators, sizeof *operators, by_name);
}

tn_status tn_onnx_operator_at(size_t index, tn_onnx_operator *op) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!op) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_operator_at: NULL");
  pthread_once(&once, operators_list);
  if (index >= num_operators)
    return onnx_fail(TN_ERR_NOT_FOUND, "tn_onnx_operator_at: there are %zu", num_operators);
  return give(op, &operators[index], sizeof *op, "tn_onnx_operator_at");
}
