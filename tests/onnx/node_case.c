/* Attributes, values and calls; see node_case.h. */
#include "node_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_status node_skip(node_case *c, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(c->skip, sizeof c->skip, format, list);
  va_end(list);
  return TN_OK;
}

static const Onnx__Attribute *find(const node_case *c, const char *name) {
  for (size_t i = 0; i < c->node->n_attribute; i++)
    if (!strcmp(c->node->attribute[i]->name, name)) return c->node->attribute[i];
  return NULL;
}

int64_t node_int(const node_case *c, const char *name, int64_t otherwise) {
  const Onnx__Attribute *a = find(c, name);
  return a ? a->i : otherwise;
}

double node_float(const node_case *c, const char *name, double otherwise) {
  const Onnx__Attribute *a = find(c, name);
  return a ? (double)a->f : otherwise;
}

bool node_has(const node_case *c, const char *name) { return find(c, name) != NULL; }

bool node_word(const node_case *c, const char *name, const char *value) {
  const Onnx__Attribute *a = find(c, name);
  return a && a->s.len == strlen(value) && !memcmp(a->s.data, value, a->s.len);
}

int node_ints(const node_case *c, const char *name, const int64_t **list) {
  const Onnx__Attribute *a = find(c, name);
  *list = a ? a->ints : NULL;
  return a ? (int)a->n_ints : 0;
}

double node_number(const node_case *c, int in, int64_t i) {
  const host_tensor *t = &c->in[in];
  switch (t->dtype) {
  case TN_F32:
    return (double)((const float *)t->data)[i];
  case TN_F64:
    return ((const double *)t->data)[i];
  default:
    return (double)node_value(c, in, i);
  }
}

int64_t node_value(const node_case *c, int in, int64_t i) {
  const host_tensor *t = &c->in[in];
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
    return (int64_t)node_number(c, in, i);
  }
}

op_call call_begin(node_case *c, const char *op) {
  op_call k = {.c = c};
  for (size_t i = 0; i < tn_op_count(c->runtime); i++)
    if (!strcmp(tn_op_at(c->runtime, i)->name, op)) k.op = tn_op_at(c->runtime, i);
  if (!k.op) {
    node_skip(c, "no operator %s", op);
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

void call_in(op_call *k, const tn_tensor *x) { k->in[k->num_in++] = x; }

void call_update(op_call *k, tn_tensor *x) { k->inout[k->num_inout++] = x; }

void call_set(op_call *k, const char *attr, int index, double value) {
  const tn_attr *a = NULL;
  if (!k->op) return;
  for (uint32_t i = 0; i < k->op->num_attrs; i++)
    if (!strcmp(k->op->attrs[i].name, attr)) a = &k->op->attrs[i];
  if (!a) {
    fprintf(stderr, "operator %s has no attribute %s\n", k->op->name, attr);
    exit(1);
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
  if (!k->op) return TN_OK;
  tn_tensor *out[NODE_TENSORS] = {0};
  uint32_t declared = 0;
  tn_call call = {.struct_size = sizeof call, .op = k->op->id, .in = k->in, .out = out};
  for (uint32_t i = 0; i < k->op->num_args; i++)
    declared += k->op->args[i].kind == TN_ARG_OUT || k->op->args[i].kind == TN_ARG_OPTIONAL_OUT;
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
