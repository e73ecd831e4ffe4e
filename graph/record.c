/* The record's lists: they grow, and are copied and freed as a whole. */
#include "graph/record.h"

#include <string.h>

#include "dispatcher/base/error.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a graph");
}

/* Room for one element more in a list of `count`. What is new is zeroed here, all at once: a few
 * words each time cost more. */
static __attribute__((noinline)) tn_status grow_slowly(const record *r, void *list, uint32_t count,
                                                       size_t *max, size_t size) {
  size_t wanted = *max ? 2 * *max : 16;
  void *items;
  if (count == UINT32_MAX) return fail(TN_ERR_INVALID_ARGUMENT, "the graph is too large");
  char *wider = r->memory.alloc(r->memory.user, wanted * size, 64);
  if (!wider) return no_memory();
  memcpy(&items, list, sizeof items);
  if (count) memcpy(wider, items, count * size);
  memset(wider + count * size, 0, (wanted - count) * size);
  host_free(&r->memory, items);
  memcpy(list, &wider, sizeof wider);
  *max = wanted;
  return TN_OK;
}

static inline tn_status grow(const record *r, void *list, uint32_t count, size_t *max,
                             size_t size) {
  return __builtin_expect(count < *max, 1) ? TN_OK : grow_slowly(r, list, count, max, size);
}

/* --- buffers and values --- */

static inline tn_status next_buffer(record *r, record_buffer **b) {
  tn_status status = grow(r, &r->buffers, r->num_buffers, &r->max_buffers, sizeof *r->buffers);
  if (!status) *b = &r->buffers[r->num_buffers++];
  return status;
}

tn_status record_add_buffer(record *r, const record_buffer *wanted, uint32_t *buffer) {
  record_buffer *b;
  tn_status status = next_buffer(r, &b);
  if (status) return status;
  *b = *wanted;
  b->version = 0;
  b->node = b->last_value = TN_GRAPH_NONE;
  if (b->real) tn_tensor_retain(b->real);
  *buffer = r->num_buffers - 1;
  return TN_OK;
}

tn_status record_add_made(record *r, uint64_t bytes, uint32_t *buffer) {
  record_buffer *b;
  tn_status status = next_buffer(r, &b);
  if (status) return status;
  b->kind = TN_GRAPH_MADE;
  b->version = b->place = 0;
  b->node = b->last_value = TN_GRAPH_NONE;
  b->bytes = bytes;
  b->name = NULL;
  b->real = NULL;
  b->data = NULL;
  b->stops_gradient = b->recomputed = false;
  *buffer = r->num_buffers - 1;
  return TN_OK;
}

/* Writes a value to where there is none yet. */
static inline void describe(const record *r, uint32_t buffer, tn_dtype dtype, const DLTensor *view,
                            uint64_t offset, record_value *v) {
  const record_buffer *b = &r->buffers[buffer];
  v->buffer = buffer;
  v->version = b->version;
  v->node = b->node;
  v->previous = b->last_value;
  v->dtype = dtype;
  v->rank = view->ndim;
  v->offset = offset;
  for (int32_t i = 0; i < view->ndim; ++i) {
    v->shape[i] = view->shape[i];
    v->strides[i] = view->strides[i];
  }
}

tn_status record_new_value(record *r, uint32_t buffer, tn_dtype dtype, const DLTensor *view,
                           uint64_t offset, uint32_t *value) {
  tn_status status = grow(r, &r->values, r->num_values, &r->max_values, sizeof *r->values);
  if (status) return status;
  describe(r, buffer, dtype, view, offset, &r->values[r->num_values]);
  *value = r->buffers[buffer].last_value = r->num_values++;
  return TN_OK;
}

/* One of many views, of which `at` is the next: by the index, or, without memory for that, by
 * looking on. TN_GRAPH_NONE where there is none. */
static __attribute__((noinline)) uint32_t look_on(record *r, uint32_t at, uint32_t buffer,
                                                  tn_dtype dtype, const DLTensor *view,
                                                  uint64_t offset) {
  record_value wanted = {0};
  uint32_t found;
  describe(r, buffer, dtype, view, offset, &wanted);
  if (value_index_find(r, &wanted, &found)) return found;
  for (; at != TN_GRAPH_NONE && r->values[at].version == wanted.version;
       at = r->values[at].previous)
    if (record_shows(&r->values[at], dtype, view, offset)) return at;
  return TN_GRAPH_NONE;
}

tn_status record_add_value(record *r, const record_value *wanted, uint32_t *value) {
  tn_status status = grow(r, &r->values, r->num_values, &r->max_values, sizeof *r->values);
  if (status) return status;
  record_buffer *b = &r->buffers[wanted->buffer];
  r->values[r->num_values] = *wanted;
  r->values[r->num_values].previous = b->last_value;
  *value = b->last_value = r->num_values++;
  return TN_OK;
}

tn_status record_find_value(record *r, uint32_t buffer, tn_dtype dtype, const DLTensor *view,
                            uint64_t offset, uint32_t *value) {
  enum { NEAR = 4 }; /* the last few values are looked at one by one */
  const uint32_t version = r->buffers[buffer].version;
  uint32_t at = r->buffers[buffer].last_value;
  for (uint32_t near = 0; at != TN_GRAPH_NONE && r->values[at].version == version; ++near) {
    if (near == NEAR) {
      at = look_on(r, at, buffer, dtype, view, offset);
      if (at == TN_GRAPH_NONE) break;
      return *value = at, TN_OK;
    }
    if (record_shows(&r->values[at], dtype, view, offset)) return *value = at, TN_OK;
    at = r->values[at].previous;
  }
  return record_new_value(r, buffer, dtype, view, offset, value);
}

tn_status record_reserve_more_values(record *r, uint32_t count) {
  tn_status status = TN_OK;
  while (!status && r->max_values - r->num_values < count) {
    status = grow(r, &r->values, (uint32_t)r->max_values, &r->max_values, sizeof *r->values);
  }
  return status;
}

bool record_is_row_major(const record_value *v) {
  int64_t stride = 1;
  for (int32_t i = v->rank; i-- > 0; stride *= v->shape[i])
    if (v->shape[i] != 1 && v->strides[i] != stride) return false;
  return true;
}

uint64_t record_bytes(const record_value *v) {
  uint64_t bytes = tn_dtype_size(v->dtype);
  for (int32_t i = 0; i < v->rank; ++i) bytes *= (uint64_t)v->shape[i];
  return bytes;
}

uint64_t record_extent(const record_value *v) {
  uint64_t last = 0;
  for (int32_t i = 0; i < v->rank; ++i) {
    if (v->shape[i] == 0) return 0;
    if (v->strides[i] > 0) last += (uint64_t)((v->shape[i] - 1) * v->strides[i]);
  }
  return v->offset + (last + 1) * tn_dtype_size(v->dtype);
}

/* Where its lowest element lies, in bytes. */
static uint64_t begin_of(const record_value *v) {
  int64_t below = 0;
  for (int32_t i = 0; i < v->rank; ++i)
    if (v->strides[i] < 0) below += (v->shape[i] - 1) * v->strides[i];
  return v->offset + (uint64_t)(below * (int64_t)tn_dtype_size(v->dtype));
}

bool record_overlap(const record_value *a, const record_value *b) {
  return begin_of(a) < record_extent(b) && begin_of(b) < record_extent(a);
}

bool record_is_intact(const record *r, const record_value *v, uint32_t *by) {
  const record_buffer *b = &r->buffers[v->buffer];
  uint32_t writes = b->version - v->version;
  for (uint32_t k = r->num_nodes; writes && k-- > 0;) {
    const record_node *n = &r->nodes[k];
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      const record_value *out = &r->values[n->out[i]];
      if (out->buffer != v->buffer || out->version <= v->version) continue;
      *by = k;
      if (record_overlap(out, v)) return false;
      --writes;
    }
  }
  *by = b->node;
  return writes == 0; /* else some were no node's: who knows where */
}

/* --- nodes --- */

/* A name of places in the host's program, kept once however many nodes have it. */
typedef struct record_site {
  struct record_site *next;
  char text[];
} record_site;

enum { SITE_LISTS = 64 };

static size_t list_of(const char *site) {
  uint64_t hash = 0;
  for (; *site; ++site) hash = (hash ^ (unsigned char)*site) * UINT64_C(0x100000001b3);
  return (hash ^ hash >> 32) % SITE_LISTS;
}

/* NULL without memory. */
static __attribute__((noinline)) char *find_site(record *r, const char *site) {
  if (!r->sites) {
    r->sites = arena_take(&r->texts, &r->memory, SITE_LISTS * sizeof *r->sites);
    if (!r->sites) return NULL;
    memset(r->sites, 0, SITE_LISTS * sizeof *r->sites);
  }
  record_site **list = &r->sites[list_of(site)], *s = *list;
  while (s && strcmp(s->text, site) != 0) s = s->next;
  if (!s) {
    size_t bytes = strlen(site) + 1;
    s = arena_take(&r->texts, &r->memory, sizeof *s + bytes);
    if (!s) return NULL;
    memcpy(s->text, site, bytes);
    s->next = *list;
    *list = s;
  }
  return s->text;
}

/* Most calls come from where the one before came from. */
static inline bool keep_site(record *r, const char *site) {
  if (!site || (r->last_site && !strcmp(r->last_site, site))) return true;
  char *kept = find_site(r, site);
  if (kept) r->last_site = kept;
  return kept != NULL;
}

tn_status record_add_node(record *r, const record_node *wanted, const char *site,
                          record_node **node) {
  size_t in = (size_t)wanted->num_in + wanted->num_inout, all = in + wanted->num_out;
  size_t attrs_at = (all * sizeof *wanted->in + 7) & ~(size_t)7; /* behind the values */
  size_t attrs_bytes = wanted->attrs ? wanted->op->attrs_size : 0;
  tn_status status = grow(r, &r->nodes, r->num_nodes, &r->max_nodes, sizeof *r->nodes);
  if (status) return status;
  char *room = keep_site(r, site) ? arena_take(&r->room, &r->memory, attrs_at + attrs_bytes) : NULL;
  if (!room) return no_memory();
  record_node *n = &r->nodes[r->num_nodes++];
  *n = *wanted;
  n->in = (uint32_t *)(void *)room;
  n->out = n->in + in;
  n->attrs = attrs_bytes ? memcpy(room + attrs_at, wanted->attrs, attrs_bytes) : NULL;
  n->site = site ? r->last_site : NULL;
  if (wanted->in)
    memcpy(n->in, wanted->in, all * sizeof *n->in);
  else
    for (size_t i = 0; i < all; ++i) n->in[i] = TN_GRAPH_NONE;
  *node = n;
  return TN_OK;
}

/* The k-th attribute of kind tensor: they are the last. */
static const tn_attr *from_attr(const record_node *n, uint32_t k) {
  return tn_operator_attr(n->op, n->op->num_attrs - n->num_from + k);
}

const void *record_attrs(const record_node *n, const tn_tensor *const *from, void *room) {
  if (!n->num_from) return n->attrs;
  memcpy(room, n->attrs, n->op->attrs_size);
  for (uint32_t k = 0; k < n->num_from; ++k)
    memcpy((char *)room + from_attr(n, k)->offset, &from[k], sizeof from[k]);
  return room;
}

void record_drop_node(record *r) { arena_rewind(&r->room, r->nodes[--r->num_nodes].in); }

tn_status record_add_output(record *r, uint32_t value, const char *name) {
  tn_status status = grow(r, &r->outputs, r->num_outputs, &r->max_outputs, sizeof *r->outputs);
  char *copy = status ? NULL : host_strdup(&r->memory, name);
  if (!status && !copy) status = no_memory();
  if (!status) r->outputs[r->num_outputs++] = (record_output){value, copy};
  return status;
}

/* --- the whole --- */

static void free_contents(record *r) {
  for (uint32_t i = 0; i < r->num_outputs; ++i) host_free(&r->memory, r->outputs[i].name);
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    host_free(&r->memory, r->buffers[i].name);
    host_free(&r->memory, r->buffers[i].data);
    tn_tensor_release(r->buffers[i].real);
  }
}

void record_clear(record *r) {
  free_contents(r);
  r->num_buffers = r->num_values = r->num_nodes = r->num_outputs = r->num_inputs = 0;
  host_free(&r->memory, r->index.slots);
  r->index = (value_index){0};
  r->sites = NULL;
  r->last_site = NULL;
  arena_clear(&r->room, &r->memory);
}

void record_free(record *r) {
  free_contents(r);
  host_free(&r->memory, r->buffers);
  host_free(&r->memory, r->values);
  host_free(&r->memory, r->nodes);
  host_free(&r->memory, r->outputs);
  host_free(&r->memory, r->index.slots);
  arena_free(&r->room, &r->memory);
  arena_free(&r->texts, &r->memory);
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

/* --- optional outputs --- */

static void skip_unneeded(const record *r, record_node *n, const bool *needed) {
  for (uint32_t i = n->num_inout; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE || n->num_in + i >= n->op->num_args) continue;
    const record_buffer *b = &r->buffers[r->values[n->out[i]].buffer];
    if (needed[r->values[n->out[i]].buffer] || b->kind != TN_GRAPH_MADE || b->version != 1 ||
        tn_operator_arg(n->op, n->num_in + i)->kind != TN_ARG_OPTIONAL_OUT)
      continue;
    n->out[i] = TN_GRAPH_NONE;
    n->skip_out |= 1u << (i - n->num_inout);
  }
}

tn_status record_skip_unused(record *r) {
  bool *needed = host_alloc(&r->memory, (size_t)r->num_buffers + 1);
  if (!needed) return no_memory();
  for (uint32_t i = 0; i < r->num_outputs; ++i)
    needed[r->values[r->outputs[i].value].buffer] = true;
  for (uint32_t k = r->num_nodes; k-- > 0;) {
    record_node *n = &r->nodes[k];
    bool runs = false;
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      uint32_t b = r->values[n->out[i]].buffer;
      runs |= needed[b] || r->buffers[b].kind == TN_GRAPH_PARAMETER;
    }
    if (!runs) continue;
    if (record_inputs(n) + n->num_out <= n->op->num_args) skip_unneeded(r, n, needed);
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
      if (n->in[i] != TN_GRAPH_NONE) needed[r->values[n->in[i]].buffer] = true;
  }
  host_free(&r->memory, needed);
  return TN_OK;
}
