/* Changes of a schedule, each of which can be taken back, and the passes that make them. */
#include "graph/passes/schedule.h"

#include <string.h>

enum { MOVED, ADDED, REPEATED, SILENCED };

/* Nodes looked at in all trials together: a fraction of a second. */
enum { MOST_WORK = 1 << 23 };

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
}

/* Room for one more in a list of the schedule's. */
static tn_status grow(const schedule *s, void *list, size_t count, size_t *max, size_t size) {
  if (count < *max) return TN_OK;
  size_t wanted = *max ? 2 * *max : 64;
  void *wider = host_alloc(&s->r->memory, wanted * size), *items;
  if (!wider) return no_memory();
  memcpy(&items, list, sizeof items);
  if (count) memcpy(wider, items, count * size);
  host_free(&s->r->memory, items);
  memcpy(list, &wider, sizeof wider);
  *max = wanted;
  return TN_OK;
}

/* --- changes --- */

static tn_status note_change(schedule *s, uint32_t kind, uint32_t from, uint32_t to) {
  tn_status status = grow(s, &s->changes, s->num_changes, &s->max_changes, sizeof *s->changes);
  if (status) return status;
  s->changes[s->num_changes++] = (change){.kind = kind,
                                          .from = from,
                                          .to = to,
                                          .num_values = s->r->num_values,
                                          .num_buffers = s->r->num_buffers,
                                          .node = s->r->nodes[from]};
  return TN_OK;
}

static void rotate(schedule *s, uint32_t from, uint32_t to) {
  record_node *n = s->r->nodes, moved = n[from];
  node_note note = s->notes[from];
  uint32_t low = from < to ? from : to, count = from < to ? to - from : from - to;
  if (from < to) {
    memmove(n + low, n + low + 1, count * sizeof *n);
    memmove(s->notes + low, s->notes + low + 1, count * sizeof *s->notes);
  } else {
    memmove(n + low + 1, n + low, count * sizeof *n);
    memmove(s->notes + low + 1, s->notes + low, count * sizeof *s->notes);
  }
  n[to] = moved;
  s->notes[to] = note;
}

tn_status schedule_move(schedule *s, uint32_t from, uint32_t to) {
  tn_status status = note_change(s, MOVED, from, to);
  if (!status) rotate(s, from, to);
  return status;
}

tn_status schedule_silence(schedule *s, uint32_t k) {
  tn_status status = note_change(s, SILENCED, k, k);
  record_node *n = &s->r->nodes[k];
  if (!status) n->num_in = n->num_inout = n->num_out = n->num_from = 0;
  return status;
}

static tn_status add(schedule *s, uint32_t kind, const record_node *like, const node_note *note,
                     uint32_t at, record_node **made) {
  const record_node wanted = *like; /* nodes may move */
  const node_note known = *note;
  tn_status status = grow(s, &s->notes, s->r->num_nodes, &s->max_notes, sizeof *s->notes);
  if (!status) status = note_change(s, kind, at, s->r->num_nodes);
  if (status) return status;
  status = record_add_node(s->r, &wanted, wanted.site, made);
  if (status) {
    --s->num_changes;
    return status;
  }
  s->notes[s->r->num_nodes - 1] = known;
  rotate(s, s->r->num_nodes - 1, at);
  *made = &s->r->nodes[at];
  return TN_OK;
}

tn_status schedule_add(schedule *s, const record_node *like, const node_note *note, uint32_t at,
                       record_node **made) {
  return add(s, ADDED, like, note, at, made);
}

/* --- computing again --- */

/* The value of the new buffer that stands for one of the old. */
static tn_status twin_of(schedule *s, uint32_t value, uint32_t buffer, uint32_t *twin) {
  record *r = s->r;
  for (uint32_t at = r->buffers[buffer].last_value; at != TN_GRAPH_NONE;
       at = r->values[at].previous)
    if (s->twins[at - s->first_value] == value) return *twin = at, TN_OK;
  record_value wanted = r->values[value];
  wanted.buffer = buffer;
  tn_status status =
      grow(s, &s->twins, r->num_values - s->first_value, &s->max_twins, sizeof *s->twins);
  if (!status) status = record_add_value(r, &wanted, twin);
  if (!status) s->twins[*twin - s->first_value] = value;
  return status;
}

/* All that reads `old` behind node `at` reads `buffer`. */
static tn_status redirect(schedule *s, uint32_t old, uint32_t buffer, uint32_t at) {
  record *r = s->r;
  for (uint32_t k = at + 1; k < r->num_nodes; ++k) {
    record_node *n = &r->nodes[k];
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) {
      if (n->in[i] == TN_GRAPH_NONE || r->values[n->in[i]].buffer != old) continue;
      tn_status status = twin_of(s, n->in[i], buffer, &n->in[i]);
      if (status) return status;
    }
  }
  return TN_OK;
}

tn_status schedule_repeat(schedule *s, uint32_t k, uint32_t at) {
  record *r = s->r;
  record_node *n;
  tn_status status = add(s, REPEATED, &r->nodes[k], &s->notes[k], at, &n);
  if (status) return status;
  n->again = true;
  for (uint32_t i = 0; !status && i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE) continue;
    const uint32_t old = r->values[n->out[i]].buffer;
    uint32_t buffer;
    status = record_add_made(r, r->buffers[old].bytes, &buffer);
    if (status) break;
    r->buffers[buffer].version = r->buffers[old].version;
    r->buffers[buffer].node = at;
    status = twin_of(s, n->out[i], buffer, &n->out[i]);
    if (!status) status = redirect(s, old, buffer, at);
  }
  return status;
}

/* --- back --- */

/* What reads the newest buffers reads again what they stood for. */
static void undo_repeat(schedule *s, const change *c) {
  record *r = s->r;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    record_node *n = &r->nodes[k];
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
      while (n->in[i] != TN_GRAPH_NONE && n->in[i] >= c->num_values)
        n->in[i] = s->twins[n->in[i] - s->first_value];
  }
  r->num_values = c->num_values;
  r->num_buffers = c->num_buffers;
}

static void undo(schedule *s) {
  const change *c = &s->changes[--s->num_changes];
  record *r = s->r;
  if (c->kind == MOVED) rotate(s, c->to, c->from);
  if (c->kind == SILENCED) r->nodes[c->from] = c->node;
  if (c->kind == REPEATED) undo_repeat(s, c);
  if (c->kind != ADDED && c->kind != REPEATED) return;
  rotate(s, c->from, c->to);
  record_drop_node(r);
}

tn_status schedule_undo(schedule *s, uint32_t left) {
  if (s->num_changes == left) return TN_OK;
  while (s->num_changes > left) undo(s);
  return schedule_measure(s);
}

tn_status schedule_measure(schedule *s) {
  memory_plan plan;
  tn_status status = memory_plan_live(s->r, &plan);
  if (status) return status;
  memory_plan_free(&s->plan);
  s->plan = plan;
  s->work = s->work > s->r->num_nodes ? s->work - s->r->num_nodes : 0;
  return TN_OK;
}

/* --- the passes --- */

static tn_status begin(schedule *s) {
  record *r = s->r;
  s->max_notes = (size_t)r->num_nodes + 1;
  s->notes = host_alloc(&r->memory, s->max_notes * sizeof *s->notes);
  if (!s->notes) return no_memory();
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    s->notes[k] = (node_note){.number = k};
    if (!s->p->runs[k]) continue;
    s->notes[k].cost = node_cost(r, n, s->p->program->device);
    s->notes[k].pure = node_is_repeatable(n) && passes_is_pure(s->p, k);
  }
  tn_status status = schedule_measure(s);
  s->num_running = s->plan.num_running;
  return status;
}

static uint64_t placed_bytes(const record *r, tn_status *status) {
  memory_plan plan;
  *status = memory_plan_make(r, &plan);
  if (*status) return 0;
  uint64_t bytes = plan.bytes;
  memory_plan_free(&plan);
  return bytes;
}

/* Order first, which costs nothing: what it gains need not be computed again. */
static tn_status run_passes(schedule *s, const tn_compile_options *options) {
  tn_status status = TN_OK;
  if (!(options->flags & TN_COMPILE_NO_REORDERING)) {
    status = pass_early(s);
    if (!status) status = pass_split(s);
  }
  if (!status && !(options->flags & TN_COMPILE_NO_RECOMPUTING))
    status = pass_recompute(s, options->recompute_percent);
  /* Where most is in use now may be where steps still wait. */
  if (!status && !(options->flags & TN_COMPILE_NO_REORDERING)) status = pass_early(s);
  if (!status && !(options->flags & TN_COMPILE_NO_REORDERING)) status = pass_split(s);
  return status;
}

/* Nodes are where they stay. */
static void renumber(const schedule *s) {
  record *r = s->r;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    for (uint32_t i = 0; i < n->num_out; ++i) {
      if (n->out[i] == TN_GRAPH_NONE) continue;
      r->values[n->out[i]].node = k;
      r->buffers[r->values[n->out[i]].buffer].node = k;
    }
  }
}

static tn_status finish(const schedule *s) {
  tn_program *p = s->p->program;
  const record *r = s->r;
  tn_tensor **real = host_alloc(&r->memory, ((size_t)r->num_buffers + 1) * sizeof *real);
  p->numbers = host_alloc(&r->memory, ((size_t)r->num_nodes + 1) * sizeof *p->numbers);
  if (!real || !p->numbers) {
    host_free(&r->memory, real);
    return no_memory();
  }
  memcpy(real, p->real, s->first_buffer * sizeof *real);
  host_free(&r->memory, p->real);
  p->real = real;
  renumber(s);
  for (uint32_t k = 0; k < r->num_nodes; ++k) p->numbers[k] = s->notes[k].number;
  for (uint32_t i = 0; i < s->num_changes; ++i)
    p->counts.parts += (s->changes[i].kind == ADDED) - (s->changes[i].kind == SILENCED);
  p->counts.recomputed = s->plan.num_running - s->num_running - p->counts.parts;
  return TN_OK;
}

tn_status passes_schedule(passes *p, const tn_compile_options *options) {
  const uint32_t none = TN_COMPILE_NO_REORDERING | TN_COMPILE_NO_RECOMPUTING;
  if ((options->flags & none) == none) return TN_OK;
  schedule s = {.p = p, .r = p->r, .work = MOST_WORK};
  s.first_value = p->r->num_values;
  s.first_buffer = p->r->num_buffers;
  s.plan.memory = p->r->memory;
  tn_status status = begin(&s);
  const uint64_t before = status ? 0 : placed_bytes(p->r, &status);
  if (!status) status = run_passes(&s, options);
  if (!status && s.num_changes && placed_bytes(p->r, &status) > before)
    status = schedule_undo(&s, 0);
  if (!status && s.num_changes) status = finish(&s);
  while (status && s.num_changes) undo(&s); /* the program frees what it had */
  memory_plan_free(&s.plan);
  host_free(&p->r->memory, s.notes);
  host_free(&p->r->memory, s.changes);
  host_free(&p->r->memory, s.twins);
  return status;
}
