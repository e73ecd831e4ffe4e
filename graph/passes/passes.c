/*
 * What passes work with, and their order: copies first, so that equal nodes have equal inputs;
 * equal nodes before constants, so that each is computed once; products last, when what reads them
 * is known, and how images lie when it is known which products there are. A pass walks the nodes in
 * order and is done: time is linear in the record. What runs when is another matter, and the last:
 * schedule.h.
 */
#include "graph/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* --- what nodes do with buffers --- */

/* Where a parameter lies: two of the same memory are one. */
typedef struct place {
  const void *data;
  uint64_t begin, end;
  uint32_t buffer;
} place;

static int by_place(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static place place_of(const record_buffer *b, uint32_t buffer) {
  const tn_tensor *t = b->real;
  bool opaque = t->device->opaque;
  place at = {.data = opaque ? t->dl.data : NULL, .buffer = buffer};
  at.begin = (opaque ? 0 : (uint64_t)(uintptr_t)t->dl.data) + t->dl.byte_offset;
  at.end = at.begin + b->bytes;
  return at;
}

static tn_status find_shared(passes *p) {
  uint32_t count = 0;
  place *places = host_alloc(&p->r->memory, ((size_t)p->r->num_buffers + 1) * sizeof *places);
  if (!places) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t i = 0; i < p->r->num_buffers; ++i)
    if (p->r->buffers[i].kind == TN_GRAPH_PARAMETER)
      places[count++] = place_of(&p->r->buffers[i], i);
  qsort(places, count, sizeof *places, by_place);
  /* `furthest` of those before reaches the furthest, so that who meets any of them meets it. */
  for (uint32_t i = 1, furthest = 0; i < count; ++i) {
    bool meets = places[i].data == places[furthest].data && places[i].begin < places[furthest].end;
    if (meets) p->uses[places[i].buffer].shared = p->uses[places[furthest].buffer].shared = true;
    if (!meets || places[i].end > places[furthest].end) furthest = i;
  }
  host_free(&p->r->memory, places);
  return TN_OK;
}

/* Versions are counted anew without the nodes that do not run, which lose their tensors: nothing
 * stands in the way of what reads a buffer later than they wrote to it. */
static void count_writes(passes *p) {
  for (uint32_t i = 0; i < p->r->num_buffers; ++i) {
    p->r->buffers[i].version = 0;
    p->r->buffers[i].node = TN_GRAPH_NONE;
  }
  for (uint32_t k = 0; k < p->r->num_nodes; ++k) {
    const record_node *n = &p->r->nodes[k];
    if (!p->runs[k]) passes_drop(p, k);
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      const record_value *v = &p->r->values[n->out[i]];
      ++p->uses[v->buffer].writes;
      p->r->buffers[v->buffer].version = v->version;
      p->r->buffers[v->buffer].node = k;
    }
  }
}

/* --- what the passes share --- */

void passes_drop(passes *p, uint32_t node) {
  record_node *n = &p->r->nodes[node];
  n->num_in = n->num_inout = n->num_out = n->num_from = 0;
  p->runs[node] = false;
}

bool passes_sole_write(const passes *p, uint32_t value) {
  const record_value *v = &p->r->values[value];
  const buffer_use *use = &p->uses[v->buffer];
  return p->r->buffers[v->buffer].kind == TN_GRAPH_MADE && use->writes == 1 && v->version == 1 &&
         v->offset == 0 && record_is_row_major(v) && record_bytes(v) == use->bytes;
}

/* In-out tensors are outputs here: whoever writes one first fills it, as nothing was there. */
bool passes_is_pure(const passes *p, uint32_t node) {
  const record_node *n = &p->r->nodes[node];
  uint32_t outputs = 0;
  if (!p->runs[node]) return false;
  for (uint32_t i = 0; i < n->num_in; ++i)
    if (n->in[i] != TN_GRAPH_NONE && p->uses[p->r->values[n->in[i]].buffer].shared) return false;
  for (uint32_t i = 0; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE) continue;
    if (!passes_sole_write(p, n->out[i])) return false;
    ++outputs;
  }
  return outputs > 0;
}

void passes_redirect(passes *p, uint32_t buffer, const record_value *to) {
  record_buffer *from = &p->r->buffers[buffer], *into = &p->r->buffers[to->buffer];
  const record_value at = *to;
  for (uint32_t i = from->last_value, next; i != TN_GRAPH_NONE; i = next) {
    record_value *v = &p->r->values[i];
    next = v->previous;
    if (v->buffer == buffer && v->version == from->version) {
      v->buffer = at.buffer;
      v->version = at.version;
      v->node = at.node;
      v->offset += at.offset;
    }
    if (next == TN_GRAPH_NONE) {
      v->previous = into->last_value;
      into->last_value = from->last_value;
    }
  }
  from->last_value = TN_GRAPH_NONE;
  p->uses[buffer].writes = 0;
}

/* --- all of them --- */

static tn_status take_up(passes *p, const memory_plan *plan) {
  p->uses = host_alloc(&p->r->memory, ((size_t)p->r->num_buffers + 1) * sizeof *p->uses);
  if (!p->uses) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  p->runs = plan->runs;
  for (uint32_t i = 0; i < p->r->num_buffers; ++i) p->uses[i].bytes = plan->buffers[i].bytes;
  count_writes(p);
  return find_shared(p);
}

tn_status passes_run(tn_program *program, const tn_compile_options *options) {
  const uint32_t flags = options->flags;
  memory_plan plan;
  passes p = {.program = program, .r = &program->record};
  tn_status status = memory_plan_check(p.r, &plan);
  if (status) return status;
  program->counts.left_out = p.r->num_nodes - plan.num_running;
  status = take_up(&p, &plan);
  if (!status && !(flags & TN_COMPILE_NO_MERGING)) {
    pass_copies(&p);
    status = pass_merge(&p);
  }
  if (!status && !(flags & TN_COMPILE_NO_FOLDING)) status = pass_fold(&p);
  if (!status && !(flags & TN_COMPILE_NO_FUSION)) status = pass_fuse(&p);
  if (!status && !(flags & TN_COMPILE_NO_LAYOUT)) status = pass_layout(&p);
  if (!status) status = passes_schedule(&p, options);
  host_free(&p.r->memory, p.uses);
  memory_plan_free(&plan);
  return status;
}
