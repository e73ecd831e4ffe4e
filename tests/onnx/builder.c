/* See builder.h. */
#include "builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void **kept;
static size_t num_kept;

/* The list doubles where its count is a power of 2. */
static void *keep(void *memory) {
  if ((num_kept & (num_kept - 1)) == 0)
    kept = realloc(kept, (num_kept ? 2 * num_kept : 1) * sizeof *kept);
  return kept[num_kept++] = memory;
}

static void *room(size_t bytes) { return keep(calloc(1, bytes + 1)); }

char *builder_text(const char *s) { return keep(strdup(s)); }

void builder_end(void) {
  for (size_t i = 0; i < num_kept; i++) free(kept[i]);
  free(kept);
  kept = NULL;
  num_kept = 0;
}

/* A list with one place more, whose last is new. */
static void *grow(void *list, size_t count, void *item) {
  void **more = room((count + 1) * sizeof *more);
  if (count) memcpy(more, list, count * sizeof *more);
  more[count] = item;
  return more;
}

static size_t names(const char *all, char ***list) {
  size_t count = 0;
  char *rest = builder_text(all), *name;
  *list = NULL;
  if (!*all) return 0;
  while ((name = strsep(&rest, ","))) *list = grow(*list, count++, name);
  return count;
}

#define NEW(type, init) memcpy(room(sizeof(type)), &(type)init, sizeof(type))

Onnx__Graph *graph_new(const char *name) {
  Onnx__Graph *g = NEW(Onnx__Graph, ONNX__GRAPH__INIT);
  g->name = builder_text(name);
  return g;
}

void model_opset(Onnx__Model *m, const char *domain, int64_t version) {
  Onnx__OperatorSet *set = NEW(Onnx__OperatorSet, ONNX__OPERATOR_SET__INIT);
  set->domain = builder_text(domain);
  set->has_version = true;
  set->version = version;
  m->opset_import = grow(m->opset_import, m->n_opset_import++, set);
}

Onnx__Model *model_new(Onnx__Graph *graph) {
  Onnx__Model *m = NEW(Onnx__Model, ONNX__MODEL__INIT);
  m->graph = graph;
  m->has_ir_version = true;
  m->ir_version = 8;
  model_opset(m, "", 13);
  return m;
}

static Onnx__Node *node_new(const char *op, const char *inputs, const char *outputs) {
  Onnx__Node *n = NEW(Onnx__Node, ONNX__NODE__INIT);
  n->op_type = builder_text(op);
  n->n_input = names(inputs, &n->input);
  n->n_output = names(outputs, &n->output);
  return n;
}

Onnx__Node *node_add(Onnx__Graph *g, const char *op, const char *inputs, const char *outputs) {
  Onnx__Node *n = node_new(op, inputs, outputs);
  g->node = grow(g->node, g->n_node++, n);
  return n;
}

Onnx__Attribute *attribute_add(Onnx__Node *n, const char *name) {
  Onnx__Attribute *a = NEW(Onnx__Attribute, ONNX__ATTRIBUTE__INIT);
  a->name = builder_text(name);
  n->attribute = grow(n->attribute, n->n_attribute++, a);
  return a;
}

void attribute_int(Onnx__Node *n, const char *name, int64_t number) {
  Onnx__Attribute *a = attribute_add(n, name);
  a->has_i = true;
  a->i = number;
}

void attribute_ints(Onnx__Node *n, const char *name, int count, const int64_t *numbers) {
  Onnx__Attribute *a = attribute_add(n, name);
  a->n_ints = (size_t)count;
  a->ints = room((size_t)count * sizeof *numbers);
  memcpy(a->ints, numbers, (size_t)count * sizeof *numbers);
}

void attribute_graph(Onnx__Node *n, const char *name, Onnx__Graph *graph) {
  attribute_add(n, name)->g = graph;
}

static Onnx__ValueInfo *info_new(const char *name, int32_t type, int rank, const int64_t *shape) {
  Onnx__ValueInfo *v = NEW(Onnx__ValueInfo, ONNX__VALUE_INFO__INIT);
  Onnx__Type *t = v->type = NEW(Onnx__Type, ONNX__TYPE__INIT);
  Onnx__TensorType *tensor = t->tensor_type = NEW(Onnx__TensorType, ONNX__TENSOR_TYPE__INIT);
  v->name = builder_text(name);
  tensor->has_elem_type = true;
  tensor->elem_type = type;
  if (rank < 0) return v;
  tensor->shape = NEW(Onnx__Shape, ONNX__SHAPE__INIT);
  for (int i = 0; i < rank; i++) {
    Onnx__Dimension *d = NEW(Onnx__Dimension, ONNX__DIMENSION__INIT);
    d->has_dim_value = shape[i] != 0;
    d->dim_value = shape[i];
    if (!shape[i]) d->dim_param = builder_text("n");
    tensor->shape->dim = grow(tensor->shape->dim, tensor->shape->n_dim++, d);
  }
  return v;
}

void input_add(Onnx__Graph *g, const char *name, int32_t type, int rank, const int64_t *shape) {
  g->input = grow(g->input, g->n_input++, info_new(name, type, rank, shape));
}

void output_add(Onnx__Graph *g, const char *name, int32_t type, int rank, const int64_t *shape) {
  g->output = grow(g->output, g->n_output++, info_new(name, type, rank, shape));
}

Onnx__Tensor *weight_add(Onnx__Graph *g, const char *name, int32_t type, int rank,
                         const int64_t *shape, const void *data, size_t bytes) {
  Onnx__Tensor *t = NEW(Onnx__Tensor, ONNX__TENSOR__INIT);
  t->name = builder_text(name);
  t->has_data_type = true;
  t->data_type = type;
  t->n_dims = (size_t)rank;
  t->dims = room((size_t)rank * sizeof *shape);
  if (rank) memcpy(t->dims, shape, (size_t)rank * sizeof *shape);
  t->has_raw_data = data != NULL;
  t->raw_data = (ProtobufCBinaryData){bytes, room(bytes)};
  if (data) memcpy(t->raw_data.data, data, bytes);
  g->initializer = grow(g->initializer, g->n_initializer++, t);
  return t;
}

void external_add(Onnx__Tensor *t, const char *key, const char *value) {
  Onnx__Entry *e = NEW(Onnx__Entry, ONNX__ENTRY__INIT);
  e->key = builder_text(key);
  e->value = builder_text(value);
  t->has_raw_data = false;
  t->has_data_location = true;
  t->data_location = 1;
  t->external_data = grow(t->external_data, t->n_external_data++, e);
}

Onnx__Function *function_add(Onnx__Model *m, const char *name, const char *inputs,
                             const char *outputs) {
  Onnx__Function *f = NEW(Onnx__Function, ONNX__FUNCTION__INIT);
  f->name = builder_text(name);
  f->domain = builder_text("test");
  f->n_input = names(inputs, &f->input);
  f->n_output = names(outputs, &f->output);
  f->opset_import = m->opset_import;
  f->n_opset_import = m->n_opset_import;
  m->functions = grow(m->functions, m->n_functions++, f);
  return f;
}

Onnx__Node *function_node(Onnx__Function *f, const char *op, const char *inputs,
                          const char *outputs) {
  Onnx__Node *n = node_new(op, inputs, outputs);
  f->node = grow(f->node, f->n_node++, n);
  return n;
}

/* Where TENON_ONNX_SEEDS names a folder, every model becomes a file there, for the fuzzer to begin
 * with. */
static void seed_write(const uint8_t *data, size_t bytes) {
  static int count;
  const char *folder = getenv("TENON_ONNX_SEEDS");
  char path[512];
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%d-%d.onnx", folder, (int)getpid(), count++);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f)) abort();
}

uint8_t *model_bytes(const Onnx__Model *m, size_t *bytes) {
  *bytes = onnx__model__get_packed_size(m);
  uint8_t *data = room(*bytes);
  onnx__model__pack(m, data);
  seed_write(data, *bytes);
  return data;
}
