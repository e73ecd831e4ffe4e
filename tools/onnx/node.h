/*
 * One node of an ONNX model, expressed by calls of Tenon's operators: what adapters are written
 * with. Nothing here reads files or knows graphs.
 *
 * An adapter is a function that reads the node's inputs and attributes, makes calls and leaves the
 * node's outputs in c->y. The same function serves three modes, and need not know which: on tensors
 * of a host device (constants that are folded while a model is built), on symbolic tensors of a
 * graph (calls become nodes) and on real tensors (models that cannot be a graph run node by node).
 * So shapes and types, c->in[i], are known always; numbers, by node_value and node_number, where
 * constants and shapes say them. Where they do not, those functions set c->cannot and c->wants_run,
 * and the model runs node by node, where they are read from the device.
 */
#ifndef TENON_TOOLS_ONNX_NODE_H
#define TENON_TOOLS_ONNX_NODE_H

#include "model.pb-c.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

/* ------------------------------------------------------------ tensor.c --- */

/* A tensor's type and shape, and its numbers where they are in host memory, row-major. */
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
/* The number for a type. */
int32_t onnx_dtype_number(tn_dtype dtype);

/* Takes a tensor's numbers over; `to->data` is the caller's to free. They must lie in raw_data or
 * the list of their type, as many as the tensor has elements, and in no other field. */
void onnx_tensor_take(const Onnx__Tensor *t, onnx_tensor *to);

/* Element i of a tensor of floats whose numbers the host has; put rounds to the nearest. */
double onnx_tensor_number(const onnx_tensor *t, int64_t i);
void onnx_tensor_put(const onnx_tensor *t, int64_t i, double number);

/* -------------------------------------------------------------- node.c --- */

/* Most inputs or outputs of a node. */
enum { NODE_TENSORS = 256 };

/* Attributes of the function that a node stands in: the node that calls it has them, or the
 * function says what they are by default; and that node may stand in a function itself. */
typedef struct node_scope {
  const Onnx__Node *call;
  const Onnx__Function *function;
  const struct node_scope *outer;
} node_scope;

/* A runtime's operators by name, in order. */
typedef struct op_table {
  size_t count;
  const tn_operator **of;
} op_table;

/* Those that there are now; false where there is no memory. */
bool op_table_make(tn_runtime *runtime, op_table *table);

typedef struct onnx_node {
  const Onnx__Node *node;
  tn_runtime *runtime;
  tn_device *device; /* of x and y */
  tn_stream *stream; /* that calls are made on, NULL being the default one */
  int64_t opset;     /* version of the node's domain */
  const node_scope *scope;
  const op_table *ops; /* NULL: call_begin asks the runtime, which takes longer */
  int num_in, num_out;
  onnx_tensor in[NODE_TENSORS]; /* absent ones are all zeros */
  tn_tensor *x[NODE_TENSORS];   /* the same on the device, NULL where absent; never written */
  /* What the adapter made, which may be views of inputs; the caller releases them. */
  tn_tensor *y[NODE_TENSORS];
  char cannot[200]; /* why Tenon cannot express the node, or empty */
  bool wants_run;   /* that is only because numbers are not known before the run */
  bool symbolic;    /* x are a graph's, so that results whose shape depends on data are refused */
  /* Reads the numbers of input `in` to in[in].data; NULL where it cannot be done. */
  tn_status (*fetch)(struct onnx_node *c, int in);
  void *context;    /* fetch's */
  tn_status status; /* of the first call by node_do and its like that failed */
  tn_tensor **kept; /* what those made, released by node_end */
  int num_kept, room_kept;
} onnx_node;

/* Makes *c a node without tensors, of the newest opset; c->cannot says so if it has more than fit,
 * or no outputs. */
void node_begin(onnx_node *c, const Onnx__Node *node, tn_runtime *runtime, tn_device *device);
/* Releases what node_keep keeps. */
void node_end(onnx_node *c);

/* Calls the operators that the node stands for; returns the status of the last call. Where they
 * cannot express it, returns TN_OK with c->cannot set. */
tn_status node_run(onnx_node *c);

/* What adapters are made of. Sets c->cannot, unless a reason is there already; returns TN_OK. */
tn_status node_cannot(onnx_node *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same where a run could: a shape or a choice that depends on numbers. */
tn_status node_wants_run(onnx_node *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Attributes of the node, or what they are by default. */
int64_t node_int(const onnx_node *c, const char *name, int64_t otherwise);
double node_float(const onnx_node *c, const char *name, double otherwise);
bool node_has(const onnx_node *c, const char *name);
bool node_word(const onnx_node *c, const char *name, const char *value);
/* Number of integers of a list, 0 where it is missing; *list borrowed. */
int node_ints(const onnx_node *c, const char *name, const int64_t **list);
/* The same of floats and of strings. */
int node_floats(const onnx_node *c, const char *name, const float **list);
int node_words(const onnx_node *c, const char *name, const ProtobufCBinaryData **list);
/* The attribute itself, NULL if there is none. */
const Onnx__Attribute *node_attribute(const onnx_node *c, const char *name);
/* An axis counted from the front; one that is not there sets c->cannot and is 0. */
int32_t node_axis(onnx_node *c, int64_t axis, int32_t rank);
/* Whether input `in` is there. */
bool node_given(const onnx_node *c, int in);
/* Whether input `in` is there; where it is not, sets c->cannot. node_run has asked for input 0. */
bool node_needs(onnx_node *c, int in);
/* Element i of input `in` as an integer or a number. An element that is not there, or not known
 * in host memory, or a float where an integer is asked for, is 0 and sets c->cannot. */
int64_t node_value(onnx_node *c, int in, int64_t i);
double node_number(onnx_node *c, int in, int64_t i);
/* Whether the numbers of an input are known, without asking the device for them. */
bool node_known(const onnx_node *c, int in);
/* Whether somebody wants output i. */
bool node_wants(const onnx_node *c, int i);

/* A call of one of Tenon's operators, by name. */
typedef struct op_call {
  onnx_node *c;
  const tn_operator *op; /* NULL: there is none, and the node cannot be expressed */
  const tn_tensor *in[NODE_TENSORS];
  int num_in;
  tn_tensor *inout[16]; /* updated in place */
  int num_inout;
  tn_status status; /* not TN_OK: an adapter has gone wrong */
  _Alignas(16) unsigned char attrs[1024];
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

/* ------------------------------------------------------------- steps.c --- */

/*
 * For adapters that make several calls. Each function makes a tensor that is the node's and goes
 * with it, or returns NULL where c->cannot is set, an earlier one failed or its input is NULL; so
 * they can be nested, and the end looks once:
 *
 *     tn_tensor *square = node_do(c, "mul", c->x[0], c->x[0]);
 *     return node_give(c, 0, node_do(c, "add", square, node_constant(c, c->in[0].dtype, 1)));
 */
/* Runs a call and keeps its first output. */
tn_tensor *node_made(op_call *k);
/* An operator of one or two inputs (b NULL) and no attributes. */
tn_tensor *node_do(onnx_node *c, const char *op, const tn_tensor *a, const tn_tensor *b);
/* A constant of rank 0. */
tn_tensor *node_constant(onnx_node *c, tn_dtype dtype, double value);
/* A tensor from row-major host memory. */
tn_tensor *node_from_host(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape,
                          const void *data);
/* x itself where it has the type. */
tn_tensor *node_cast(onnx_node *c, tn_tensor *x, tn_dtype dtype);
/* Another shape, copied where strides do not allow a view. */
tn_tensor *node_reshape(onnx_node *c, tn_tensor *x, int32_t rank, const int64_t *shape);
/* axes as of tn_tensor_permute. */
tn_tensor *node_permute(onnx_node *c, tn_tensor *x, const int32_t *axes);
tn_tensor *node_slice(onnx_node *c, tn_tensor *x, int32_t axis, int64_t begin, int64_t end);
tn_tensor *node_slice_by(onnx_node *c, tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                         int64_t step);
tn_tensor *node_expand(onnx_node *c, tn_tensor *x, int32_t rank, const int64_t *shape);
/* Elements undefined, to be updated by calls. */
tn_tensor *node_empty(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape);
tn_tensor *node_filled(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       double value);
/* A row-major copy, which calls may update. */
tn_tensor *node_copy(onnx_node *c, tn_tensor *x);
/* x where it is row-major, else a copy. */
tn_tensor *node_rows(onnx_node *c, tn_tensor *x);
/* Makes the tensor, the caller's, the node's. Returns it. */
tn_tensor *node_keep(onnx_node *c, tn_tensor *x);
/* What a call that returned `status` made, *y, as node_keep; NULL if this call or one before it
 * failed: the tensor is the node's all the same. */
tn_tensor *node_kept(onnx_node *c, tn_status status, tn_tensor *const *y);
/* The status of a call that is not one of these; TN_OK goes on. */
bool node_check(onnx_node *c, tn_status status);
/* Makes x output `out`, and returns the status of the first call that failed. */
tn_status node_give(onnx_node *c, int out, tn_tensor *x);

/* ---------------------------------------------------------- adapters.c --- */

/* How an ONNX operator is expressed; returns the status of the last call. `op` is the
 * text beside it in the table. An adapter that cannot express the node sets c->cannot. */
typedef tn_status (*onnx_adapter)(onnx_node *c, const char *op);

/* The adapter of an ONNX operator in an opset, NULL if there is none. domain: NULL, "" and
 * "ai.onnx" are ONNX's own. */
onnx_adapter onnx_adapter_find(const char *domain, const char *op_type, int64_t opset,
                               const char **op);

#endif
