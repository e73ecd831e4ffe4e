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

static size_t slot_of(const storage_map *m, const storage *s) {
  size_t at = (size_t)(((uintptr_t)s >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
  for (at &= m->capacity - 1; m->slots[at].storage && m->slots[at].storage != s;)
    at = (at + 1) & (m->capacity - 1);
  return at;
}

static tn_status map_reserve(tn_graph *g) {
  storage_map *m = &g->map, wider = {.capacity = m->capacity ? 2 * m->capacity : 64};
  if (m->used * 2 < m->capacity) return TN_OK;
  wider.slots = host_alloc(&g->memory, wider.capacity * sizeof *wider.slots);
  if (!wider.slots) return no_memory();
  for (size_t i = 0; i < m->capacity; ++i)
    if (m->slots[i].storage) wider.slots[slot_of(&wider, m->slots[i].storage)] = m->slots[i];
  wider.used = m->used;
  host_free(&g->memory, m->slots);
  *m = wider;
  return TN_OK;
}

static tn_status keep_reserve(tn_graph *g) {
  size_t count = g->record.num_buffers;
  if (count < g->max_kept) return TN_OK;
  tn_tensor **wider = host_grow(&g->memory, g->kept, count, sizeof *wider, &g->max_kept);
  if (!wider) return no_memory();
  g->kept = wider;
  return TN_OK;
}

/* Adds a buffer, which `t` shows. */
static tn_status learn(tn_graph *g, const tn_tensor *t, const record_buffer *wanted,
                       uint32_t *buffer) {
  tn_status status = map_reserve(g);
  if (!status) status = keep_reserve(g);
  if (!status) status = record_add_buffer(&g->record, wanted, buffer);
  if (status) return status;
  size_t at = slot_of(&g->map, t->storage);
  g->map.slots[at].storage = t->storage;
  g->map.slots[at].buffer = *buffer;
  ++g->map.used;
  g->kept[*buffer] = (tn_tensor *)(uintptr_t)t;
  tn_tensor_retain(g->kept[*buffer]);
  return TN_OK;
}

/* The buffer of a storage that is known; false where it is not. */
static bool find(const tn_graph *g, const storage *s, uint32_t *buffer) {
  if (!g->map.capacity) return false;
  size_t at = slot_of(&g->map, s);
  *buffer = g->map.slots[at].buffer;
  return g->map.slots[at].storage != NULL;
}

static tn_status buffer_of(tn_graph *g, const tn_tensor *t, uint32_t *buffer) {
  const record_buffer made = {.kind = TN_GRAPH_MADE, .bytes = tn_tensor_bytes(t)};
  if (find(g, t->storage, buffer)) return TN_OK;
  if (!t->storage->block)
    return fail(TN_ERR_INVALID_ARGUMENT, "an imported tensor cannot be symbolic");
  return learn(g, t, &made, buffer);
}

tn_status capture_value(tn_graph *g, const tn_tensor *t, uint32_t *value) {
  uint32_t buffer;
  tn_status status = buffer_of(g, t, &buffer);
  if (status) return status;
  return record_value_of(&g->record, buffer, &t->dl, t->dl.byte_offset - t->storage->block->offset,
                         value);
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
  uint32_t buffer;
  for (uint32_t i = 0; i < t->num_out; ++i)
    if (t->out[i] && find(g, t->out[i]->storage, &buffer) &&
        g->record.buffers[buffer].kind == TN_GRAPH_CONSTANT)
      return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                         "the call writes to a constant of the graph, which was written from host "
                         "memory: take a tn_copy, which each run begins anew, or "
                         "tn_graph_parameter, which is kept from run to run");
  return TN_OK;
}

/* What a call reads, in the order of its node: inputs, tensors among its attributes, in-out ones.
 * NULL where one was left out. */
static const tn_tensor *read_by(const plan *p, const call_tensors *t, uint32_t from, uint32_t i) {
  if (i < t->num_in) return t->in[i];
  i -= t->num_in;
  return i < from ? attr_tensor(p->args.attrs, op_attr_tensor(p->op, i)) : t->out[i - from];
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
  record_node wanted = {.op = &p->op->row,
                        .num_in = t->num_in + from,
                        .num_inout = t->num_inout,
                        .num_out = t->num_out,
                        .num_from = from,
                        .skip_out = p->skipped,
                        .attrs = (void *)(uintptr_t)attrs};
  uint32_t ignored, reads = t->num_in + from + t->num_inout;
  tn_status status = check_written(g, p, t);
  if (!status) status = record_reserve_values(&g->record, reads + t->num_out);
  for (uint32_t i = 0; !status && i < t->num_out; ++i)
    if (t->out[i]) status = buffer_of(g, t->out[i], &ignored);
  if (!status) status = record_add_node(&g->record, &wanted, error_call_site(), node);
  if (!status) forget_attr_tensors(p, *node);
  for (uint32_t i = 0; !status && i < reads; ++i) {
    const tn_tensor *x = read_by(p, t, from, i);
    if (!x) continue;
    status = capture_value(g, x, &(*node)->in[i]);
    if (status) record_drop_node(&g->record);
  }
  return status;
}

tn_status capture_call(plan *p) {
  tn_graph *g = symbolic_graph(p->device);
  if (!g) return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "the graph of these tensors is gone");
  call_tensors t = tensors_of(p);
  record_node *node;
  tn_status status = prepare_node(g, p, &t, &node);
  if (status) return status;
  for (uint32_t i = 0; i < t.num_out; ++i) {
    uint32_t buffer;
    if (!t.out[i] || buffer_of(g, t.out[i], &buffer)) continue;
    record_write(&g->record, buffer);
  }
  for (uint32_t i = 0; i < t.num_out; ++i)
    if (t.out[i]) (void)capture_value(g, t.out[i], &node->out[i]); /* room was reserved */
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
      find(g, t->storage, &buffer))
    return refuse_write();
  constant.data = host_alloc(&g->memory, bytes + 1);
  if (!constant.data) return no_memory();
  memcpy(constant.data, data, bytes);
  tn_status status = learn(g, t, &constant, &buffer);
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
  status = learn(g, t, &b, &buffer);
  if (status) return tn_tensor_release(t), status;
  t->read_only = b.kind != TN_GRAPH_PARAMETER;
  *tensor = t;
  return TN_OK;
}

void capture_end(tn_graph *g) {
  for (uint32_t i = 0; i < g->record.num_buffers; ++i) tn_tensor_release(g->kept[i]);
  host_free(&g->memory, g->kept);
  host_free(&g->memory, g->map.slots);
}
