/*
 * From calls to nodes: finds which buffer each tensor of a call shows, appends the node and makes
 * the next version of what it writes. A tensor of the graph's device that is seen for the first
 * time is a buffer: of constants where the host wrote to it, else one that nothing has written.
 */
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/objects.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

/* --- which storage is which buffer --- */

static tn_status keep_reserve(tn_graph *g) {
  size_t count = g->record.num_buffers;
  if (count < g->max_kept) return TN_OK;
  tn_tensor **wider = host_grow(&g->memory, g->kept, count, sizeof *wider, &g->max_kept);
  if (!wider) return no_memory();
  g->kept = wider;
  return TN_OK;
}

/* From now on `t` shows the buffer, and is kept: while the graph is there, its storage is no other
 * tensor's, and says which buffer it is. pre: keep_reserve. */
static inline void learn(tn_graph *g, const tn_tensor *t, uint32_t buffer) {
  storage_set_mark(t->storage, buffer + 1);
  g->kept[buffer] = (tn_tensor *)(uintptr_t)t;
  tn_tensor_retain(g->kept[buffer]);
}

/* Adds a buffer, which `t` shows. */
static tn_status learn_buffer(tn_graph *g, const tn_tensor *t, const record_buffer *wanted,
                              uint32_t *buffer) {
  tn_status status = keep_reserve(g);
  if (!status) status = record_add_buffer(&g->record, wanted, buffer);
  if (!status) learn(g, t, *buffer);
  return status;
}

static tn_status learn_made(tn_graph *g, const tn_tensor *t, uint32_t *buffer) {
  if (!t->storage->block)
    return fail(TN_ERR_INVALID_ARGUMENT, "an imported tensor cannot be symbolic");
  tn_status status = keep_reserve(g);
  if (!status) status = record_add_made(&g->record, tn_tensor_bytes(t), buffer);
  if (!status) learn(g, t, *buffer);
  return status;
}

static inline tn_status buffer_of(tn_graph *g, const tn_tensor *t, uint32_t *buffer) {
  const uint32_t mark = storage_mark(t->storage);
  if (__builtin_expect(!mark, 0)) return learn_made(g, t, buffer);
  *buffer = mark - 1;
  return TN_OK;
}

/* The value that `t`, a view of the buffer, has now. */
static tn_status value_in(tn_graph *g, const tn_tensor *t, uint32_t buffer, uint32_t *value) {
  return record_value_of(&g->record, buffer, &t->dl, t->dl.byte_offset - t->storage->block->offset,
                         value);
}

tn_status capture_value(tn_graph *g, const tn_tensor *t, uint32_t *value) {
  uint32_t buffer;
  tn_status status = buffer_of(g, t, &buffer);
  if (status) return status;
  return value_in(g, t, buffer, value);
}

/* --- calls --- */

/* Where a call's tensors are, with lists or without. */
typedef struct call_tensors {
  const tn_tensor *const *in;
  tn_tensor *const *out;
  uint32_t num_in, num_inout, num_out;
} call_tensors;

static call_tensors tensors_of(const plan *p) {
  const list_plan *l = p->list;
  if (p->op->lists) return (call_tensors){l->in, l->out, l->num_in, l->num_inout, l->num_out};
  return (call_tensors){p->in, p->out, p->num_in, p->op->num_inout, p->num_out};
}

/* Constants stay what they are, from run to run. */
static tn_status check_written(tn_graph *g, const plan *p, const call_tensors *t) {
  for (uint32_t i = 0; i < t->num_out; ++i) {
    uint32_t known = t->out[i] ? storage_mark(t->out[i]->storage) : 0;
    if (known && g->record.buffers[known - 1].kind == TN_GRAPH_CONSTANT)
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                         "the call writes to a constant of the graph, which was written from host "
                         "memory: take a tn_copy, which each run begins anew, or "
                         "tn_graph_parameter, which is kept from run to run");
  }
  return TN_OK;
}

/* The buffers of what the call writes, which stand where their values will. */
static tn_status find_written(tn_graph *g, const call_tensors *t, uint32_t *buffer) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < t->num_out; ++i)
    if (t->out[i]) status = buffer_of(g, t->out[i], &buffer[i]);
  return status;
}

/* What a call reads, in the order of its node: inputs, tensors among its attributes, in-out ones.
 * NULL where one was left out. */
static const tn_tensor *read_by(const plan *p, const call_tensors *t, uint32_t from, uint32_t i) {
  if (i < t->num_in) return t->in[i];
  i -= t->num_in;
  return i < from ? attr_tensor(p->args.attrs, op_attr_tensor(p->op, i)) : t->out[i - from];
}

static tn_status find_read(tn_graph *g, const plan *p, const call_tensors *t, record_node *n) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < n->num_in + n->num_inout; ++i) {
    const tn_tensor *x = read_by(p, t, n->num_from, i);
    if (x) status = capture_value(g, x, &n->in[i]);
  }
  return status;
}

/* The node holds these as values. */
static void forget_attr_tensors(const plan *p, record_node *n) {
  const tn_tensor *none = NULL;
  for (uint32_t i = 0; i < n->num_from; ++i)
    memcpy((char *)n->attrs + op_attr_tensor(p->op, i)->offset, &none, sizeof none);
}

/* All that can fail, before anything is changed that shows. */
static tn_status prepare_node(tn_graph *g, const plan *p, const call_tensors *t,
                              record_node **node) {
  const void *attrs = p->op->row.attrs_size ? p->args.attrs : NULL;
  uint32_t from = attrs && attr_tensors_given(p->op, attrs) ? p->op->num_tensors : 0;
  const record_node wanted = {.op = &p->op->row,
                              .num_in = t->num_in + from,
                              .num_inout = t->num_inout,
                              .num_out = t->num_out,
                              .num_from = from,
                              .skip_out = p->skipped,
                              .attrs = (void *)(uintptr_t)attrs};
  tn_status status = check_written(g, p, t);
  if (!status)
    status = record_reserve_values(&g->record, wanted.num_in + t->num_inout + t->num_out);
  if (!status) status = record_add_node(&g->record, &wanted, error_call_site(), node);
  if (status) return status;
  forget_attr_tensors(p, *node);
  status = find_written(g, t, (*node)->out);
  if (!status) status = find_read(g, p, t, *node);
  if (status) record_drop_node(&g->record);
  return status;
}

tn_status capture_check(const plan *p) {
  call_tensors t = tensors_of(p);
  return check_written(symbolic_graph(p->device), p, &t);
}

tn_status capture_call(plan *p) {
  tn_graph *g = symbolic_graph(p->device);
  if (!g) return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the graph of these tensors is gone");
  call_tensors t = tensors_of(p);
  record_node *node;
  tn_status status = prepare_node(g, p, &t, &node);
  if (status) return status;
  for (uint32_t i = 0; i < t.num_out; ++i)
    if (t.out[i]) record_write(&g->record, node->out[i]);
  for (uint32_t i = 0; i < t.num_out; ++i)
    if (t.out[i]) (void)value_in(g, t.out[i], node->out[i], &node->out[i]); /* room was reserved */
  return TN_OK;
}

/* --- what the host writes --- */

static tn_status refuse_write(void) {
  return fail(TN_ERR_UNSUPPORTED,
              "a symbolic tensor is written from host memory whole, once, and before calls use it");
}

tn_status capture_write(tn_tensor *t, const void *data, size_t bytes) {
  tn_graph *g = symbolic_graph(t->device);
  record_buffer constant = {.kind = TN_GRAPH_CONSTANT, .bytes = bytes};
  uint32_t buffer;
  if (!g) return fail(TN_ERR_INVALID_ARGUMENT, "the graph of this tensor is gone");
  if (!t->storage->block || t->dl.byte_offset != t->storage->block->offset ||
      storage_mark(t->storage))
    return refuse_write();
  constant.data = host_alloc(&g->memory, bytes + 1);
  if (!constant.data) return no_memory();
  memcpy(constant.data, data, bytes);
  tn_status status = learn_buffer(g, t, &constant, &buffer);
  if (status) host_free(&g->memory, constant.data);
  return status;
}

/* --- inputs, parameters, constants --- */

tn_status capture_source(tn_graph *g, const char *function, const record_buffer *wanted,
                         tn_tensor **tensor) {
  record_buffer b = *wanted;
  tn_tensor *t;
  uint32_t buffer;
  tn_status status = tn_tensor_empty(g->device, b.dtype, b.rank, b.shape, &t);
  if (status) return fail_prefix("%s: ", function), status;
  b.bytes = tn_tensor_bytes(t);
  uint32_t value;
  status = record_reserve_values(&g->record, 1);
  if (!status) status = learn_buffer(g, t, &b, &buffer);
  if (status) return tn_tensor_release(t), status;
  (void)value_in(g, t, buffer, &value); /* there for who walks the graph, used or not */
  t->read_only = b.kind != TN_GRAPH_PARAMETER;
  *tensor = t;
  return TN_OK;
}

/* --- what is kept --- */

tn_status capture_begin_copy(tn_graph *g) {
  size_t count = g->record.num_buffers + (size_t)1;
  g->kept = host_alloc(&g->memory, count * sizeof *g->kept);
  if (!g->kept) return no_memory();
  g->max_kept = count;
  return TN_OK;
}

/* As large as any of its values. */
static int64_t bytes_of(const record *r, uint32_t buffer) {
  uint64_t bytes = r->buffers[buffer].bytes;
  for (uint32_t at = r->buffers[buffer].last_value; at != TN_GRAPH_NONE;
       at = r->values[at].previous)
    if (record_extent(&r->values[at]) > bytes) bytes = record_extent(&r->values[at]);
  return (int64_t)bytes;
}

tn_status capture_kept(tn_graph *g, uint32_t buffer, const tn_tensor **kept) {
  if (!g->kept[buffer]) {
    const int64_t bytes = bytes_of(&g->record, buffer);
    tn_tensor *t;
    tn_status status = tn_tensor_empty(g->device, TN_U8, 1, &bytes, &t);
    if (status) return status;
    learn(g, t, buffer);
    tn_tensor_release(t);
  }
  *kept = g->kept[buffer];
  return TN_OK;
}

void capture_end(tn_graph *g) {
  for (uint32_t i = 0; g->kept && i < g->record.num_buffers; ++i) {
    if (g->kept[i]) storage_set_mark(g->kept[i]->storage, 0);
    tn_tensor_release(g->kept[i]);
  }
  host_free(&g->memory, g->kept);
}
