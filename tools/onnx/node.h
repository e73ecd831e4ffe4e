/*
 * One node of an ONNX model, expressed by calls of Tenon's operators: what a front end and
 * the tests of ONNX's own cases (tests/onnx) share. Nothing here reads files or knows graphs.
 */
#ifndef TENON_TOOLS_ONNX_NODE_H
#define TENON_TOOLS_ONNX_NODE_H

#include "model.pb-c.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

/* ------------------------------------------------------------ tensor.c --- */

/* A tensor in host memory, row-major. */
typedef struct onnx_tensor {
  bool present;
  tn_dtype
      dtype; /* TN_DTYPE_NONE: a type that Tenon does not have, or numbers that are not whole */
  int32_t rank;
  int64_t shape[16];
  int64_t elements;
  void *data; /* NULL where only the device has the numbers */
  /* NULL, or the field of TensorProto that alone should hold the numbers and does not; dtype is
   * TN_DTYPE_NONE then. */
  const char *lacks;
} onnx_tensor;

/* The type that a number of TensorProto.DataType stands for, TN_DTYPE_NONE if none. */
tn_dtype onnx_dtype(int32_t onnx);

/* Takes a tensor's numbers over; `to->data` is the caller's to free. They must lie in raw_data or
 * the list of their type, as many as the tensor has elements, and in no other field. */
void onnx_tensor_take(const Onnx__Tensor *t, onnx_tensor *to);

/* -------------------------------------------------------------- node.c --- */

/* Most inputs or outputs of a node. */
enum { NODE_TENSORS = 12 };

typedef struct onnx_node {
  const Onnx__Node *node;
  tn_runtime *runtime;
  tn_device *device;
  int num_in, num_out;
  onnx_tensor in[NODE_TENSORS]; /* absent ones are all zeros */
  tn_tensor *x[NODE_TENSORS];   /* the same on the device, NULL where absent; never written */
  /* What the adapter made, which may be views of inputs; the caller releases them. */
  tn_tensor *y[NODE_TENSORS];
  char cannot[160]; /* why Tenon cannot express the node, or empty */
} onnx_node;

/* Makes *c a node without tensors; c->cannot says so if it has more than fit, or no outputs. */
void node_begin(onnx_node *c, const Onnx__Node *node, tn_runtime *runtime, tn_device *device);

/* Calls the operators that the node stands for; returns the status of the last call. Where they
 * cannot express it, returns TN_OK with c->cannot set. */
tn_status node_run(onnx_node *c);

/* What adapters are made of. Sets c->cannot, unless a reason is there already; returns TN_OK. */
tn_status node_cannot(onnx_node *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Attributes of the node, or what they are by default. */
int64_t node_int(const onnx_node *c, const char *name, int64_t otherwise);
double node_float(const onnx_node *c, const char *name, double otherwise);
bool node_has(const onnx_node *c, const char *name);
bool node_word(const onnx_node *c, const char *name, const char *value);
/* Number of integers of a list, 0 where it is missing; *list borrowed. */
int node_ints(const onnx_node *c, const char *name, const int64_t **list);
/* Whether input `in` is there; where it is not, sets c->cannot. node_run has asked for input 0. */
bool node_needs(onnx_node *c, int in);
/* Element i of input `in` as an integer or a number. An element that is not there, or not known
 * in host memory, or a float where an integer is asked for, is 0 and sets c->cannot. */
int64_t node_value(onnx_node *c, int in, int64_t i);
double node_number(onnx_node *c, int in, int64_t i);
/* Whether somebody wants output i. */
bool node_wants(const onnx_node *c, int i);

/* A call of one of Tenon's operators, by name. */
typedef struct op_call {
  onnx_node *c;
  const tn_operator *op; /* NULL: there is none, and the node cannot be expressed */
  const tn_tensor *in[NODE_TENSORS];
  int num_in;
  tn_tensor *inout[NODE_TENSORS]; /* updated in place */
  int num_inout;
  tn_status status; /* not TN_OK: an adapter has gone wrong */
  _Alignas(16) unsigned char attrs[512];
} op_call;

op_call call_begin(onnx_node *c, const char *op);
/* Appends an input, which may be NULL. */
void call_in(op_call *k, const tn_tensor *x);
/* Appends a tensor that the call updates. */
void call_update(op_call *k, tn_tensor *x);
/* Sets number `index` of an attribute. A name that the operator lacks makes call_run fail. */
void call_set(op_call *k, const char *attr, int index, double value);
/* Calls, unless c->cannot is set. The operator's first outputs go to y[0..num_out-1]. */
tn_status call_run(op_call *k, tn_tensor **y, int num_out);

/* ---------------------------------------------------------- adapters.c --- */

/* How an ONNX operator is expressed; returns the status of the last call. `op` is the
 * text beside it in the table. An adapter that cannot express the node sets c->cannot. */
typedef tn_status (*onnx_adapter)(onnx_node *c, const char *op);

/* The adapter of an ONNX operator, NULL if there is none. */
onnx_adapter onnx_adapter_find(const char *op_type, const char **op);

#endif
