/*
 * Updates of parameters at the earliest place where all that they read is there and nobody reads
 * any more what they write. What allocates nothing can only let memory go by running earlier. A
 * step of many parameters at once waits for the last gradient; in parts, large gradients go one by
 * one.
 */
#include <string.h>

#include "graph/passes/schedule.h"

/* --- earlier --- */

/* What a node does to buffers, by a stamp: its number and one. */
typedef struct touched {
  uint32_t *read, *written;
} touched;

/* Parameters of one memory are one buffer, of which 0 is the stamp's place. */
static uint32_t place_of(const schedule *s, uint32_t value) {
  uint32_t buffer = s->r->values[value].buffer;
  return buffer < s->first_buffer && s->p->uses[buffer].shared ? 0 : buffer + 1;
}

static void touch(const schedule *s, const touched *t, uint32_t k, uint32_t stamp) {
  const record_node *n = &s->r->nodes[k];
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
    if (n->in[i] != TN_GRAPH_NONE) t->read[place_of(s, n->in[i])] = stamp;
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) t->written[place_of(s, n->out[i])] = stamp;
}

/* Whether node j must stay in front of the one with the stamp. */
static bool must_precede(const schedule *s, const touched *t, uint32_t j, uint32_t stamp) {
  const record_node *n = &s->r->nodes[j];
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
    if (n->in[i] != TN_GRAPH_NONE && t->written[place_of(s, n->in[i])] == stamp) return true;
  for (uint32_t i = 0; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE) continue;
    uint32_t at = place_of(s, n->out[i]);
    if (t->read[at] == stamp || t->written[at] == stamp) return true;
  }
  return false;
}

/* Bytes of memory that is in use from this node on. */
static uint64_t bytes_begun(const schedule *s, const record_node *n, uint32_t k) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n->num_out; ++i) {
    if (n->out[i] == TN_GRAPH_NONE) continue;
    const planned_buffer *b = &s->plan.buffers[s->r->values[n->out[i]].buffer];
    if (b->place == PLACE_PLANNED && b->first == k) bytes += b->bytes;
  }
  return bytes;
}

static tn_status move_up(schedule *s, const touched *t, uint32_t k) {
  uint32_t to = k, stamp = k + 1;
  touch(s, t, k, stamp);
  while (to > 0 && !must_precede(s, t, to - 1, stamp)) --to;
  s->work = s->work > k - to ? s->work - (k - to) : 0;
  return to < k ? schedule_move(s, k, to) : TN_OK;
}

static tn_status move_all(schedule *s, const touched *t) {
  tn_status status = TN_OK;
  bool *small = host_alloc(&s->r->memory, (size_t)s->r->num_nodes + 1);
  if (!small) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  for (uint32_t k = 0; k < s->r->num_nodes; ++k)
    small[k] = s->r->nodes[k].num_out && bytes_begun(s, &s->r->nodes[k], k) <= PLAN_ALIGNMENT;
  /* A node moves up past nodes that were dealt with. */
  for (uint32_t k = 0; !status && s->work && k < s->r->num_nodes; ++k)
    if (small[k]) status = move_up(s, t, k);
  host_free(&s->r->memory, small);
  return status;
}

tn_status pass_early(schedule *s) {
  const uint32_t before = s->num_changes;
  const uint64_t live = s->plan.live_bytes;
  const size_t places = (size_t)s->r->num_buffers + 1;
  touched t = {.read = host_alloc(&s->r->memory, 2 * places * sizeof *t.read)};
  if (!t.read) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  t.written = t.read + places;
  tn_status status = move_all(s, &t);
  host_free(&s->r->memory, t.read);
  if (!status) status = schedule_measure(s);
  return !status && s->plan.live_bytes >= live ? schedule_undo(s, before) : status;
}

/* --- in parts --- */

/* Of what is in use at once: what is worth a node of its own, and what all of them must gain. */
enum { LARGE_SHARE = 32, LEAST_SHARE = 64 };

static uint32_t num_lists(const record_node *n, uint32_t length) { return n->num_inout / length; }

/* The part of a step that concerns those of its tensors that `taken` says. */
static tn_status add_part(schedule *s, uint32_t k, uint32_t at, const bool *taken) {
  const record_node *whole = &s->r->nodes[k];
  const uint32_t length = record_inputs(whole), lists = num_lists(whole, length);
  uint32_t *values = host_alloc(
      &s->r->memory, ((size_t)whole->num_in + whole->num_inout + whole->num_out) * sizeof *values);
  if (!values) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  record_node part = *whole, *made;
  part.in = values;
  part.num_in = part.num_inout = part.num_out = 0;
  for (uint32_t i = 0; i < length; ++i)
    if (taken[i]) values[part.num_in++] = whole->in[i];
  for (uint32_t i = 0; i < whole->num_from; ++i) values[part.num_in++] = whole->in[length + i];
  for (uint32_t i = 0; i < lists * length; ++i)
    if (taken[i % length]) values[part.num_in + part.num_inout++] = whole->in[whole->num_in + i];
  for (uint32_t i = 0; i < lists * length; ++i)
    if (taken[i % length]) values[part.num_in + part.num_inout + part.num_out++] = whole->out[i];
  tn_status status = schedule_add(s, &part, &s->notes[k], at, &made);
  host_free(&s->r->memory, values);
  return status;
}

/* Whether each tensor of the step stands in all lists, each with a buffer of its own. */
static bool is_step(const record_node *n) {
  const uint32_t length = record_inputs(n);
  return n->op->shape == TN_SHAPE_UPDATE_LISTS && length > 1 && n->num_inout % length == 0 &&
         n->num_out == n->num_inout;
}

static bool is_large(const schedule *s, uint32_t value) {
  const planned_buffer *b = &s->plan.buffers[s->r->values[value].buffer];
  return b->place == PLACE_PLANNED && b->bytes >= s->plan.live_bytes / LARGE_SHARE;
}

static tn_status split(schedule *s, uint32_t *k) {
  const uint32_t length = record_inputs(&s->r->nodes[*k]);
  uint32_t rest = length;
  bool *taken = host_alloc(&s->r->memory, 2 * (size_t)length), *left = taken + length;
  if (!taken) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  tn_status status = TN_OK;
  memset(left, true, length);
  for (uint32_t i = 0; !status && rest > 1 && i < length; ++i) {
    if (!is_large(s, s->r->nodes[*k].in[i])) continue;
    taken[i] = true;
    status = add_part(s, *k, *k, taken);
    taken[i] = left[i] = false;
    --rest;
    ++*k;
  }
  if (!status && rest < length) {
    status = add_part(s, *k, *k, left);
    ++*k;
    if (!status) status = schedule_silence(s, *k);
  }
  host_free(&s->r->memory, taken);
  return status;
}

tn_status pass_split(schedule *s) {
  const uint32_t before = s->num_changes;
  const uint64_t live = s->plan.live_bytes;
  tn_status status = TN_OK;
  for (uint32_t k = 0; !status && k < s->r->num_nodes; ++k)
    if (is_step(&s->r->nodes[k])) status = split(s, &k);
  if (status || s->num_changes == before) return status;
  status = schedule_measure(s);
  if (!status) status = pass_early(s);
  bool gains = s->plan.live_bytes < live - live / LEAST_SHARE;
  return !status && !gains ? schedule_undo(s, before) : status;
}
