/* What tests of single nodes share: a node, its attributes and tensors, and what comes of it. */
#ifndef TENON_TESTS_ONNX_TRIAL_H
#define TENON_TESTS_ONNX_TRIAL_H

#include <stdlib.h>
#include <string.h>

#include "tests/support.h"
#include "tools/onnx/node.h"

static tn_runtime *runtime;
static tn_device *device;

static inline void set_up(void) {
  runtime = open_runtime(NULL);
  ok(tn_device_find(runtime, "reference", &device));
}

static inline void tear_down(void) { tn_runtime_close(runtime); }

/* A node of up to 4 attributes and the tensors that tests gave it. */
typedef struct trial {
  Onnx__Node node;
  Onnx__Attribute attribute[4], *attributes[4];
  char *in[20], *out[20];
  onnx_node at;
} trial;

static inline void trial_begin(trial *t, const char *type, size_t inputs, size_t outputs) {
  static char tensor[] = "t";
  memset(t, 0, sizeof *t);
  onnx__node__init(&t->node);
  for (int i = 0; i < 20; i++) t->in[i] = t->out[i] = tensor;
  t->node.op_type = strdup(type);
  t->node.input = t->in;
  t->node.output = t->out;
  t->node.attribute = t->attributes;
  t->node.n_input = inputs;
  t->node.n_output = outputs;
  node_begin(&t->at, &t->node, runtime, device);
}

static inline Onnx__Attribute *attribute(trial *t, const char *name) {
  Onnx__Attribute *a = &t->attribute[t->node.n_attribute];
  onnx__attribute__init(a);
  a->name = strdup(name);
  t->attributes[t->node.n_attribute++] = a;
  return a;
}

static inline void word(trial *t, const char *name, const char *value) {
  attribute(t, name)->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)(uintptr_t)value};
}

static inline void ints(trial *t, const char *name, size_t count, int64_t *list) {
  Onnx__Attribute *a = attribute(t, name);
  a->n_ints = count;
  a->ints = list;
}

static inline void input(trial *t, int i, tn_dtype dtype, int32_t rank, const int64_t *shape,
                         void *data) {
  onnx_tensor *in = &t->at.in[i];
  *in = (onnx_tensor){.present = true, .dtype = dtype, .rank = rank, .elements = 1, .data = data};
  for (int32_t k = 0; k < rank; k++) in->elements *= in->shape[k] = shape[k];
  ck_assert_int_eq(tn_tensor_from_host(device, dtype, rank, shape, data, &t->at.x[i]), TN_OK);
}

static inline void trial_end(trial *t) {
  for (size_t i = 0; i < t->node.n_attribute; i++) free(t->attribute[i].name);
  for (int i = 0; i < NODE_TENSORS; i++) {
    tn_tensor_release(t->at.x[i]);
    tn_tensor_release(t->at.y[i]);
  }
  free(t->node.op_type);
}

/* The node cannot be expressed, and the reason has these words. */
static inline void refuses(trial *t, const char *words) {
  ck_assert_int_eq(node_run(&t->at), TN_OK);
  ck_assert_msg(strstr(t->at.cannot, words), "'%s' lacks '%s'", t->at.cannot, words);
  trial_end(t);
}

/* Output 0, as `count` floats, once the node has run. */
static inline void gives(trial *t, int count, float *y) {
  ck_assert_int_eq(node_run(&t->at), TN_OK);
  ck_assert_str_eq(t->at.cannot, "");
  ck_assert_int_eq(tn_tensor_to_host(t->at.y[0], y, (size_t)count * sizeof *y), TN_OK);
}

#endif
