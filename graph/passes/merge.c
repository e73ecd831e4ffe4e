/*
 * Common subexpressions by value numbers, as in Cocke and Schwartz 1970: nodes of one operator with
 * the same attributes on the same values give the same results. Random nodes too: with equal seed
 * and offset they draw the same numbers, and from run to run all offsets grow alike.
 */
#include "graph/passes/passes.h"

#include <stddef.h>
#include <string.h>

#include "dispatcher/base/attr_bytes.h"

enum { LARGEST_CONSTANT = 4096 }; /* bytes; larger ones are not compared */

/* Open addressing: numbers of nodes, values or buffers plus one, 0 where a slot is free. */
typedef struct number_table {
  uint32_t *slots;
  size_t mask;
} number_table;

typedef struct merging {
  passes *p;
  number_table nodes, values, buffers;
  uint32_t *number; /* by value: the first one that is the same, plus one; 0: not asked yet */
} merging;

static size_t capacity_for(uint32_t count) {
  size_t capacity = 16;
  while (capacity < 2 * (size_t)count) capacity *= 2;
  return capacity;
}

/* FNV-1a over words: inputs are numbers and attributes, which nobody chooses to collide. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *at = data;
  uint64_t word;
  for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
  }
  for (; bytes; ++at, --bytes) hash = (hash ^ *at) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 32;
}

/* --- values --- */

static bool same_layout(const record_value *a, const record_value *b) {
  size_t bytes = (size_t)a->rank * sizeof *a->shape;
  return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
         !memcmp(a->shape, b->shape, bytes) && !memcmp(a->strides, b->strides, bytes);
}

static uint64_t hash_layout(uint64_t hash, const record_value *v) {
  size_t bytes = (size_t)v->rank * sizeof *v->shape;
  const uint64_t head[] = {(uint64_t)v->dtype, (uint64_t)v->rank, v->offset};
  return mix(mix(mix(hash, head, sizeof head), v->shape, bytes), v->strides, bytes);
}

/* Equal for values that show the same. Values that are read are final: their buffer was redirected,
 * if at all, when it was written. */
static uint32_t number_of(merging *m, uint32_t value) {
  if (value == TN_GRAPH_NONE) return 0;
  if (m->number[value]) return m->number[value];
  const record_value *v = &m->p->r->values[value];
  const uint64_t place[] = {v->buffer, v->version};
  size_t at = (size_t)hash_layout(mix(1, place, sizeof place), v) & m->values.mask;
  for (uint32_t seen; (seen = m->values.slots[at]) != 0; at = (at + 1) & m->values.mask) {
    const record_value *other = &m->p->r->values[seen - 1];
    if (other->buffer == v->buffer && other->version == v->version && same_layout(other, v))
      return m->number[value] = seen;
  }
  return m->number[value] = m->values.slots[at] = value + 1;
}

/* --- attributes --- */

/* Bytes of an attribute that mean something: lists have room behind their last entry. */
static size_t used_bytes(const tn_attr *a, const void *attrs) {
  const char *at = (const char *)attrs + a->offset;
  const tn_axes *axes = (const void *)at;
  const tn_dims *dims = (const void *)at;
  if (a->type == TN_ATTR_AXES)
    return offsetof(tn_axes, axis) + (size_t)axes->count * sizeof *axes->axis;
  if (a->type == TN_ATTR_DIMS)
    return offsetof(tn_dims, dim) + (size_t)dims->count * sizeof *dims->dim;
  return attr_bytes(a->type);
}

static uint64_t hash_attrs(uint64_t hash, const record_node *n) {
  for (uint32_t i = 0; n->attrs && i < n->op->num_attrs; ++i) {
    const tn_attr *a = tn_operator_attr(n->op, i);
    hash = mix(hash, (const char *)n->attrs + a->offset, used_bytes(a, n->attrs));
  }
  return hash;
}

/* Of a plugin's own operators all bytes: what its struct has beside the attributes, nobody says. */
static bool same_attrs(const record_node *a, const record_node *b) {
  if (!a->attrs || !b->attrs) return a->attrs == b->attrs;
  for (uint32_t i = 0; i < a->op->num_attrs; ++i) {
    const tn_attr *attr = tn_operator_attr(a->op, i);
    const size_t bytes = used_bytes(attr, a->attrs);
    if (bytes != used_bytes(attr, b->attrs) ||
        memcmp((const char *)a->attrs + attr->offset, (const char *)b->attrs + attr->offset,
               bytes) != 0)
      return false;
  }
  return !strchr(a->op->name, '.') || !memcmp(a->attrs, b->attrs, a->op->attrs_size);
}

/* --- nodes --- */

static uint64_t hash_node(merging *m, const record_node *n) {
  const uint64_t head[] = {n->op->id, n->num_in, n->num_out, n->skip_out};
  uint64_t hash = hash_attrs(mix(2, head, sizeof head), n);
  for (uint32_t i = 0; i < n->num_in; ++i) {
    uint32_t number = number_of(m, n->in[i]);
    hash = mix(hash, &number, sizeof number);
  }
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) hash = hash_layout(hash, &m->p->r->values[n->out[i]]);
  return hash;
}

static bool same_node(merging *m, const record_node *a, const record_node *b) {
  const record_value *values = m->p->r->values;
  if (a->op != b->op || a->num_in != b->num_in || a->num_inout != b->num_inout ||
      a->num_out != b->num_out || a->skip_out != b->skip_out || !same_attrs(a, b))
    return false;
  for (uint32_t i = 0; i < a->num_in; ++i)
    if (number_of(m, a->in[i]) != number_of(m, b->in[i])) return false;
  for (uint32_t i = 0; i < a->num_out; ++i) {
    if ((a->out[i] == TN_GRAPH_NONE) != (b->out[i] == TN_GRAPH_NONE)) return false;
    if (a->out[i] != TN_GRAPH_NONE && !same_layout(&values[a->out[i]], &values[b->out[i]]))
      return false;
  }
  return true;
}

static void merge_node(merging *m, uint32_t k) {
  passes *p = m->p;
  const record_node *n = &p->r->nodes[k], *first = NULL;
  size_t at = (size_t)hash_node(m, n) & m->nodes.mask;
  for (uint32_t seen; (seen = m->nodes.slots[at]) != 0; at = (at + 1) & m->nodes.mask) {
    first = &p->r->nodes[seen - 1];
    if (same_node(m, first, n)) break;
  }
  if (!m->nodes.slots[at]) {
    m->nodes.slots[at] = k + 1;
    return;
  }
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE)
      passes_redirect(p, p->r->values[n->out[i]].buffer, &p->r->values[first->out[i]]);
  passes_drop(p, k);
  ++p->program->counts.merged;
}

/* --- constants --- */

/* Numbers that the host wrote, as tn_scalar does: again for each use, mostly. */
static void merge_constant(merging *m, uint32_t buffer) {
  const record_buffer *all = m->p->r->buffers, *b = &all[buffer];
  if (b->kind != TN_GRAPH_CONSTANT || !b->data || b->bytes > LARGEST_CONSTANT) return;
  size_t at = (size_t)mix(mix(3, &b->bytes, sizeof b->bytes), b->data, b->bytes);
  for (at &= m->buffers.mask; m->buffers.slots[at]; at = (at + 1) & m->buffers.mask) {
    uint32_t first = m->buffers.slots[at] - 1;
    if (all[first].bytes != b->bytes || memcmp(all[first].data, b->data, b->bytes) != 0) continue;
    const record_value to = {.buffer = first, .node = TN_GRAPH_NONE};
    passes_redirect(m->p, buffer, &to);
    return;
  }
  m->buffers.slots[at] = buffer + 1;
}

/* --- the pass --- */

tn_status pass_merge(passes *p) {
  const record *r = p->r;
  size_t nodes = capacity_for(r->num_nodes), values = capacity_for(r->num_values);
  size_t buffers = capacity_for(r->num_buffers);
  size_t all = nodes + values + buffers + r->num_values;
  uint32_t *room = host_alloc(&r->memory, all * sizeof *room);
  if (!room) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  merging m = {.p = p,
               .nodes = {room, nodes - 1},
               .values = {room + nodes, values - 1},
               .buffers = {room + nodes + values, buffers - 1},
               .number = room + nodes + values + buffers};
  for (uint32_t i = 0; i < r->num_buffers; ++i) merge_constant(&m, i);
  for (uint32_t k = 0; k < r->num_nodes; ++k)
    if (passes_is_pure(p, k) && !r->nodes[k].again) merge_node(&m, k);
  host_free(&r->memory, room);
  return TN_OK;
}
