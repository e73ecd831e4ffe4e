/*
 * Instances of a program: the planned memory, a tensor's header for each value in it, and every
 * node prepared on those. Inputs and outputs are where each run's tensors are: their headers are
 * pointed there before the run, and prepared calls, which read headers, follow.
 */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/program.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
}

void header_show(const instance *i, tn_tensor *header, const tn_tensor *memory, uint64_t at) {
  const tn_tensor *shown = memory ? memory : i->values->tensor;
  header_place(header, shown, memory ? at : 0);
  header->storage = shown->storage;
}

/* --- making one --- */

/* Memory that stands for inputs and outputs while calls are prepared. */
typedef struct placeholders {
  uint64_t *offset; /* by buffer */
  uint64_t bytes;
  tn_tensor *memory;
} placeholders;

static uint64_t rounded(uint64_t bytes) { return (bytes / PLAN_ALIGNMENT + 1) * PLAN_ALIGNMENT; }

static tn_status reserve(const tn_program *p, instance *i, placeholders *stand, bool now) {
  stand->offset =
      host_alloc(&p->record.memory, ((size_t)p->record.num_buffers + 1) * sizeof *stand->offset);
  if (!stand->offset) return no_memory();
  for (uint32_t b = 0; b < p->record.num_buffers; ++b) {
    const planned_buffer *at = &p->plan.buffers[b];
    if (at->place != PLACE_INPUT && at->place != PLACE_OUTPUT) continue;
    stand->offset[b] = stand->bytes;
    stand->bytes += rounded(at->bytes);
  }
  int64_t standing = (int64_t)(stand->bytes ? stand->bytes : 1);
  const uint64_t bytes = p->plan.bytes ? p->plan.bytes : 1;
  tn_status status = stream_memory_take(i->stream, bytes, NULL, now, &i->values);
  if (!status)
    status = tn_tensor_empty_on(p->device, i->stream, TN_U8, 1, &standing, &stand->memory);
  return status;
}

/* Values that nothing which runs reads may show more than the place has. */
static tn_status place_header(const record_value *v, const tn_tensor *memory, uint64_t at,
                              uint64_t bytes, tn_tensor **header) {
  if (record_extent(v) > bytes) return header_stand_in(v, memory, header);
  return header_make(v, memory, at, header);
}

static tn_status make_headers(const tn_program *p, instance *i, const placeholders *stand) {
  tn_status status = TN_OK;
  i->headers =
      host_alloc(&p->record.memory, ((size_t)p->record.num_values + 1) * sizeof *i->headers);
  if (!i->headers) return no_memory();
  for (uint32_t k = 0; !status && k < p->record.num_values; ++k) {
    const record_value *v = &p->record.values[k];
    const planned_buffer *at = &p->plan.buffers[v->buffer];
    if (at->place == PLACE_PLANNED)
      status = place_header(v, i->values->tensor, at->offset, at->bytes, &i->headers[k]);
    else if (at->place == PLACE_REAL)
      status = header_make(v, p->real[v->buffer], 0, &i->headers[k]);
    else if (at->place != PLACE_NOWHERE)
      status = place_header(v, stand->memory, stand->offset[v->buffer], at->bytes, &i->headers[k]);
  }
  return status;
}

/* From the placeholder to the instance's own memory, which is there as long as the header. */
static void unplace(const tn_program *p, instance *i) {
  for (uint32_t k = 0; k < p->num_bound; ++k) {
    tn_tensor *t = i->headers[p->bound[k].value];
    storage *was = t->storage;
    header_show(i, t, NULL, 0);
    atomic_fetch_add(&t->storage->refs, 1);
    atomic_fetch_sub(&was->refs, 1); /* not the last: the placeholder holds one */
  }
}

/* What random nodes of before this one have drawn comes from the device's memory. */
static const void *with_drawn(const record_node *n, const tn_tensor *drawn, const tn_attr *from,
                              const void *attrs, unsigned char *room) {
  if (attrs != room) memcpy(room, attrs, n->op->attrs_size);
  memcpy(room + from->offset, &drawn, sizeof drawn);
  return room;
}

/* What a node is prepared on. */
typedef struct preparing {
  tn_stream *stream;
  tn_tensor *const *headers; /* by value */
  tn_tensor *const *instead; /* by input, those that are not NULL; NULL for none at all */
  const tn_attr *from;       /* the attribute that is to be the tensor `drawn`, NULL for none */
  const tn_tensor *drawn;
} preparing;

static tn_status prepare_node(const tn_program *p, uint32_t index, const preparing *how,
                              tn_prepared **prepared) {
  const record_node *n = &p->record.nodes[index];
  _Alignas(8) unsigned char room[ATTRS_MAX];
  size_t most = (size_t)n->num_in + n->num_out;
  const tn_tensor **in = host_alloc(&p->record.memory, (most + 1) * sizeof *in);
  if (!in) return no_memory();
  tn_tensor **out = (tn_tensor **)(void *)(in + n->num_in);
  for (uint32_t k = 0; k < n->num_in; ++k)
    if (n->in[k] != TN_GRAPH_NONE)
      in[k] = how->instead && how->instead[k] ? how->instead[k] : how->headers[n->in[k]];
  for (uint32_t k = 0; k < n->num_out; ++k)
    if (n->out[k] != TN_GRAPH_NONE) out[k] = how->headers[n->out[k]];
  const void *attrs = record_attrs(n, in + record_inputs(n), room);
  if (how->from) attrs = with_drawn(n, how->drawn, how->from, attrs, room);
  const tn_call call = {.struct_size = sizeof call,
                        .op = n->op->id,
                        .stream = how->stream,
                        .in = in,
                        .out = out,
                        .attrs = attrs,
                        .num_in = (uint16_t)record_inputs(n),
                        .num_out = (uint16_t)n->num_out,
                        .skip_out = n->skip_out};
  const char *site = tn_call_site(n->site);
  tn_status status = tn_prepare(&call, prepared);
  tn_call_site(site);
  host_free(&p->record.memory, in);
  if (status)
    fail_prefix("program %s, node %" PRIu32 "%s%s: ", p->name, program_number(p, index),
                n->site ? " at " : "", n->site ? n->site : "");
  return status;
}

tn_status node_prepare(const tn_program *p, uint32_t index, tn_stream *stream,
                       tn_tensor *const *headers, tn_prepared **prepared) {
  const preparing how = {.stream = stream, .headers = headers};
  return prepare_node(p, index, &how, prepared);
}

/* The random node that a node is, NULL of others. */
static const random_node *find_random(const tn_program *p, uint32_t index) {
  uint32_t low = 0, high = p->num_random;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (p->running[p->random[middle].place] < index)
      low = middle + 1;
    else
      high = middle;
  }
  return low < p->num_random && p->running[p->random[low].place] == index ? &p->random[low] : NULL;
}

/* Bit i: input i of a node is a constant where it lies, no copy of one. */
static uint32_t constants_of(const tn_program *p, const record_node *n, tn_tensor *const *instead) {
  const uint32_t count = n->num_in < 32 ? n->num_in : 32;
  uint32_t bits = 0;
  for (uint32_t k = 0; k < count; ++k) {
    if (n->in[k] == TN_GRAPH_NONE || (instead && instead[k])) continue;
    const record_value *v = &p->record.values[n->in[k]];
    if (p->record.buffers[v->buffer].kind == TN_GRAPH_CONSTANT) bits |= 1u << k;
  }
  return bits;
}

tn_status instance_prepare(const tn_program *p, const instance *i, uint32_t index,
                           tn_tensor *const *in, tn_prepared **prepared) {
  const random_node *draws = p->draws_by_tensor ? find_random(p, index) : NULL;
  const preparing how = {.stream = i->stream,
                         .headers = i->headers,
                         .instead = in,
                         .from = draws ? draws->from : NULL,
                         .drawn = i->drawn};
  tn_status status = prepare_node(p, index, &how, prepared);
  if (!status) prepared_keep(*prepared, constants_of(p, &p->record.nodes[index], in));
  return status;
}

void instance_add(instance *i, uint32_t node, tn_prepared *call) {
  i->node_of[i->num_calls] = node;
  i->scratch[i->num_calls] += prepared_drop_workspace(call);
  i->calls[i->num_calls++] = call;
}

/* The nodes run one after the other: the largest workspace serves them all. */
static tn_status share_workspace(instance *i, bool now) {
  for (uint32_t k = 0; k < i->num_calls; ++k)
    if (i->scratch[k] > i->workspace_bytes) i->workspace_bytes = i->scratch[k];
  if (!i->workspace_bytes) return TN_OK;
  tn_status status =
      stream_memory_take(i->stream, i->workspace_bytes, i->values, now, &i->scratch_memory);
  for (uint32_t k = 0; !status && k < i->num_calls; ++k)
    if (i->scratch[k]) prepared_lend_workspace(i->calls[k], i->scratch_memory->tensor);
  return status;
}

static tn_status prepare_nodes(const tn_program *p, instance *i, bool now) {
  tn_status status = TN_OK;
  for (uint32_t k = 0; !status && k < p->plan.num_running; ++k) {
    status = instance_prepare(p, i, p->running[k], NULL, &i->calls[k]);
    if (status) break;
    i->call_of[k] = k;
    instance_add(i, p->running[k], i->calls[k]);
  }
  if (!status) status = dense_inputs(p, i);
  if (!status) status = share_workspace(i, now);
  return status;
}

static tn_status note_expanded(const tn_program *p, instance *i) {
  i->expanded = host_alloc(&p->record.memory, ((size_t)i->num_calls + 1) * sizeof *i->expanded);
  if (!i->expanded) return no_memory();
  for (uint32_t k = 0; k < i->num_calls; ++k)
    if (prepared_refresh(i->calls[k])) i->expanded[i->num_expanded++] = i->calls[k];
  return TN_OK;
}

static tn_status fill(const tn_program *p, instance *i, placeholders *stand, bool now) {
  const size_t room = (size_t)p->plan.num_running + 1;
  i->calls = host_alloc(&p->record.memory, room * sizeof *i->calls);
  i->node_of = host_alloc(&p->record.memory, room * sizeof *i->node_of);
  i->call_of = host_alloc(&p->record.memory, room * sizeof *i->call_of);
  i->scratch = host_alloc(&p->record.memory, room * sizeof *i->scratch);
  if (!i->calls || !i->node_of || !i->call_of || !i->scratch) return no_memory();
  tn_status status = reserve(p, i, stand, now);
  if (!status && p->draws_by_tensor)
    status = tn_tensor_empty_on(p->device, i->stream, TN_I64, 0, NULL, &i->drawn);
  if (!status) status = make_headers(p, i, stand);
  if (!status) status = prepare_nodes(p, i, now);
  if (status) return status;
  unplace(p, i);
  return note_expanded(p, i);
}

static void instance_free(const tn_program *p, instance *i) {
  const host_memory *memory = &p->record.memory;
  replayer_free(p, i); /* first: the memory below holds the device */
  for (uint32_t k = 0; k < i->num_calls; ++k) tn_prepared_release(i->calls[k]);
  for (uint32_t k = 0; i->headers && k < p->record.num_values; ++k)
    tn_tensor_release(i->headers[k]);
  tn_tensor_release(i->drawn);
  tn_tensor_release(i->dense);
  stream_memory_release(i->scratch_memory);
  stream_memory_release(i->values);
  host_free(memory, i->expanded);
  host_free(memory, i->calls);
  host_free(memory, i->node_of);
  host_free(memory, i->call_of);
  host_free(memory, i->scratch);
  host_free(memory, i->headers);
  host_free(memory, i);
}

static tn_status instance_make(const tn_program *p, tn_stream *stream, bool now, instance **made) {
  instance *i = host_alloc(&p->record.memory, sizeof *i);
  placeholders stand = {0};
  if (!i) return no_memory();
  i->stream = stream;
  i->serial = stream->serial;
  tn_status status = fill(p, i, &stand, now);
  tn_tensor_release(stand.memory);
  host_free(&p->record.memory, stand.offset);
  if (!status) return *made = i, TN_OK;
  if (now) stream_memory_give(i->scratch_memory);
  if (now) stream_memory_give(i->values);
  instance_free(p, i);
  return status;
}

/* --- taking turns --- */

/* Whether the instance was made for this stream, and not for one before it at its place. */
static bool serves(const instance *i, const tn_stream *stream) {
  return i->stream == stream && i->serial == stream->serial;
}

/* Other programs' runs may be under way in its memory. pre: the mutex is held. */
static bool begin(instance *i) {
  if (i->busy || !stream_memory_try(i->values)) return false;
  i->busy = stream_memory_try(i->scratch_memory);
  if (!i->busy) stream_memory_give(i->values);
  return i->busy;
}

/* Takes those of streams that are gone off the list. pre: the mutex is held. */
static instance *take_stale(tn_program *p) {
  instance *stale = NULL;
  for (instance **at = &p->instances, *i; (i = *at) != NULL;) {
    if (i->busy || stream_exists(p->device, i->serial)) {
      at = &i->next;
      continue;
    }
    *at = i->next;
    i->next = stale;
    stale = i;
  }
  return stale;
}

static void free_chain(const tn_program *p, instance *first) {
  for (instance *i = first, *next; i; i = next) {
    next = i->next;
    instance_free(p, i);
  }
}

static void add(tn_program *p, instance *i) {
  pthread_mutex_lock(&p->mutex);
  i->next = p->instances;
  p->instances = i;
  pthread_mutex_unlock(&p->mutex);
}

tn_status instance_take(tn_program *p, tn_stream *stream, instance **taken) {
  pthread_mutex_lock(&p->mutex);
  instance *i = p->instances;
  while (i && !(serves(i, stream) && begin(i))) i = i->next;
  instance *stale = i ? NULL : take_stale(p);
  pthread_mutex_unlock(&p->mutex);
  free_chain(p, stale);
  *taken = i;
  if (i) return TN_OK;
  tn_status status = instance_make(p, stream, true, &i);
  if (status) return status;
  i->busy = true;
  add(p, i);
  *taken = i;
  return TN_OK;
}

/* Others' runs may be under way in its memory while its calls are prepared. */
tn_status instance_make_first(tn_program *p, instance **made) {
  tn_status status = instance_make(p, p->device->default_stream, false, made);
  if (!status) add(p, *made);
  return status;
}

void instance_give(tn_program *p, instance *i) {
  pthread_mutex_lock(&p->mutex); /* who finds the memory free finds the instance so */
  stream_memory_give(i->scratch_memory);
  stream_memory_give(i->values);
  i->busy = false;
  pthread_mutex_unlock(&p->mutex);
}

void instances_free(tn_program *p) {
  free_chain(p, p->instances);
  p->instances = NULL;
}
