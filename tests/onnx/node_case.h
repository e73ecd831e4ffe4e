/*
 * One ONNX operator test at work: its node, its tensors, and calls of Tenon's operators
 * by name. ONNX's node tests are folders of a model with (mostly) one node, inputs and
 * the outputs expected.
 */
#ifndef TENON_TESTS_NODE_CASE_H
#define TENON_TESTS_NODE_CASE_H

#include "model.pb-c.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

enum { NODE_TENSORS = 12 };

/* A tensor in host memory, row-major. */
typedef struct host_tensor {
  bool present;
  tn_dtype dtype; /* TN_DTYPE_NONE: a type that Tenon does not have */
  int32_t rank;
  int64_t shape[16];
  int64_t elements;
  void *data;
} host_tensor;

typedef struct node_case {
  const Onnx__Node *node;
  tn_runtime *runtime;
  tn_device *device;
  int num_in, num_out;
  host_tensor in[NODE_TENSORS], want[NODE_TENSORS];
  tn_tensor *x[NODE_TENSORS]; /* the inputs on the device, NULL where absent */
  tn_tensor *y[NODE_TENSORS]; /* what the adapter made */
  char skip[160];             /* why the case says nothing about Tenon, or empty */
} node_case;

/* How an ONNX operator is expressed; returns the status of the last call. `op` is the
 * text beside it in the table. An adapter that cannot express the case sets c->skip. */
typedef tn_status (*node_adapter)(node_case *c, const char *op);

/* The adapter of an ONNX operator, NULL if there is none. */
node_adapter node_adapter_find(const char *op_type, const char **op);

/* Sets c->skip; returns TN_OK. */
tn_status node_skip(node_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Attributes of the node, or what they are by default. */
int64_t node_int(const node_case *c, const char *name, int64_t otherwise);
double node_float(const node_case *c, const char *name, double otherwise);
bool node_has(const node_case *c, const char *name);
bool node_word(const node_case *c, const char *name, const char *value);
/* Number of integers of a list, 0 where it is missing; *list borrowed. */
int node_ints(const node_case *c, const char *name, const int64_t **list);
/* Element i of input `in` as an integer or a number. */
int64_t node_value(const node_case *c, int in, int64_t i);
double node_number(const node_case *c, int in, int64_t i);

/* A call of one of Tenon's operators, by name. */
typedef struct op_call {
  node_case *c;
  const tn_operator *op; /* NULL: there is none; the case is skipped */
  const tn_tensor *in[NODE_TENSORS];
  int num_in;
  tn_tensor *inout[NODE_TENSORS]; /* updated in place */
  int num_inout;
  _Alignas(16) unsigned char attrs[512];
} op_call;

op_call call_begin(node_case *c, const char *op);
/* Appends an input, which may be NULL. */
void call_in(op_call *k, const tn_tensor *x);
/* Appends a tensor that the call updates. */
void call_update(op_call *k, tn_tensor *x);
/* Sets number `index` of an attribute; a name that the operator lacks fails the case. */
void call_set(op_call *k, const char *attr, int index, double value);
/* Calls. The operator's first outputs go to y[0..num_out-1]. */
tn_status call_run(op_call *k, tn_tensor **y, int num_out);

#endif
