/*
 * Plans a program's memory. Nodes run whose results an output or a parameter needs. A buffer lives
 * from the first node that runs and uses it to the last; an elementwise operator's output takes
 * over the memory of an input that nobody uses after it. Buffers that live at the same time lie
 * apart: placed one after the other, each in the tightest gap between those placed that it meets,
 * from the largest to the smallest (greedy by size, Pisarchyk and Lee,
 * https://arxiv.org/abs/2001.03288), or in another order where that leaves gaps.
 */
#include "graph/memory_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/gaps.h"

/* --- what runs --- */

static void find_running(const record *r, memory_plan *p, bool *needed) {
  for (uint32_t i = 0; i < r->num_outputs; ++i)
    needed[r->values[r->outputs[i].value].buffer] = true;
  for (uint32_t k = r->num_nodes; k-- > 0;) {
    const record_node *n = &r->nodes[k];
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      uint32_t b = r->values[n->out[i]].buffer;
      p->runs[k] |= needed[b] || r->buffers[b].kind == TN_GRAPH_PARAMETER;
    }
    if (!p->runs[k]) continue;
    ++p->num_running;
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
      if (n->in[i] != TN_GRAPH_NONE) needed[r->values[n->in[i]].buffer] = true;
  }
}

/* --- how long buffers live --- */

static void use(memory_plan *p, const record_value *v, uint32_t node) {
  planned_buffer *b = &p->buffers[v->buffer];
  uint64_t bytes = record_extent(v);
  if (b->place == PLACE_NOWHERE) {
    b->place = PLACE_PLANNED;
    b->first = node;
  }
  b->last = node;
  if (bytes > b->bytes) b->bytes = bytes;
}

static tn_status unwritten(const record *r, uint32_t k, uint32_t i) {
  const record_node *n = &r->nodes[k];
  return fail(TN_ERR_INVALID_ARGUMENT,
              "node %" PRIu32 " (tn_%s%s%s) reads input %" PRIu32 ", which nothing has written", k,
              n->op->name, n->site ? ", at " : "", n->site ? n->site : "", i);
}

static tn_status too_long(const record *r, uint32_t k, uint32_t i) {
  return fail(TN_ERR_INVALID_ARGUMENT,
              "node %" PRIu32 " (tn_%s) reads more of input %" PRIu32
              " than was written from host memory: it must be written whole",
              k, r->nodes[k].op->name, i);
}

static tn_status find_lives(const record *r, memory_plan *p) {
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    if (!p->runs[k]) continue;
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) {
      if (n->in[i] == TN_GRAPH_NONE) continue;
      const record_value *v = &r->values[n->in[i]];
      /* In-out tensors may be ones that the operator fills whole. */
      bool filled = i >= n->num_in && n->op->num_args == 1;
      if (!filled && record_extent(v) && v->node == TN_GRAPH_NONE &&
          r->buffers[v->buffer].kind == TN_GRAPH_MADE)
        return unwritten(r, k, i);
      if (r->buffers[v->buffer].data && record_extent(v) > r->buffers[v->buffer].bytes)
        return too_long(r, k, i);
      use(p, v, k);
    }
    for (uint32_t i = 0; i < n->num_out; ++i)
      if (n->out[i] != TN_GRAPH_NONE) use(p, &r->values[n->out[i]], k);
  }
  return TN_OK;
}

/* --- outputs --- */

/* All of a buffer, row-major: the run can write it where the caller wants it. */
static bool is_whole(const planned_buffer *b, const record_value *v) {
  return v->offset == 0 && record_is_row_major(v) && record_bytes(v) == b->bytes;
}

static tn_status take_output(const record *r, memory_plan *p, uint32_t i) {
  const record_value *v = &r->values[r->outputs[i].value];
  const record_buffer *b = &r->buffers[v->buffer];
  planned_buffer *at = &p->buffers[v->buffer];
  if (b->kind == TN_GRAPH_MADE && v->node == TN_GRAPH_NONE && record_extent(v))
    return fail(TN_ERR_INVALID_ARGUMENT, "nothing has written output \"%s\"", r->outputs[i].name);
  if (v->version != b->version)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "node %" PRIu32 " (tn_%s) wrote to output \"%s\" after it was declared: declare it "
                "after that, or a tn_copy of it",
                b->node, r->nodes[b->node].op->name, r->outputs[i].name);
  if (b->kind == TN_GRAPH_MADE && at->place == PLACE_PLANNED && is_whole(at, v)) {
    at->place = PLACE_OUTPUT;
    at->output = i;
  }
  if (b->data && record_extent(v) > b->bytes)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "output \"%s\" is more than was written from host memory: it must be written whole",
                r->outputs[i].name);
  if (at->place == PLACE_NOWHERE) use(p, v, r->num_nodes);
  at->last = r->num_nodes;
  return TN_OK;
}

static void place_sources(const record *r, memory_plan *p) {
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    planned_buffer *b = &p->buffers[i];
    b->home = i;
    if (b->place == PLACE_NOWHERE || r->buffers[i].kind == TN_GRAPH_MADE) continue;
    b->place = r->buffers[i].kind == TN_GRAPH_INPUT ? PLACE_INPUT : PLACE_REAL;
  }
}

/* --- taking over an input's memory --- */

static bool same_layout(const record_value *a, const record_value *b) {
  size_t bytes = (size_t)a->rank * sizeof(int64_t);
  return a->rank == b->rank && a->offset == b->offset &&
         tn_dtype_size(a->dtype) == tn_dtype_size(b->dtype) && !memcmp(a->shape, b->shape, bytes) &&
         !memcmp(a->strides, b->strides, bytes);
}

/* Whether node k's output may lie where its input `i` does: nobody uses that afterwards, and no
 * other input of the node is of its memory. */
static bool can_take_over(const record *r, const memory_plan *p, uint32_t k, uint32_t i) {
  const record_node *n = &r->nodes[k];
  if (n->in[i] == TN_GRAPH_NONE) return false;
  const record_value *x = &r->values[n->in[i]], *y = &r->values[n->out[0]];
  const planned_buffer *from = &p->buffers[x->buffer], *to = &p->buffers[y->buffer];
  if (from->place != PLACE_PLANNED || p->buffers[from->home].last != k || from->last != k ||
      from->bytes != to->bytes || !same_layout(x, y))
    return false;
  for (uint32_t j = 0; j < n->num_in; ++j)
    if (j != i && n->in[j] != TN_GRAPH_NONE && n->in[j] != n->in[i] &&
        p->buffers[r->values[n->in[j]].buffer].home == from->home)
      return false;
  return true;
}

static void take_over(const record *r, memory_plan *p) {
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    if (!p->runs[k] || !(n->op->flags & TN_OPERATOR_ELEMENTWISE) || n->num_inout ||
        n->num_out != 1 || n->out[0] == TN_GRAPH_NONE)
      continue;
    planned_buffer *to = &p->buffers[r->values[n->out[0]].buffer];
    if (to->place != PLACE_PLANNED || to->first != k || to->home != r->values[n->out[0]].buffer)
      continue;
    for (uint32_t i = 0; i < record_inputs(n); ++i) {
      if (!can_take_over(r, p, k, i)) continue;
      uint32_t home = p->buffers[r->values[n->in[i]].buffer].home;
      to->home = home;
      p->buffers[home].last = to->last;
      break;
    }
  }
}

/* --- places --- */

static int larger_first(const void *a, const void *b) {
  const planned_buffer *x = *(planned_buffer *const *)a, *y = *(planned_buffer *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int longer_first(const void *a, const void *b) {
  const planned_buffer *x = *(planned_buffer *const *)a, *y = *(planned_buffer *const *)b;
  uint32_t i = x->last - x->first, k = y->last - y->first;
  return i != k ? (i < k ? 1 : -1) : larger_first(a, b);
}

/* By what keeping it takes: bytes times nodes. */
static int dearer_first(const void *a, const void *b) {
  const planned_buffer *x = *(planned_buffer *const *)a, *y = *(planned_buffer *const *)b;
  double i = (double)x->bytes * (x->last - x->first), k = (double)y->bytes * (y->last - y->first);
  return i != k ? (i < k ? 1 : -1) : larger_first(a, b);
}

static int sooner_first(const void *a, const void *b) {
  const planned_buffer *x = *(planned_buffer *const *)a, *y = *(planned_buffer *const *)b;
  return x->first != y->first ? (x->first > y->first ? 1 : -1) : larger_first(a, b);
}

static void place(memory_plan *p, planned_buffer **order, uint32_t count, gap_finder *placed) {
  p->bytes = 0;
  gap_finder_clear(placed);
  for (uint32_t i = 0; i < count; ++i) {
    planned_buffer *b = order[i];
    b->offset = gap_find(placed, b);
    gap_place(placed, b);
    if (b->offset + plan_rounded(b->bytes) > p->bytes)
      p->bytes = b->offset + plan_rounded(b->bytes);
  }
}

/* What is in use at each node, of buffers that have a home of their own. */
static tn_status find_live(const record *r, memory_plan *p) {
  uint64_t *change = host_alloc(&p->memory, ((size_t)r->num_nodes + 2) * sizeof *change), now = 0;
  if (!change) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  p->live = change;
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    const planned_buffer *b = &p->buffers[i];
    if (b->place != PLACE_PLANNED) continue;
    p->separate_bytes += plan_rounded(b->bytes);
    if (b->home != i) continue;
    change[b->first] += plan_rounded(b->bytes); /* modulo 2^64: what is taken away is added */
    change[b->last + 1] -= plan_rounded(b->bytes);
  }
  for (uint32_t k = 0; k <= r->num_nodes; ++k) {
    p->live[k] = now += change[k];
    if (now <= p->live_bytes) continue;
    p->live_bytes = now;
    p->live_node = k;
  }
  return TN_OK;
}

/* In the order that wastes least. */
static void place_best(memory_plan *p, planned_buffer **order, uint32_t count, gap_finder *placed) {
  static int (*const orders[])(const void *, const void *) = {larger_first, longer_first,
                                                              dearer_first, sooner_first};
  enum { ORDERS = sizeof orders / sizeof *orders, FEW = 1 << 12 };
  uint64_t least = UINT64_MAX;
  uint32_t best = 0, i = 0;
  for (; i < ORDERS && least > p->live_bytes && (i == 0 || count < FEW); ++i) {
    qsort(order, count, sizeof *order, orders[i]);
    place(p, order, count, placed);
    if (p->bytes >= least) continue;
    least = p->bytes;
    best = i;
  }
  if (best + 1 == i) return;
  qsort(order, count, sizeof *order, orders[best]);
  place(p, order, count, placed);
}

static tn_status place_all(const record *r, memory_plan *p) {
  size_t count = r->num_buffers;
  planned_buffer **order = host_alloc(&p->memory, (count + 1) * sizeof *order);
  gap_finder placed;
  uint32_t used = 0;
  if (!order) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t i = 0; i < count; ++i) {
    planned_buffer *b = &p->buffers[i];
    if (b->place == PLACE_PLANNED && b->home == i) order[used++] = b;
  }
  tn_status status = gap_finder_make(&p->memory, used, &placed);
  if (!status) {
    place_best(p, order, used, &placed);
    gap_finder_free(&p->memory, &placed);
  }
  for (uint32_t i = 0; i < count; ++i) p->buffers[i].offset = p->buffers[p->buffers[i].home].offset;
  host_free(&p->memory, order);
  return status;
}

tn_status memory_plan_check(const record *r, memory_plan *p) {
  *p = (memory_plan){.memory = r->memory};
  p->runs = host_alloc(&r->memory, r->num_nodes + (size_t)r->num_buffers + 1);
  p->buffers = host_alloc(&r->memory, ((size_t)r->num_buffers + 1) * sizeof *p->buffers);
  tn_status status =
      p->runs && p->buffers ? TN_OK : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  if (!status) find_running(r, p, p->runs + r->num_nodes);
  if (!status) status = find_lives(r, p);
  for (uint32_t i = 0; !status && i < r->num_outputs; ++i) status = take_output(r, p, i);
  if (status) memory_plan_free(p);
  return status;
}

tn_status memory_plan_live(const record *r, memory_plan *p) {
  tn_status status = memory_plan_check(r, p);
  if (status) return status;
  place_sources(r, p);
  take_over(r, p);
  status = find_live(r, p);
  if (status) memory_plan_free(p);
  return status;
}

tn_status memory_plan_make(const record *r, memory_plan *p) {
  tn_status status = memory_plan_live(r, p);
  if (status) return status;
  status = place_all(r, p);
  if (status) memory_plan_free(p);
  return status;
}

void memory_plan_free(memory_plan *p) {
  host_free(&p->memory, p->runs);
  host_free(&p->memory, p->buffers);
  host_free(&p->memory, p->live);
  *p = (memory_plan){.memory = p->memory};
}
