/*
 * What the files of libtenon-onnx share. A model is read (wire.c, load.c, weights.c), its names
 * become numbers (plan.c), and for each combination of shapes its nodes are evaluated (eval.c,
 * control.c) on symbolic tensors, which records a graph, or on real ones; models.c keeps the
 * programs.
 */
#ifndef TENON_TOOLS_ONNX_LIB_H
#define TENON_TOOLS_ONNX_LIB_H

#include <pthread.h>

#include "node.h"
#include "tenon/graph.h"
#include "tenon/onnx.h"

enum {
  OLDEST_OPSET = 1,
  NEWEST_OPSET = 21,
  MAX_DEPTH = 32,        /* of graphs in graphs, and of functions in functions */
  MAX_BUILT = 1 << 16,   /* nodes evaluated for one program: what loops and functions come to */
  BUILT_TENSORS = 16,    /* inputs and outputs that are counted as one node more */
  MAX_FOLDED = 1 << 16,  /* elements that nodes read to be computed while building */
  FOLD_STEPS = 1 << 27,  /* elements that such nodes of a program read, make or go through */
  MAX_KNOWN = 1 << 20,   /* elements that such a node makes */
  KNOWN_ROOM = 64 << 20, /* bytes of known numbers at a time, beside four times the file */
  MAX_SPECIAL = 16,      /* elements of an input whose numbers programs may be made for */
};

/* ------------------------------------------------------------- error.c --- */

tn_status onnx_fail(tn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with Tenon's message behind the text. */
tn_status onnx_fail_by(tn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --------------------------------------------------------------- file.c --- */

/* The whole of an open file, the caller's to free, whatever it returns. */
tn_status file_bytes(int file, const char *path, uint8_t **data, size_t *bytes);

/* -------------------------------------------------------------- wire.c --- */

/* Whether a message can be unpacked: depth, lengths, and how much memory its parts would take. */
tn_status wire_check(const uint8_t *data, size_t bytes);

/* ----------------------------------------------------------- weights.c --- */

/* A constant of the file: an initializer, or the value of a Constant node. */
typedef struct onnx_weight {
  char *name;
  onnx_tensor host; /* data: NULL where only the device has it */
  tn_tensor *device;
  uint64_t index; /* among the model's */
  struct onnx_weight *next;
} onnx_weight;

/* Where external data is: a folder, -1 for none. */
typedef struct weight_source {
  int folder;
} weight_source;

/* Makes bytes of bools 0 or 1. */
void bools_make(onnx_tensor *t);
/* Takes a tensor of the file over, of which small ones stay known to the host. */
tn_status weight_take(tn_onnx *m, const char *name, Onnx__Tensor *t, onnx_weight **weight);
/* A weight of numbers that nothing in the file is, which are taken over. */
tn_status weight_make(tn_onnx *m, const char *name, onnx_tensor *host, onnx_weight **weight);
/* The same shape with other numbers, taken over. pre: nothing has been evaluated. */
tn_status weight_replace(tn_onnx *m, onnx_weight *weight, void *data);
/* A copy of the numbers, the caller's to free. */
tn_status weight_copy(tn_onnx *m, onnx_weight *weight, onnx_tensor *copy);
/* The value of a Constant node. */
tn_status weight_of_constant(tn_onnx *m, const Onnx__Node *node, onnx_weight **weight);
/* The weight on the model's device. */
tn_status weight_tensor(tn_onnx *m, onnx_weight *weight, tn_tensor **tensor);
void weights_free(onnx_weight *list);

/* -------------------------------------------------------------- plan.c --- */

#define NO_SLOT UINT32_MAX

/* A value that a node reads: a slot of the graph that is `up` graphs further out. */
typedef struct plan_ref {
  uint32_t up, slot;
} plan_ref;

typedef enum plan_kind {
  PLAN_CALL, /* an adapter's */
  PLAN_IF,
  PLAN_LOOP,
  PLAN_SCAN,
  PLAN_FUNCTION,
  PLAN_SHAPE,  /* Shape and Size, of which shapes say all */
  PLAN_FILL,   /* ConstantOfShape */
  PLAN_WEIGHT, /* Constant: nothing to do */
  PLAN_JOINED, /* part of a node before: nothing to do */
  PLAN_UNSERVED,
} plan_kind;

typedef struct plan_graph plan_graph;

typedef struct plan_node {
  const Onnx__Node *node;
  plan_kind kind;
  int64_t opset;
  const char *domain;
  bool draws, combines; /* what eval_classify says of the operator */
  plan_ref *in;
  uint32_t *out;       /* slots; NO_SLOT where nobody wants it */
  plan_graph *body[2]; /* of Loop and Scan; then and else of If; a function's */
  const Onnx__Function *function;
  uint32_t *done; /* slots that nothing reads behind this node */
  uint32_t num_done;
  char reason[120]; /* of PLAN_UNSERVED */
} plan_node;

struct plan_graph {
  plan_graph *outer, *next; /* next: of all of the model's, to free them */
  const char *name;
  uint32_t num_slots, room;
  const char **names; /* of slots */
  int64_t *last;      /* the last node that reads a slot; -1: none does */
  uint32_t *uses;     /* how often a slot is read, here and further in */
  int64_t at;         /* the node at hand while the plan is made */
  uint32_t num_in, num_out, num_nodes, num_weights;
  uint32_t *in;
  plan_ref *out;
  plan_node *nodes;
  struct plan_weight {
    uint32_t slot;
    onnx_weight *weight;
  } * weights;
  Onnx__OperatorSet *const *opsets; /* of the model, or the function's own */
  size_t num_opsets;
  Onnx__ValueInfo *const *out_info; /* num_out, NULL in functions */
  int depth;
  uint32_t *table; /* of slots by name; room_table places */
  uint32_t room_table;
};

tn_status plan_model(tn_onnx *m);
/* A slot of a weight that no name of the file stands for and that one node reads. */
tn_status plan_constant(plan_graph *g, onnx_weight *weight, int64_t reader, uint32_t *slot);
void plans_free(plan_graph *list);

/* ------------------------------------------------------------- fold.c --- */

/* Makes constants that scale and shift the channels of a convolution or product (norms, Mul, Add)
 * part of its weights, and chains of nodes one. nodes: the file's, which are changed. */
tn_status plan_fold(tn_onnx *m, plan_graph *g, Onnx__Node *const *nodes);

/* ------------------------------------------------------------- value.c --- */

/* What a slot holds while nodes are evaluated. */
typedef struct value {
  int refs;
  onnx_tensor host; /* type and shape; data: where the numbers are known */
  bool owned;       /* data is the value's own */
  uint64_t *known;  /* the evaluation's count, in which its numbers are; NULL: they are not */
  onnx_weight *weight;
  tn_tensor *tensor; /* on the evaluation's device; NULL until somebody wants it */
} value;

struct evaluation;
/* Each gives a value, the caller's, or NULL with the evaluation failed. */
value *value_of_weight(struct evaluation *e, onnx_weight *w);
/* Takes the tensor over. */
value *value_of_tensor(struct evaluation *e, tn_tensor *tensor);
/* Numbers, copied. */
value *value_of_numbers(struct evaluation *e, tn_dtype dtype, int32_t rank, const int64_t *shape,
                        const void *data);
value *value_keep(value *v);
void value_release(value *v);
/* The value's tensor on the evaluation's device, borrowed. */
tn_tensor *value_tensor(struct evaluation *e, value *v);
/* Makes the numbers known, where the evaluation is a run. */
bool value_fetch(struct evaluation *e, value *v);
size_t host_bytes(const onnx_tensor *t);

/* -------------------------------------------------------------- eval.c --- */

typedef struct frame {
  const plan_graph *graph;
  value **slots;
  struct frame *outer;
  const node_scope *scope;
} frame;

/* One evaluation of a model, to record it or to run it. */
typedef struct evaluation {
  tn_onnx *model;
  tn_graph *graph;          /* NULL: on real tensors */
  tn_device *device, *host; /* host: where constants are computed */
  tn_stream *stream;
  tn_status status;
  bool wants_run; /* failed since numbers are not known before a run */
  uint64_t built, folded;
  uint64_t fold_steps; /* of nodes computed while building */
  tn_graph *sizes;     /* what such nodes would make, or NULL */
  uint64_t sizes_uses; /* nodes that it was asked about */
  uint64_t known;      /* bytes of numbers that the host holds, and the graph as constants */
  value **weights;     /* by index, as they were made */
  const plan_node *at;
} evaluation;

/* The graph's outputs for its inputs, which stay the caller's; outputs are the caller's. scope: of
 * the function that it stands in. */
tn_status eval_graph(evaluation *e, const plan_graph *g, frame *outer, const node_scope *scope,
                     value *const *in, value **out);
/* Notes what evaluations ask of a node's operator each time. */
void eval_classify(plan_node *n);
/* Whether as many nodes more are not too many; where they are, the evaluation fails. */
bool eval_counts(evaluation *e, uint64_t nodes);
/* Says that the node at hand failed. */
tn_status eval_fail(evaluation *e, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The value that a node reads; NULL where it was left out. Borrowed. */
value *frame_value(const frame *f, const plan_node *n, size_t in);

/* ----------------------------------------------------------- control.c --- */

/* If, Loop, Scan and functions: out has as many values as the node has outputs. */
tn_status eval_control(evaluation *e, frame *f, const plan_node *n, value **out);

/* ------------------------------------------------------------ models.c --- */

typedef struct built_program built_program;

struct tn_onnx {
  tn_runtime *runtime;
  tn_device *device, *host;
  Onnx__Model *proto;
  op_table ops;
  weight_source source;
  plan_graph *main, *graphs;
  onnx_weight *weights;
  uint64_t weight_bytes, num_weights, num_nodes, num_joined;
  tn_onnx_options options;
  tn_compile_options compile;
  size_t num_in, num_out;
  tn_onnx_value *in, *out;
  size_t num_unserved;
  const plan_node **unserved;
  const tn_onnx_value *no_tensor;   /* an input or output that runs cannot have; NULL: none */
  uint64_t read_bytes, read_all;    /* for progress */
  struct plan_graph **functions;    /* of proto->functions, NULL until planned */
  pthread_mutex_t lock, build_lock; /* build_lock is taken first */
  built_program *programs;          /* the one used latest first */
  const built_program *latest;
  uint64_t built, build_ns, compile_ns, folded, special_builds;
  bool special; /* programs are kept by the numbers of small integer inputs too */
  uint32_t by_node;
  char by_node_reason[300];
};

/* Whether its inputs and outputs are what Tenon has. */
tn_status describe_check(const tn_onnx *m);
/* Reads what the file declares of inputs and outputs. */
tn_status describe_model(tn_onnx *m);
void description_free(tn_onnx *m);
void programs_free(tn_onnx *m);
/* pre: the lock is held. */
uint32_t programs_count(const tn_onnx *m);

#endif
