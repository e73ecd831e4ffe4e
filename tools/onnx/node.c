/* Attributes, values and calls of a node; see node.h. */
#include "node.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_status node_cannot(onnx_node *c, const char *format, ...) {
  va_list list;
  if (*c->cannot) return TN_OK;
  va_start(list, format);
  vsnprintf(c->cannot, sizeof c->cannot, format, list);
  va_end(list);
  return TN_OK;
}

tn_status node_wants_run(onnx_node *c, const char *format, ...) {
  va_list list;
  if (*c->cannot) return TN_OK;
  va_start(list, format);
  vsnprintf(c->cannot, sizeof c->cannot, format, list);
  va_end(list);
  c->wants_run = true;
  return TN_OK;
}

/* Most of a node's room is never looked at: zeroing it would take longer than all else. */
void node_begin(onnx_node *c, const Onnx__Node *node, tn_runtime *runtime, tn_device *device) {
  enum { ADAPTERS = 16 }; /* inputs and outputs that adapters look at without asking */
  bool fits = node->n_input <= NODE_TENSORS && node->n_output <= NODE_TENSORS;
  size_t count = node->n_input > node->n_output ? node->n_input : node->n_output;
  count = !fits ? NODE_TENSORS : count > ADAPTERS ? count : ADAPTERS;
  memset(c, 0, offsetof(onnx_node, in));
  memset(&c->cannot, 0, sizeof *c - offsetof(onnx_node, cannot));
  memset(c->in, 0, count * sizeof *c->in);
  memset(c->x, 0, count * sizeof(tn_tensor *));
  memset(c->y, 0, count * sizeof(tn_tensor *));
  c->node = node, c->runtime = runtime, c->device = device, c->opset = 21;
  if (!fits) {
    node_cannot(c, "a node of more than %d inputs or outputs", NODE_TENSORS);
    return;
  }
  if (!node->n_output) node_cannot(c, "a node without outputs");
  c->num_in = (int)node->n_input;
  c->num_out = (int)node->n_output;
}

void node_end(onnx_node *c) {
  for (int i = 0; i < c->num_kept; i++) tn_tensor_release(c->kept[i]);
  free(c->kept);
  c->kept = NULL;
  c->num_kept = c->room_kept = 0;
}

tn_status node_run(onnx_node *c) {
  const char *op = NULL, *type = c->node->op_type ? c->node->op_type : "?";
  onnx_adapter adapter = onnx_adapter_find(c->node->domain, type, c->opset, &op);
  if (!adapter) return node_cannot(c, "ONNX operator %s has no adapter", type);
  for (int i = 0; i < c->num_in; i++) {
    if (c->in[i].lacks)
      return node_cannot(c, "tensor %s, whose numbers are not those of %s", c->node->input[i],
                         c->in[i].lacks);
    if (c->in[i].present && (!c->in[i].dtype || c->in[i].rank > TN_MAX_RANK))
      return node_cannot(c, "a tensor of a type or rank that Tenon lacks");
  }
  bool needs_none = !strcmp(type, "RandomNormal") || !strcmp(type, "RandomUniform");
  if (*c->cannot || (!needs_none && !node_needs(c, 0))) return TN_OK;
  return adapter(c, op);
}

bool node_wants(const onnx_node *c, int i) { return i < c->num_out && *c->node->output[i]; }

static const Onnx__Attribute *attribute_of(Onnx__Attribute *const *list, size_t n,
                                           const char *name) {
  for (size_t i = 0; i < n; i++)
    if (list[i]->name && !strcmp(list[i]->name, name)) return list[i];
  return NULL;
}

const Onnx__Attribute *node_attribute(const onnx_node *c, const char *name) {
  const Onnx__Attribute *a = attribute_of(c->node->attribute, c->node->n_attribute, name);
  for (const node_scope *s = c->scope; a && a->ref_attr_name && *a->ref_attr_name && s;
       s = s->outer) {
    const char *outer = a->ref_attr_name;
    a = attribute_of(s->call->attribute, s->call->n_attribute, outer);
    if (!a)
      return attribute_of(s->function->attribute_proto, s->function->n_attribute_proto, outer);
  }
  return a && a->ref_attr_name && *a->ref_attr_name ? NULL : a;
}

int64_t node_int(const onnx_node *c, const char *name, int64_t otherwise) {
  const Onnx__Attribute *a = node_attribute(c, name);
  return a ? a->i : otherwise;
}

double node_float(const onnx_node *c, const char *name, double otherwise) {
  const Onnx__Attribute *a = node_attribute(c, name);
  return a ? (double)a->f : otherwise;
}

bool node_has(const onnx_node *c, const char *name) { return node_attribute(c, name) != NULL; }

bool node_word(const onnx_node *c, const char *name, const char *value) {
  const Onnx__Attribute *a = node_attribute(c, name);
  return a && a->s.len == strlen(value) && !memcmp(a->s.data, value, a->s.len);
}

int node_ints(const onnx_node *c, const char *name, const int64_t **list) {
  const Onnx__Attribute *a = node_attribute(c, name);
  *list = a ? a->ints : NULL;
  return a ? (int)a->n_ints : 0;
}

int node_floats(const onnx_node *c, const char *name, const float **list) {
  const Onnx__Attribute *a = node_attribute(c, name);
  *list = a ? a->floats : NULL;
  return a ? (int)a->n_floats : 0;
}

int node_words(const onnx_node *c, const char *name, const ProtobufCBinaryData **list) {
  const Onnx__Attribute *a = node_attribute(c, name);
  *list = a ? a->strings : NULL;
  return a ? (int)a->n_strings : 0;
}

int32_t node_axis(onnx_node *c, int64_t axis, int32_t rank) {
  int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front >= 0 && from_front < rank) return (int32_t)from_front;
  node_cannot(c, "axis %lld of a tensor of %d", (long long)axis, rank);
  return 0;
}

bool node_given(const onnx_node *c, int in) { return in < c->num_in && c->in[in].present; }

bool node_known(const onnx_node *c, int in) { return node_given(c, in) && c->in[in].data; }

bool node_needs(onnx_node *c, int in) {
  if (in < c->num_in && c->in[in].present) return true;
  return node_cannot(c, "%s without input %d", c->node->op_type, in), false;
}

/* Whether an element's number is known here. */
static bool is_known(onnx_node *c, int in, int64_t i) {
  const onnx_tensor *t = &c->in[in];
  bool there = node_given(c, in) && i >= 0 && i < t->elements;
  if (there && t->data) return true;
  if (there && c->fetch && !*c->cannot) {
    if (node_check(c, c->fetch(c, in)) && t->data) return true;
    return false;
  }
  if (there)
    node_wants_run(c, "numbers of input %d that are not there beforehand", in);
  else
    node_cannot(c, "numbers of input %d that are not there", in);
  return false;
}

double node_number(onnx_node *c, int in, int64_t i) {
  if (!is_known(c, in, i)) return 0;
  const onnx_tensor *t = &c->in[in];
  return TN_SET(t->dtype) & TN_SET_FLOAT ? onnx_tensor_number(t, i) : (double)node_value(c, in, i);
}

int64_t node_value(onnx_node *c, int in, int64_t i) {
  const onnx_tensor *t = &c->in[in];
  if (!is_known(c, in, i)) return 0;
  switch (t->dtype) {
  case TN_I64:
    return ((const int64_t *)t->data)[i];
  case TN_I32:
    return ((const int32_t *)t->data)[i];
  case TN_I16:
    return ((const int16_t *)t->data)[i];
  case TN_I8:
    return ((const int8_t *)t->data)[i];
  case TN_U8:
  case TN_BOOL:
    return ((const uint8_t *)t->data)[i];
  default:
    node_cannot(c, "integers of input %d, whose type is %s", in, tn_dtype_name(t->dtype));
    return 0;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const tn_operator *const *)a)->name, (*(const tn_operator *const *)b)->name);
}

bool op_table_make(tn_runtime *runtime, op_table *table) {
  size_t count = tn_op_count(runtime);
  *table = (op_table){0, calloc(count + 1, sizeof(tn_operator *))};
  if (!table->of) return false;
  for (size_t i = 0; i < count; i++) {
    const tn_operator *op = tn_op_at(runtime, i);
    if (op) table->of[table->count++] = op;
  }
  qsort(table->of, table->count, sizeof *table->of, by_name);
  return true;
}

static const tn_operator *op_find(const onnx_node *c, const char *name) {
  const tn_operator key = {.name = name}, *wanted = &key;
  if (c->ops) {
    const tn_operator *const *found =
        bsearch(&wanted, c->ops->of, c->ops->count, sizeof *c->ops->of, by_name);
    return found ? *found : NULL;
  }
  for (size_t i = 0, n = tn_op_count(c->runtime); i < n; i++) {
    const tn_operator *op = tn_op_at(c->runtime, i);
    if (op && !strcmp(op->name, name)) return op;
  }
  return NULL;
}

op_call call_begin(onnx_node *c, const char *op) {
  op_call k;
  k.c = c;
  k.op = op_find(c, op);
  k.num_in = k.num_inout = 0;
  k.status = TN_OK;
  memset(k.attrs, 0, sizeof k.attrs);
  if (!k.op) {
    node_cannot(c, "no operator %s", op);
    return k;
  }
  memcpy(k.attrs, &k.op->attrs_size, sizeof k.op->attrs_size);
  for (uint32_t i = 0; i < k.op->num_attrs; i++) {
    const tn_attr *a = &k.op->attrs[i];
    bool list = a->type == TN_ATTR_AXES || a->type == TN_ATTR_DIMS;
    for (int n = 0; n < 3 && !list; n++) call_set(&k, a->name, n, a->default_value);
  }
  return k;
}

void call_in(op_call *k, const tn_tensor *x) {
  if (k->num_in < NODE_TENSORS) k->in[k->num_in++] = x;
}

void call_update(op_call *k, tn_tensor *x) { k->inout[k->num_inout++] = x; }

void call_set(op_call *k, const char *attr, int index, double value) {
  const tn_attr *a = NULL;
  if (!k->op) return;
  for (uint32_t i = 0; i < k->op->num_attrs; i++)
    if (!strcmp(k->op->attrs[i].name, attr)) a = &k->op->attrs[i];
  if (!a) {
    node_cannot(k->c, "operator %s has no attribute %s", k->op->name, attr);
    k->status = TN_ERR_INTERNAL;
    return;
  }
  if (index >= TN_MAX_RANK) {
    node_cannot(k->c, "%s of more than %d axes", attr, TN_MAX_RANK);
    return;
  }
  unsigned char *at = k->attrs + a->offset;
  int64_t whole = a->type == TN_ATTR_F64 ? 0 : (int64_t)value;
  switch (a->type) {
  case TN_ATTR_F64:
    *(double *)(void *)at = value;
    break;
  case TN_ATTR_I64:
  case TN_ATTR_U64:
    *(int64_t *)(void *)at = whole;
    break;
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    if (index < (a->type == TN_ATTR_PAIR ? 2 : 3)) ((int64_t *)(void *)at)[index] = whole;
    break;
  case TN_ATTR_AXES: {
    tn_axes *axes = (void *)at;
    axes->axis[index] = (int32_t)whole;
    axes->count = index + 1;
    break;
  }
  case TN_ATTR_DIMS: {
    tn_dims *dims = (void *)at;
    dims->dim[index] = whole;
    dims->count = index + 1;
    break;
  }
  default:
    *(int32_t *)(void *)at = (int32_t)whole;
  }
}

tn_status call_run(op_call *k, tn_tensor **y, int num_out) {
  if (k->status != TN_OK || *k->c->cannot) return k->status;
  tn_tensor *out[32] = {0};
  uint32_t declared = 0;
  if (k->c->symbolic && (k->op->flags & TN_OPERATOR_DATA_DEPENDENT))
    return node_wants_run(k->c, "a shape that depends on the numbers of a run");
  tn_call call = {
      .struct_size = sizeof call, .op = k->op->id, .stream = k->c->stream, .in = k->in, .out = out};
  for (uint32_t i = 0; i < k->op->num_args; i++) {
    bool optional = k->op->args[i].kind == TN_ARG_OPTIONAL_OUT;
    if (optional && (int)declared >= num_out) call.skip_out |= 1u << declared;
    declared += optional || k->op->args[i].kind == TN_ARG_OUT;
  }
  for (int i = 0; i < k->num_inout; i++) out[i] = k->inout[i];
  call.num_in = (uint16_t)k->num_in;
  call.num_out = (uint16_t)(declared + (uint32_t)k->num_inout);
  call.attrs = k->op->num_attrs ? k->attrs : NULL;
  tn_status status = tn_invoke(&call);
  for (uint32_t i = 0; i < declared && status == TN_OK; i++)
    if ((int)i < num_out)
      y[i] = out[i + (uint32_t)k->num_inout];
    else
      tn_tensor_release(out[i + (uint32_t)k->num_inout]);
  return status;
}
