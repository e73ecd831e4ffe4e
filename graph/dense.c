/*
 * Inputs that a node's kernel wants row-major, and which are not: calls of copy in front of the
 * node's bring them to memory that all nodes of an instance share, so that no run allocates, and
 * runs can be recorded.
 */

#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/program.h"
#include "tenon/ops.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
}

static uint64_t rounded(uint64_t bytes) { return (bytes / PLAN_ALIGNMENT + 1) * PLAN_ALIGNMENT; }

/* Whether the node's k-th input is to be copied, and how the copy is laid out. */
static bool wants_copy(const tn_program *p, const record_node *n, uint32_t k, record_value *dense) {
  if (n->in[k] == TN_GRAPH_NONE) return false;
  *dense = p->record.values[n->in[k]];
  if (record_is_row_major(dense)) return false;
  int64_t stride = 1;
  for (int32_t i = dense->rank - 1; i >= 0; --i) {
    dense->strides[i] = stride;
    stride *= dense->shape[i] ? dense->shape[i] : 1;
  }
  dense->offset = 0;
  return true;
}

static uint64_t bytes_of_copies(const tn_program *p, const record_node *n, uint32_t *copies) {
  uint64_t bytes = 0;
  record_value dense;
  for (uint32_t k = 0; k < record_inputs(n); ++k) {
    if (!wants_copy(p, n, k, &dense)) continue;
    bytes += rounded(record_bytes(&dense));
    ++*copies;
  }
  return bytes;
}

/* --- one node --- */

static tn_status prepare_copy(const tn_program *p, instance *i, uint32_t node, const tn_tensor *x,
                              tn_tensor *y) {
  tn_prepared *made;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_COPY,
                        .stream = i->stream,
                        .in = &x,
                        .out = &y,
                        .num_in = 1,
                        .num_out = 1};
  const char *site = tn_call_site(p->record.nodes[node].site);
  tn_status status = tn_prepare(&call, &made);
  tn_call_site(site);
  if (!status) instance_add(i, node, made);
  return status;
}

/* `in` has room for a header of each input; those that are copied get one. */
static tn_status make_copies(const tn_program *p, instance *i, uint32_t node, tn_tensor **in) {
  const record_node *n = &p->record.nodes[node];
  tn_status status = TN_OK;
  uint64_t at = 0;
  record_value dense;
  for (uint32_t k = 0; !status && k < record_inputs(n); ++k) {
    if (!wants_copy(p, n, k, &dense)) continue;
    status = header_make(&dense, i->dense, at, &in[k]);
    if (!status) status = prepare_copy(p, i, node, i->headers[n->in[k]], in[k]);
    at += rounded(record_bytes(&dense));
  }
  return status;
}

static void drop_calls(instance *i, uint32_t count) {
  while (i->num_calls > count) {
    tn_prepared_release(i->calls[--i->num_calls]);
    i->calls[i->num_calls] = NULL;
    i->scratch[i->num_calls] = 0;
  }
}

/* Copies of the node's inputs, and its call on them in place of `*main`, which stays where the
 * kernel wants more than that. */
static tn_status densify(const tn_program *p, instance *i, uint32_t node, tn_prepared **main) {
  const record_node *n = &p->record.nodes[node];
  const uint32_t before = i->num_calls;
  tn_prepared *other = NULL;
  tn_tensor **in = host_alloc(&p->record.memory, ((size_t)n->num_in + 1) * sizeof(void *));
  if (!in) return no_memory();
  tn_status status = make_copies(p, i, node, in);
  if (!status) status = instance_prepare(p, i, node, in, &other);
  for (uint32_t k = 0; k < n->num_in; ++k) tn_tensor_release(in[k]); /* the calls hold them */
  host_free(&p->record.memory, in);
  if (status || prepared_copies(other)) {
    drop_calls(i, before);
    tn_prepared_release(other);
    return status;
  }
  tn_prepared_release(*main);
  *main = other;
  return TN_OK;
}

/* --- all of them --- */

static bool is_concerned(const tn_program *p, tn_prepared *call, uint32_t node, uint64_t *bytes,
                         uint32_t *copies) {
  if (!prepared_copies(call)) return false;
  uint64_t more = bytes_of_copies(p, &p->record.nodes[node], copies);
  if (more > *bytes) *bytes = more;
  return more > 0;
}

/* Moves the calls to a longer list, with copies in front of those that want them; `bytes` of
 * workspace belong to those of before. */
static tn_status spread(const tn_program *p, instance *i, tn_prepared **main, const size_t *bytes,
                        uint32_t count) {
  tn_status status = TN_OK;
  uint32_t k = 0;
  for (; k < count; ++k) {
    const tn_prepared *before = main[k];
    if (prepared_copies(before)) status = densify(p, i, p->running[k], &main[k]);
    if (status) break;
    i->call_of[k] = i->num_calls;
    i->scratch[i->num_calls] = main[k] == before ? bytes[k] : 0;
    instance_add(i, p->running[k], main[k]);
  }
  for (; k < count; ++k) tn_prepared_release(main[k]);
  return status;
}

tn_status dense_inputs(const tn_program *p, instance *i) {
  const host_memory *memory = &p->record.memory;
  uint64_t bytes = 0;
  uint32_t copies = 0, count = i->num_calls, concerned = 0;
  for (uint32_t k = 0; k < count; ++k)
    concerned += is_concerned(p, i->calls[k], p->running[k], &bytes, &copies);
  if (!concerned) return TN_OK;
  const int64_t size = (int64_t)bytes;
  const size_t room = (size_t)count + copies;
  tn_status status = tn_tensor_empty_on(p->device, i->stream, TN_U8, 1, &size, &i->dense);
  if (status) return status;
  tn_prepared **calls = host_alloc(memory, room * sizeof *calls), **main = i->calls;
  uint32_t *node_of = host_alloc(memory, room * sizeof *node_of), *nodes = i->node_of;
  size_t *scratch = host_alloc(memory, room * sizeof *scratch), *of_main = i->scratch;
  if (calls && node_of && scratch) {
    i->calls = calls, calls = main;
    i->node_of = node_of, node_of = nodes;
    i->scratch = scratch, scratch = of_main;
    i->num_calls = 0;
    status = spread(p, i, main, of_main, count);
  } else {
    status = no_memory();
  }
  host_free(memory, calls);
  host_free(memory, node_of);
  host_free(memory, scratch);
  return status;
}
