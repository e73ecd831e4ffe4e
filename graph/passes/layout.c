/*
 * Channels last: images between nodes whose kernels are fastest so (TN_KERNEL_CHANNELS_LAST) lie
 * so. A value is a view, so that how a buffer lies is a matter of its values' strides: nothing is
 * added, and every kernel is found as it is for any tensor. What was recorded row-major from
 * outside, inputs, outputs and parameters, stays so: the kernels turn what they read of it, and
 * dense.c what other kernels want row-major. Constant weights are turned now, but where calls keep
 * what follows from constants and so reorder them once for themselves.
 */
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/passes/passes.h"
#include "tenon/ops.h"

enum { MOST_INPUTS = 16, MOST_OUTPUTS = 2, WEIGHT = 1, ADDEND = 3 };

/* What is known of a buffer. */
typedef struct seen {
  bool odd;   /* it is not seen as one image alone, or not the program's to lay out */
  bool last;  /* it lies with channels last */
  bool wants; /* read by a node that is fastest so, or passes it on */
} seen;

typedef struct laying {
  passes *p;
  seen *buffers;
  bool *keen;                            /* by node: its kernel is fastest with channels last */
  tn_tensor *stand_ins[MOST_INPUTS + 1]; /* memory for headers that kernels are only asked about */
} laying;

/* --- layouts --- */

static bool is_numbers(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32;
}

/* All that there is of a buffer, as the one image that it is. */
static bool is_image(const passes *p, const record_value *v) {
  return v->rank == IMAGE_RANK && v->offset == 0 && is_numbers(v->dtype) && record_bytes(v) > 0 &&
         record_is_row_major(v) && record_bytes(v) == p->uses[v->buffer].bytes;
}

static bool same_image(const record_value *a, const record_value *b) {
  return a->dtype == b->dtype && a->rank == b->rank &&
         !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static void restride(const passes *p, uint32_t buffer) {
  for (uint32_t i = 0; i < p->r->num_values; ++i) {
    record_value *v = &p->r->values[i];
    if (v->buffer == buffer && is_image(p, v)) strides_fill_channels_last(v->shape, v->strides);
  }
}

/* --- which kernels --- */

const cell *passes_channels_last(const tn_program *program, uint32_t op, tn_dtype dtype) {
  const cell *c = registry_cells(program->device->table, op, dtype);
  while (c && !(c->kernel->row.flags & TN_KERNEL_CHANNELS_LAST))
    c = atomic_load_explicit(&c->next, memory_order_acquire);
  return c;
}

/* Whether any kernel of the operator takes any strides. */
static bool is_strided(const tn_program *program, const record_node *n, tn_dtype dtype) {
  const cell *c = registry_cells(program->device->table, n->op->id, dtype), *first = c;
  while (c && c->strided) c = atomic_load_explicit(&c->next, memory_order_acquire);
  return first && !c;
}

/* A header of a value, with channels last where it is an image. */
static tn_status stand_in(laying *l, uint32_t i, uint32_t value, tn_tensor **header) {
  const int64_t one = 1;
  if (value == TN_GRAPH_NONE) return TN_OK;
  record_value v = l->p->r->values[value];
  tn_status status = TN_OK;
  if (!l->stand_ins[i])
    status = tn_tensor_empty(l->p->program->device, TN_U8, 1, &one, &l->stand_ins[i]);
  if (v.rank == IMAGE_RANK) strides_fill_channels_last(v.shape, v.strides);
  return status ? status : header_stand_in(&v, l->stand_ins[i], header);
}

/* Whether the kernel that the call gets is fastest with channels last. */
static tn_status is_fastest_so(const tn_call *call, bool *fastest) {
  plan p;
  tn_status status = plan_make(&p, call);
  if (status == (tn_status)PLAN_OF_LISTS) status = list_make(&p, call);
  if (status) return status;
  *fastest = p.cell && p.cell->kernel->row.flags & TN_KERNEL_CHANNELS_LAST;
  if (!p.op->lists) return plan_finish(&p), TN_OK;
  list_finish(&p);
  list_free(&p);
  return TN_OK;
}

static tn_status ask_kernel(laying *l, const record_node *n, bool *keen) {
  tn_tensor *in[MOST_INPUTS] = {NULL}, *out[MOST_OUTPUTS] = {NULL};
  const tn_tensor *inputs[MOST_INPUTS];
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < n->num_in; ++i) status = stand_in(l, i, n->in[i], &in[i]);
  if (!status) status = stand_in(l, MOST_INPUTS, n->out[0], &out[0]);
  memcpy(inputs, in, sizeof inputs);
  const tn_call call = {.struct_size = sizeof call,
                        .op = n->op->id,
                        .in = inputs,
                        .out = out,
                        .attrs = n->attrs,
                        .num_in = (uint16_t)n->num_in,
                        .num_out = (uint16_t)n->num_out,
                        .skip_out = ~1u};
  if (!status) status = is_fastest_so(&call, keen);
  for (uint32_t i = 0; i < MOST_INPUTS; ++i) tn_tensor_release(in[i]);
  tn_tensor_release(out[0]);
  if (status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_LOST) return status;
  if (status) fail_clear();
  return TN_OK;
}

/* Weights beside an image; what has none carries on how its images lie. */
static bool has_weight(const record_node *n) {
  return !(n->op->args[0].flags & TN_ARG_LIST) && n->num_in > WEIGHT &&
         n->in[WEIGHT] != TN_GRAPH_NONE;
}

/* Whether the input is an image that lies as the result does. */
static bool is_addend(const record_node *n, uint32_t i) {
  return n->op->id == TN_OP_CONV2D_ADD && i == ADDEND && n->in[i] != TN_GRAPH_NONE;
}

/* Of several results the first is the only one. */
static bool has_one_result(const record_node *n) {
  for (uint32_t i = 1; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) return false;
  return n->num_out && n->out[0] != TN_GRAPH_NONE;
}

/* Whether kernels can be asked about the node, and any weights have the image's axes. */
static bool is_candidate(const laying *l, uint32_t k) {
  const record *r = l->p->r;
  const record_node *n = &r->nodes[k];
  if (!l->p->runs[k] || n->num_inout || n->num_from || !n->num_in || n->num_in > MOST_INPUTS ||
      n->num_out > MOST_OUTPUTS || !has_one_result(n) || n->in[0] == TN_GRAPH_NONE)
    return false;
  const record_value *x = &r->values[n->in[0]];
  return x->rank == IMAGE_RANK && is_numbers(x->dtype) &&
         passes_channels_last(l->p->program, n->op->id, x->dtype);
}

static tn_status find_keen(laying *l, bool *any) {
  const record *r = l->p->r;
  tn_status status = TN_OK;
  for (uint32_t k = 0; !status && k < r->num_nodes; ++k) {
    if (is_candidate(l, k)) status = ask_kernel(l, &r->nodes[k], &l->keen[k]);
    *any |= l->keen[k] && has_weight(&r->nodes[k]);
  }
  return status;
}

/* --- which buffers --- */

static bool passes_on(const laying *l, const record_node *n) {
  return n->op->flags & TN_OPERATOR_ELEMENTWISE && !n->num_inout && n->num_out == 1 &&
         n->out[0] != TN_GRAPH_NONE && n->num_in && n->in[0] != TN_GRAPH_NONE &&
         is_strided(l->p->program, n, l->p->r->values[n->in[0]].dtype);
}

static void note_use(laying *l, uint32_t value, bool wants) {
  if (value == TN_GRAPH_NONE) return;
  const record_value *v = &l->p->r->values[value];
  seen *b = &l->buffers[v->buffer];
  b->wants |= wants;
  b->odd |= !is_image(l->p, v);
}

static void note_uses(laying *l) {
  const record *r = l->p->r;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    if (!l->p->runs[k]) continue;
    const bool on = passes_on(l, n);
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
      note_use(l, n->in[i], on || (l->keen[k] && (i == 0 || !has_weight(n) || is_addend(n, i))));
    for (uint32_t i = 0; i < n->num_out; ++i) note_use(l, n->out[i], false);
  }
  for (uint32_t i = 0; i < r->num_outputs; ++i)
    l->buffers[r->values[r->outputs[i].value].buffer].odd = true;
  for (uint32_t i = 0; i < r->num_buffers; ++i)
    l->buffers[i].odd |= l->p->uses[i].shared || (r->buffers[i].kind == TN_GRAPH_MADE
                                                      ? l->p->uses[i].writes != 1
                                                      : r->buffers[i].kind != TN_GRAPH_CONSTANT);
}

/* Whether some input that shows as many elements as the node's result lies with channels last. */
static bool reads_last(const laying *l, const record_node *n) {
  const record_value *y = &l->p->r->values[n->out[0]];
  for (uint32_t i = 0; i < record_inputs(n); ++i) {
    if (n->in[i] == TN_GRAPH_NONE) continue;
    const record_value *x = &l->p->r->values[n->in[i]];
    if (l->buffers[x->buffer].last && same_image(x, y)) return true;
  }
  return false;
}

/* Whether all images that the node reads do. */
static bool reads_all_last(const laying *l, const record_node *n) {
  for (uint32_t i = 0; i < n->num_in; ++i)
    if (n->in[i] != TN_GRAPH_NONE && !l->buffers[l->p->r->values[n->in[i]].buffer].last)
      return false;
  return true;
}

/* Whether the node makes its result so where it may. pre: it is keen or passes on. */
static bool makes_last(const laying *l, uint32_t k, const seen *y) {
  const record_node *n = &l->p->r->nodes[k];
  if (!l->keen[k]) return reads_last(l, n);
  if (!has_weight(n)) return reads_all_last(l, n);
  if (is_addend(n, n->num_in - 1) && !l->buffers[l->p->r->values[n->in[ADDEND]].buffer].last)
    return false;
  return l->buffers[l->p->r->values[n->in[0]].buffer].last || y->wants;
}

static bool choose(laying *l) {
  const record *r = l->p->r;
  bool any = false;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    if (!l->p->runs[k] || !(l->keen[k] || passes_on(l, n))) continue;
    seen *y = &l->buffers[r->values[n->out[0]].buffer];
    y->last = makes_last(l, k, y) && !y->odd &&
              r->buffers[r->values[n->out[0]].buffer].kind == TN_GRAPH_MADE;
    any |= y->last;
  }
  return any;
}

/* --- constants --- */

/* Whether the node sees an image with channels last. */
static bool is_concerned(const laying *l, uint32_t k) {
  const record_node *n = &l->p->r->nodes[k];
  const record_value *values = l->p->r->values;
  return l->keen[k] && has_weight(n) &&
         (l->buffers[values[n->in[0]].buffer].last || l->buffers[values[n->out[0]].buffer].last);
}

/* Constants that are read as anything but weights of such nodes are odd. */
static void note_weights(laying *l) {
  const record *r = l->p->r;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    const bool concerned = l->p->runs[k] && is_concerned(l, k);
    for (uint32_t i = 0; l->p->runs[k] && i < n->num_in + n->num_inout; ++i) {
      if (n->in[i] == TN_GRAPH_NONE) continue;
      const uint32_t buffer = r->values[n->in[i]].buffer;
      if (r->buffers[buffer].kind == TN_GRAPH_CONSTANT && !(concerned && i == WEIGHT))
        l->buffers[buffer].odd = true;
    }
  }
}

/* The same numbers in memory of their own, channels last. */
static tn_status turned_copy(const laying *l, const record_value *v, tn_tensor **turned) {
  static const int32_t axes[IMAGE_RANK] = {0, 3, 1, 2};
  tn_program *program = l->p->program;
  const int64_t shape[IMAGE_RANK] = {v->shape[0], v->shape[2], v->shape[3], v->shape[1]};
  tn_tensor *real, *from = NULL, *memory = NULL, *view = NULL;
  tn_stream *stream = program->device->default_stream;
  tn_status status = program_real(program, v->buffer, &real);
  if (!status) status = header_make(v, real, 0, &from);
  if (!status)
    status = tn_tensor_empty_on(program->device, stream, v->dtype, IMAGE_RANK, shape, &memory);
  if (!status) status = tn_tensor_permute(memory, axes, &view);
  if (!status) status = tn_copy(stream, from, &view);
  tn_tensor_release(view);
  tn_tensor_release(from);
  if (!status) return *turned = memory, TN_OK;
  tn_tensor_release(memory);
  return status;
}

static tn_status turn_weight(laying *l, uint32_t value) {
  const record_value v = l->p->r->values[value];
  seen *b = &l->buffers[v.buffer];
  tn_tensor *turned;
  if (l->p->program->device->synchronous || l->p->r->buffers[v.buffer].kind != TN_GRAPH_CONSTANT ||
      b->odd || b->last)
    return TN_OK;
  tn_status status = turned_copy(l, &v, &turned);
  if (status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_LOST) return status;
  if (status) return fail_clear(), TN_OK;
  tn_tensor_release(l->p->program->real[v.buffer]);
  l->p->program->real[v.buffer] = turned;
  b->last = true;
  restride(l->p, v.buffer);
  return TN_OK;
}

/* --- all of it --- */

static tn_status lay(laying *l) {
  const record *r = l->p->r;
  bool any = false;
  tn_status status = find_keen(l, &any);
  if (status || !any) return status;
  note_uses(l);
  if (!choose(l)) return TN_OK;
  note_weights(l);
  for (uint32_t k = 0; !status && k < r->num_nodes; ++k)
    if (l->p->runs[k] && is_concerned(l, k)) status = turn_weight(l, r->nodes[k].in[WEIGHT]);
  for (uint32_t i = 0; !status && i < r->num_buffers; ++i)
    if (l->buffers[i].last && r->buffers[i].kind == TN_GRAPH_MADE) restride(l->p, i);
  return status;
}

/* Steps of training keep images for gradients, many of which want them row-major. */
static bool trains(const passes *p) {
  for (uint32_t k = 0; k < p->r->num_nodes; ++k)
    if (p->runs[k] && p->r->nodes[k].op->id == TN_OP_CONV2D_GRAD_WEIGHT) return true;
  return false;
}

tn_status pass_layout(passes *p) {
  const host_memory *memory = &p->r->memory;
  laying l = {.p = p};
  if (trains(p)) return TN_OK;
  l.buffers = host_alloc(memory, ((size_t)p->r->num_buffers + 1) * sizeof *l.buffers);
  l.keen = host_alloc(memory, ((size_t)p->r->num_nodes + 1) * sizeof *l.keen);
  tn_status status =
      l.buffers && l.keen ? lay(&l) : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t i = 0; i <= MOST_INPUTS; ++i) tn_tensor_release(l.stand_ins[i]);
  host_free(memory, l.keen);
  host_free(memory, l.buffers);
  return status;
}
