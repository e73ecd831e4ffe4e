/*
 * The record of a program: one flat list of nodes over versioned values. Tensors that share
 * memory are views of one buffer; whatever writes to a buffer makes its next version; a value is
 * a view of a buffer at one version. Running the nodes in their order on real memory, views being
 * views, computes what the calls would have.
 */
#ifndef TENON_GRAPH_RECORD_H
#define TENON_GRAPH_RECORD_H

#include "dispatcher/base/error.h"
#include "dispatcher/objects/tensor.h"
#include "graph/arena.h"
#include "tenon/graph.h"
#include "tenon/plugin.h"

/* Memory that tensors share. What a call touches comes first. */
typedef struct record_buffer {
  uint32_t kind;       /* tn_graph_buffer_kind */
  uint32_t version;    /* writes so far */
  uint32_t node;       /* the last of them, TN_GRAPH_NONE */
  uint32_t last_value; /* of the chain through record_value.previous; TN_GRAPH_NONE */
  uint64_t bytes;
  char *name;
  tn_tensor *real;     /* of a parameter or constant */
  void *data;          /* of a constant that was written from host memory, `bytes` bytes */
  bool stops_gradient; /* no gradient passes through it */
  bool recomputed;     /* what gradients read of it is computed again */
  uint32_t place;      /* of an input: its number */
  /* Of an input, parameter or constant, and anything of what nodes make: */
  tn_dtype dtype;
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} record_buffer;

typedef struct record_value {
  uint32_t buffer, version, node;
  uint32_t previous; /* value of the same buffer, TN_GRAPH_NONE */
  tn_dtype dtype;
  int32_t rank;
  uint64_t offset;                                  /* in bytes from the buffer's beginning */
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK]; /* behind the rank: anything */
} record_value;

typedef struct record_node {
  const tn_operator *op;
  uint32_t num_in, num_inout, num_out; /* tensors; num_in without, num_out with the in-out ones */
  uint32_t num_from;                   /* the last of num_in: attributes of kind tensor, all that
                                          the operator has, in its order; 0 where none is given */
  uint32_t skip_out;                   /* as in tn_call */
  uint32_t *in;                        /* [num_in + num_inout], TN_GRAPH_NONE where left out */
  uint32_t *out;                       /* [num_out] */
  void *attrs;                         /* NULL: none */
  bool again;     /* computes what another node does, so that the first's memory can go */
  bool saved;     /* a tape keeps what its rule reads */
  uint32_t block; /* of a tape: of calls that gradients make again, 0: of none */
  char *site;     /* NULL: none; nodes of one site share it */
} record_node;

typedef struct record_output {
  uint32_t value;
  char *name;
} record_output;

/* A table of values by what they show, open addressing; of the first `known` of them. */
typedef struct value_index {
  uint32_t *slots; /* TN_GRAPH_NONE: empty */
  size_t capacity; /* a power of two */
  uint32_t known;
} value_index;

/* All memory is the runtime's host memory; `memory` stays valid longer than the runtime. What
 * nodes point to is the arena's, and goes with the record. */
typedef struct record {
  host_memory memory;
  record_buffer *buffers;
  record_value *values;
  record_node *nodes;
  record_output *outputs;
  uint32_t num_buffers, num_values, num_nodes, num_outputs, num_inputs;
  size_t max_buffers, max_values, max_nodes, max_outputs;
  arena room;                 /* of nodes, which may be taken back from the last on */
  arena texts;                /* of sites, which stay */
  struct record_site **sites; /* by hash; NULL before the first */
  char *last_site;
  value_index index;
} record;

void record_free(record *r);
/* Empties it; its memory stays, for as much again. */
void record_clear(record *r);
/* The same record; real tensors are shared. On failure *copy is empty. */
tn_status record_copy(const record *r, record *copy);

/* A buffer as `wanted` says, whose name and data are the record's from then on if it succeeds. */
tn_status record_add_buffer(record *r, const record_buffer *wanted, uint32_t *buffer);
/* A buffer of kind TN_GRAPH_MADE. */
tn_status record_add_made(record *r, uint64_t bytes, uint32_t *buffer);
/* A value that is the same as none before: a view of a buffer as it is now, `offset` in bytes. */
tn_status record_new_value(record *r, uint32_t buffer, tn_dtype dtype, const DLTensor *view,
                           uint64_t offset, uint32_t *value);
/* The value that the view has, made if it is new; where it is not the buffer's last. */
tn_status record_find_value(record *r, uint32_t buffer, tn_dtype dtype, const DLTensor *view,
                            uint64_t offset, uint32_t *value);
static inline bool record_shows(const record_value *v, tn_dtype dtype, const DLTensor *view,
                                uint64_t offset) {
  if (v->dtype != dtype || v->rank != view->ndim || v->offset != offset) return false;
  for (int32_t i = 0; i < view->ndim; ++i)
    if (v->shape[i] != view->shape[i] || v->strides[i] != view->strides[i]) return false;
  return true;
}
/* The value that a view of a buffer has now, made if it is new. */
static inline tn_status record_value_of(record *r, uint32_t buffer, tn_dtype dtype,
                                        const DLTensor *view, uint64_t offset, uint32_t *value) {
  const record_buffer *b = &r->buffers[buffer];
  if (__builtin_expect(b->last_value != TN_GRAPH_NONE, 1)) {
    const record_value *last = &r->values[b->last_value];
    if (last->version == b->version && record_shows(last, dtype, view, offset))
      return *value = b->last_value, TN_OK;
  }
  return record_find_value(r, buffer, dtype, view, offset, value);
}
/* Another value of its buffer. */
tn_status record_add_value(record *r, const record_value *wanted, uint32_t *value);
/* value_index.c: the value that shows the same, TN_GRAPH_NONE where there is none; false, with
 * nothing said, where there is no memory for the index. */
bool value_index_find(record *r, const record_value *wanted, uint32_t *value);
/* Bytes from its buffer's beginning to its last element's end; 0 without elements. */
uint64_t record_extent(const record_value *v);
/* Whether the bytes between first and last elements of two views of a buffer meet. */
bool record_overlap(const record_value *a, const record_value *b);
/* Whether what the value shows is still what it was: its buffer was not written to since, or
 * elsewhere. Else *by: the node that wrote there, TN_GRAPH_NONE where none did. */
bool record_is_intact(const record *r, const record_value *v, uint32_t *by);
tn_status record_reserve_more_values(record *r, uint32_t count);
/* Sees to it that the next `count` of them cannot fail. */
static inline tn_status record_reserve_values(record *r, uint32_t count) {
  return __builtin_expect(r->max_values - r->num_values >= count, 1)
             ? TN_OK
             : record_reserve_more_values(r, count);
}
/* Appends a node with room for its values and copies of attributes and site. Its arrays are the
 * caller's to fill; record_drop_node takes the last one back. Neither arrays nor attributes are
 * anybody's to free. */
tn_status record_add_node(record *r, const record_node *wanted, const char *site,
                          record_node **node);
void record_drop_node(record *r);
/* The arguments among the values that a node reads; its attributes' tensors follow. */
static inline uint32_t record_inputs(const record_node *n) { return n->num_in - n->num_from; }
/* The value of argument i: an input, or an in-out tensor as it was. */
static inline uint32_t record_argument(const record_node *n, uint32_t i) {
  return n->in[i < record_inputs(n) ? i : i + n->num_from];
}
/* A call's attributes: the node's, with num_from tensors put in; `room` is for ATTRS_MAX bytes,
 * and aligned. NULL if there are none. */
const void *record_attrs(const record_node *n, const tn_tensor *const *from, void *room);
/* The last node writes to a buffer: its next version. */
static inline void record_write(record *r, uint32_t buffer) {
  r->buffers[buffer].node = r->num_nodes - 1;
  ++r->buffers[buffer].version;
}
/* Lets nodes leave out the optional outputs that nothing that runs reads. */
tn_status record_skip_unused(record *r);
tn_status record_add_output(record *r, uint32_t value, const char *name);

/* Whether the elements lie one after the other in row-major order, and what they take then. */
bool record_is_row_major(const record_value *v);
uint64_t record_bytes(const record_value *v);

#endif
