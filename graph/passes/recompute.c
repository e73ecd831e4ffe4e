/*
 * Computing again rather than keeping (Chen et al. 2016, arXiv 1604.06174, who choose by hand): of
 * what is kept across the node where most is in use, the cheapest for its bytes is computed again
 * in front of its next reader, if that makes the plan smaller there and nowhere larger. What it is
 * computed from and what is gone by then is computed again too.
 */
#include "graph/passes/schedule.h"

/* Buffers below are not worth a call. */
enum { LEAST_BYTES = 16 << 10 };
/* Nodes one behind another that are computed again for one value. */
enum { DEEPEST = 4 };

static const uint64_t IMPOSSIBLE = UINT64_MAX;

/* Where a buffer is used, by nodes, seen from the fullest one. */
typedef struct buffer_uses {
  uint32_t maker, first_write, last_write;
  uint32_t last, next; /* use of all, and behind the fullest node; TN_GRAPH_NONE */
  bool before, now;    /* it is used in front of it, and at it */
  bool given;          /* an output of the program's */
} buffer_uses;

typedef struct recomputing {
  schedule *s;
  uint32_t full;       /* the node at which most is in use */
  uint64_t most, left; /* what a run may cost, and how much of that is left */
  buffer_uses *uses;   /* by buffer */
  size_t max_uses;
  uint32_t num_buffers; /* that there were when it was filled */
} recomputing;

static void use(recomputing *c, uint32_t value, uint32_t k, bool written) {
  if (value == TN_GRAPH_NONE) return;
  buffer_uses *u = &c->uses[c->s->r->values[value].buffer];
  u->last = k;
  u->before |= k < c->full;
  u->now |= k == c->full;
  if (k > c->full && u->next == TN_GRAPH_NONE) u->next = k;
  if (!written) return;
  u->maker = u->last_write = k;
  if (u->first_write == TN_GRAPH_NONE) u->first_write = k;
}

static tn_status look(recomputing *c) {
  const record *r = c->s->r;
  if (c->max_uses < r->num_buffers) {
    host_free(&r->memory, c->uses);
    c->max_uses = 2 * (size_t)r->num_buffers;
    c->uses = host_alloc(&r->memory, c->max_uses * sizeof *c->uses);
    if (!c->uses) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
  }
  for (uint32_t i = 0; i < r->num_buffers; ++i)
    c->uses[i] = (buffer_uses){TN_GRAPH_NONE, TN_GRAPH_NONE, TN_GRAPH_NONE, TN_GRAPH_NONE,
                               TN_GRAPH_NONE, false,         false,         false};
  c->full = c->s->plan.live_node;
  c->num_buffers = r->num_buffers;
  for (uint32_t k = 0; k < r->num_nodes; ++k) {
    const record_node *n = &r->nodes[k];
    if (!c->s->plan.runs[k]) continue;
    for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) use(c, n->in[i], k, false);
    for (uint32_t i = 0; i < n->num_out; ++i) use(c, n->out[i], k, true);
  }
  for (uint32_t i = 0; i < r->num_outputs; ++i)
    c->uses[r->values[r->outputs[i].value].buffer].given = true;
  return TN_OK;
}

/* --- which --- */

/* Whether what node k read of a buffer is there unchanged at `at`, as far as writes go. */
static bool is_unchanged(const buffer_uses *u, uint32_t k, uint32_t at) {
  return u->last_write == TN_GRAPH_NONE || u->last_write <= k || u->first_write >= at;
}

/* Whether a buffer would have to be kept for it: nobody uses it at the fullest node or later. */
static bool would_be_kept(const recomputing *c, uint32_t buffer) {
  const planned_buffer *b = &c->s->plan.buffers[buffer];
  return b->place == PLACE_PLANNED && c->uses[buffer].last < c->full;
}

/* What it costs to run node k in front of `at`, with all that is to be computed again for that. */
static uint64_t cost_of(const recomputing *c, uint32_t k, uint32_t at, int depth) {
  const record_node *n = &c->s->r->nodes[k];
  uint64_t cost = c->s->notes[k].cost;
  if (!c->s->notes[k].pure) return IMPOSSIBLE;
  for (uint32_t i = 0; i < n->num_in; ++i) {
    if (n->in[i] == TN_GRAPH_NONE) continue;
    const uint32_t buffer = c->s->r->values[n->in[i]].buffer;
    const buffer_uses *u = &c->uses[buffer];
    if (!is_unchanged(u, k, at)) return IMPOSSIBLE;
    if (!would_be_kept(c, buffer)) continue;
    uint64_t before = depth < DEEPEST ? cost_of(c, u->maker, at, depth + 1) : IMPOSSIBLE;
    if (before != IMPOSSIBLE) cost += before; /* else it is kept, and what is gained is counted */
  }
  return cost;
}

static bool is_candidate(const recomputing *c, uint32_t buffer) {
  const planned_buffer *b = &c->s->plan.buffers[buffer];
  const buffer_uses *u = &c->uses[buffer];
  return b->place == PLACE_PLANNED && b->bytes >= LEAST_BYTES && u->before && !u->now &&
         !u->given && u->next != TN_GRAPH_NONE && u->maker != TN_GRAPH_NONE &&
         u->first_write == u->last_write && c->s->notes[u->maker].pure &&
         !c->s->notes[u->maker].refused;
}

/* The buffer that is the cheapest to compute again for its bytes; false where there is none. */
static bool choose(const recomputing *c, uint32_t *buffer) {
  double best = 0;
  for (uint32_t i = 0; i < c->s->r->num_buffers; ++i) {
    if (!is_candidate(c, i)) continue;
    uint64_t own = cost_of(c, c->uses[i].maker, c->uses[i].next, 0);
    double gain = own > c->left ? 0 : (double)c->s->plan.buffers[i].bytes / (double)own;
    if (gain <= best) continue;
    best = gain;
    *buffer = i;
  }
  return best > 0;
}

/* --- doing it --- */

/* Nodes are added in front of `at`, so those that were stay in front of the ones added before. */
static tn_status repeat(const recomputing *c, uint32_t k, uint32_t at, int depth) {
  const record *r = c->s->r;
  tn_status status = schedule_repeat(c->s, k, at);
  const uint32_t num_nodes = r->num_nodes, num_in = r->nodes[k].num_in;
  for (uint32_t i = 0; !status && i < num_in; ++i) {
    const record_node *again = &r->nodes[at + (r->num_nodes - num_nodes)];
    if (again->in[i] == TN_GRAPH_NONE) continue;
    const uint32_t buffer = r->values[again->in[i]].buffer;
    if (buffer >= c->num_buffers || !would_be_kept(c, buffer) || depth == DEEPEST) continue;
    const uint32_t maker = c->uses[buffer].maker;
    if (cost_of(c, maker, at, depth + 1) != IMPOSSIBLE) status = repeat(c, maker, at, depth + 1);
  }
  return status;
}

static uint64_t cost_of_run(const schedule *s) {
  uint64_t cost = 0;
  for (uint32_t k = 0; k < s->r->num_nodes; ++k)
    if (s->plan.runs[k]) cost += s->notes[k].cost;
  return cost;
}

/* Computes a buffer again, unless that gains nothing. Where nobody read it before, it is computed
 * later, and costs nothing. */
static tn_status attempt(recomputing *c, uint32_t buffer) {
  schedule *s = c->s;
  const uint32_t changes = s->num_changes, maker = c->uses[buffer].maker;
  const uint64_t most = s->plan.live_bytes, here = s->plan.live[c->full];
  tn_status status = repeat(c, maker, c->uses[buffer].next, 0);
  if (!status) status = schedule_measure(s);
  if (status) return status;
  const uint64_t cost = cost_of_run(s);
  if (cost <= c->most && s->plan.live_bytes <= most && s->plan.live[c->full] < here) {
    c->left = c->most - cost;
    return TN_OK;
  }
  s->notes[maker].refused = true;
  return schedule_undo(s, changes);
}

tn_status pass_recompute(schedule *s, uint32_t percent) {
  recomputing c = {.s = s, .left = cost_of_run(s) / 100 * percent};
  c.most = cost_of_run(s) + c.left;
  uint32_t kept = s->num_changes, buffer = 0;
  uint64_t least = s->plan.live_bytes;
  tn_status status = look(&c);
  while (!status && s->work && choose(&c, &buffer)) {
    status = attempt(&c, buffer);
    if (!status && s->plan.live_bytes < least) {
      least = s->plan.live_bytes;
      kept = s->num_changes;
    }
    if (!status) status = look(&c);
  }
  /* What lowered one of several equal peaks, and not the last of them, was for nothing. */
  if (!status) status = schedule_undo(s, kept);
  host_free(&s->r->memory, c.uses);
  return status;
}
