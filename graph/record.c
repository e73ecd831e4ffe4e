/* The record's lists: they grow, and are copied and freed as a whole. */
#include "graph/record.h"

#include <string.h>

#include "dispatcher/base/error.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

/* Room for one element more in a list of `count`. */
static tn_status grow(const record *r, void *list, uint32_t count, size_t *max, size_t size) {
  void *items;
  if (count < *max) return TN_OK;
  if (count == UINT32_MAX) return fail(TN_ERR_INVALID_ARGUMENT, "the graph is too large");
  memcpy(&items, list, sizeof items);
  items = host_grow(&r->memory, items, count, size, max);
  if (!items) return no_memory();
  memcpy(list, &items, sizeof items);
  return TN_OK;
}

/* --- buffers and values --- */

tn_status record_add_buffer(record *r, const record_buffer *wanted, uint32_t *buffer) {
  tn_status status = grow(r, &r->buffers, r->num_buffers, &r->max_buffers, sizeof *r->buffers);
  if (status) return status;
  record_buffer *b = &r->buffers[r->num_buffers];
  *b = *wanted;
  b->version = 0;
  b->node = b->last_value = TN_GRAPH_NONE;
  if (b->real) tn_tensor_retain(b->real);
  *buffer = r->num_buffers++;
  return TN_OK;
}

static bool same_view(const record_value *v, tn_dtype dtype, const DLTensor *view,
                      uint64_t offset) {
  size_t bytes = (size_t)view->ndim * sizeof(int64_t);
  return v->dtype == dtype && v->rank == view->ndim && v->offset == offset &&
         !memcmp(v->shape, view->shape, bytes) && !memcmp(v->strides, view->strides, bytes);
}

tn_status record_value_of(record *r, uint32_t buffer, const DLTensor *view, uint64_t offset,
                          uint32_t *value) {
  record_buffer *b = &r->buffers[buffer];
  tn_dtype dtype = tn_dtype_of(view->dtype);
  uint32_t at = b->last_value;
  for (; at != TN_GRAPH_NONE && r->values[at].version == b->version; at = r->values[at].previous)
    if (same_view(&r->values[at], dtype, view, offset)) return *value = at, TN_OK;
  tn_status status = grow(r, &r->values, r->num_values, &r->max_values, sizeof *r->values);
  if (status) return status;
  record_value *v = &r->values[r->num_values];
  *v = (record_value){.buffer = buffer,
                      .version = b->version,
                      .node = b->node,
                      .previous = b->last_value,
                      .dtype = dtype,
                      .rank = view->ndim,
                      .offset = offset};
  memcpy(v->shape, view->shape, (size_t)view->ndim * sizeof *v->shape);
  memcpy(v->strides, view->strides, (size_t)view->ndim * sizeof *v->strides);
  *value = b->last_value = r->num_values++;
  return TN_OK;
}

tn_status record_reserve_values(record *r, uint32_t count) {
  tn_status status = TN_OK;
  while (!status && r->max_values - r->num_values < count) {
    status = grow(r, &r->values, (uint32_t)r->max_values, &r->max_values, sizeof *r->values);
  }
  return status;
}

uint64_t record_extent(const record_value *v) {
  uint64_t last = 0;
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->shape[i] == 0) return 0;
    last += (uint64_t)((v->shape[i] - 1) * v->strides[i]);
  }
  return v->offset + (last + 1) * tn_dtype_size(v->dtype);
}

/* --- nodes --- */

static void free_node(const record *r, record_node *n) {
  host_free(&r->memory, n->in);
  host_free(&r->memory, n->attrs);
  host_free(&r->memory, n->site);
}

/* Values and attributes of `n`, which has none yet; `from` may have them. */
static tn_status fill_node(const record *r, record_node *n, const record_node *from,
                           const char *site) {
  size_t in = (size_t)n->num_in + n->num_inout, all = in + n->num_out;
  n->in = host_alloc(&r->memory, (all + 1) * sizeof *n->in);
  n->attrs = from->attrs ? host_alloc(&r->memory, n->op->attrs_size) : NULL;
  n->site = site ? host_strdup(&r->memory, site) : NULL;
  if (!n->in || !n->attrs != !from->attrs || !n->site != !site) {
    free_node(r, n);
    return no_memory();
  }
  n->out = n->in + in;
  for (size_t i = 0; i < all; ++i) n->in[i] = from->in ? from->in[i] : TN_GRAPH_NONE;
  if (n->attrs) memcpy(n->attrs, from->attrs, n->op->attrs_size);
  return TN_OK;
}

tn_status record_add_node(record *r, const record_node *wanted, const char *site,
                          record_node **node) {
  tn_status status = grow(r, &r->nodes, r->num_nodes, &r->max_nodes, sizeof *r->nodes);
  if (status) return status;
  record_node *n = &r->nodes[r->num_nodes];
  *n = *wanted;
  status = fill_node(r, n, wanted, site);
  if (status) return status;
  ++r->num_nodes;
  *node = n;
  return TN_OK;
}

void record_drop_node(record *r) { free_node(r, &r->nodes[--r->num_nodes]); }

void record_write(record *r, uint32_t buffer) {
  r->buffers[buffer].node = r->num_nodes - 1;
  ++r->buffers[buffer].version;
}

tn_status record_add_output(record *r, uint32_t value, const char *name) {
  tn_status status = grow(r, &r->outputs, r->num_outputs, &r->max_outputs, sizeof *r->outputs);
  char *copy = status ? NULL : host_strdup(&r->memory, name);
  if (!status && !copy) status = no_memory();
  if (!status) r->outputs[r->num_outputs++] = (record_output){value, copy};
  return status;
}

/* --- the whole --- */

void record_free(record *r) {
  for (uint32_t i = 0; i < r->num_nodes; ++i) free_node(r, &r->nodes[i]);
  for (uint32_t i = 0; i < r->num_outputs; ++i) host_free(&r->memory, r->outputs[i].name);
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    host_free(&r->memory, r->buffers[i].name);
    host_free(&r->memory, r->buffers[i].data);
    tn_tensor_release(r->buffers[i].real);
  }
  host_free(&r->memory, r->buffers);
  host_free(&r->memory, r->values);
  host_free(&r->memory, r->nodes);
  host_free(&r->memory, r->outputs);
  *r = (record){.memory = r->memory};
}

static tn_status copy_buffers(const record *r, record *copy) {
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    const record_buffer *b = &r->buffers[i];
    record_buffer wanted = *b;
    uint32_t at;
    wanted.name = b->name ? host_strdup(&copy->memory, b->name) : NULL;
    wanted.data = b->data ? host_alloc(&copy->memory, b->bytes + 1) : NULL;
    tn_status status = !wanted.name != !b->name || !wanted.data != !b->data ? no_memory() : TN_OK;
    if (wanted.data) memcpy(wanted.data, b->data, b->bytes);
    if (!status) status = record_add_buffer(copy, &wanted, &at);
    if (status) {
      host_free(&copy->memory, wanted.name);
      host_free(&copy->memory, wanted.data);
      return status;
    }
    copy->buffers[at].version = b->version;
    copy->buffers[at].node = b->node;
    copy->buffers[at].last_value = b->last_value;
  }
  return TN_OK;
}

static tn_status copy_lists(const record *r, record *copy) {
  record_node *made;
  tn_status status = TN_OK;
  if (r->num_values) {
    copy->values = host_alloc(&r->memory, r->num_values * sizeof *r->values);
    if (!copy->values) return no_memory();
    memcpy(copy->values, r->values, r->num_values * sizeof *r->values);
    copy->num_values = copy->max_values = r->num_values;
  }
  for (uint32_t i = 0; !status && i < r->num_nodes; ++i)
    status = record_add_node(copy, &r->nodes[i], r->nodes[i].site, &made);
  for (uint32_t i = 0; !status && i < r->num_outputs; ++i)
    status = record_add_output(copy, r->outputs[i].value, r->outputs[i].name);
  return status;
}

tn_status record_copy(const record *r, record *copy) {
  *copy = (record){.memory = r->memory, .num_inputs = r->num_inputs};
  tn_status status = copy_buffers(r, copy);
  if (!status) status = copy_lists(r, copy);
  if (status) record_free(copy);
  return status;
}
