/*
 * A kernel whose row has a `supports` leaves some calls to the next one, and nobody outside can
 * see where the line runs. So sizes of cases are grown and shrunk, one after the other, and the
 * call prepared each time by every kernel that takes it: where the list of those changes, be it
 * at its end, the line is found by bisection. Sizes that are alike in a case mostly hang together
 * (a matrix' columns and the next one's rows), so they change together, else in pairs, else alone;
 * what the shape rule then refuses is no step. The budget is counted in cases, steps and elements,
 * never in time.
 */
#include "thresholds.h"

#include <stdlib.h>
#include <string.h>

/* Cases to start from for one choice of types; sizes tried and lines followed in each, for every
 * kernel that is watched; elements of an argument. */
enum { BASES = 20, GROUPS = 24, LINES = 2, ELEMENTS = 1 << 18, POSITIONS = 24 };
enum { TERMS = 1 << 24 };

/* Lines that one size may lead across: each kernel may draw its own. */
enum { CROSSINGS = 4 };

/* Elementwise calls are cheap, and kernels for many threads or streams begin late. */
enum { ELEMENTS_OF_MAPS = 1 << 21 };

/* What a size is multiplied by from one look to the next: a kernel that takes a shorter stretch
 * of sizes than this may be overlooked. */
enum { STRIDE = 8 };

/* Sizes that change together: places of arguments and axes. */
typedef struct group {
  int64_t size;
  uint32_t count;
  struct {
    uint8_t arg, axis;
  } at[POSITIONS];
} group;

typedef struct bases {
  op_case *list;
  uint32_t count;
} bases;

/* The kernels that take a call, best first: how many, and a number that stands for their names.
 * Status TN_ERR_UNSUPPORTED where there is none. */
typedef struct answer {
  tn_status status;
  uint32_t count;
  uint64_t names;
} answer;

/* --- asking --- */

static int64_t most_elements(const tn_operator *op) {
  return op->flags & TN_OPERATOR_ELEMENTWISE ? ELEMENTS_OF_MAPS : ELEMENTS;
}

static bool is_small(const op_case *c) {
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    int64_t n = 1;
    for (int32_t d = 0; d < c->arg[i].rank; d++)
      if (__builtin_mul_overflow(n, c->arg[i].shape[d], &n) || n > most_elements(c->op))
        return false;
  }
  return true;
}

static tn_status make_inputs(const op_case *c, tn_device *device, tn_tensor **t) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < c->op->num_args && status == TN_OK; i++)
    if (!c->arg[i].absent && !arg_is_output(&c->op->args[i]))
      status = tn_tensor_empty(device, case_dtype(c, i), c->arg[i].rank, c->arg[i].shape, &t[i]);
  return status;
}

static tn_status prepare(const op_case *c, tn_tensor **t, uint32_t rank, tn_prepared **p) {
  const uint32_t num_in = op_inputs(c->op);
  tn_call call = {.struct_size = sizeof call, .op = c->op->id, .num_in = (uint16_t)num_in};
  call.in = tn_inputs(t);
  call.out = t + num_in;
  call.num_out = (uint16_t)(c->op->num_args - num_in);
  call.attrs = c->op->num_attrs ? c->attrs : NULL;
  for (uint32_t i = num_in; i < c->op->num_args; i++)
    if (c->arg[i].absent) call.skip_out |= 1u << (i - num_in);
  return tn_prepare_candidate(&call, rank, p);
}

/* Outputs no larger than inputs may be; and of a product, whose terms are the root of what its
 * tensors hold multiplied, no more than the reference does in a second or so. */
static bool is_affordable(const op_case *c, tn_tensor *const *t) {
  double product = 1;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    const int64_t elements = t[i] ? tn_tensor_elements(t[i]) : 1;
    if (elements > most_elements(c->op)) return false;
    product *= (double)(elements ? elements : 1);
  }
  return !(c->op->flags & TN_OPERATOR_ACCUMULATES) || product <= (double)TERMS * TERMS;
}

static void add_name(answer *a, const char *name) {
  for (; *name; name++) a->names = case_mix(a->names ^ (unsigned char)*name);
}

/* The kernel at one rank; the outputs that the call made serve the next rank too. */
static tn_status ask_rank(const op_case *c, tn_tensor **t, uint32_t rank, answer *a) {
  tn_prepared *p = NULL;
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_status status = prepare(c, t, rank, &p);
  if (status == TN_OK && tn_prepared_kernel(p, &info) == TN_OK) {
    a->count++;
    add_name(a, info.name);
    add_name(a, info.plugin);
  }
  tn_prepared_release(p);
  return status;
}

static answer ask(const op_case *c, const threshold_search *s) {
  tn_tensor *t[CASE_ARGS] = {0};
  answer a = {.status = is_small(c) ? make_inputs(c, s->device, t) : TN_ERR_INVALID_ARGUMENT};
  if (a.status == TN_OK) a.status = ask_rank(c, t, 0, &a);
  if (a.status == TN_OK && !is_affordable(c, t)) a.status = TN_ERR_INVALID_ARGUMENT;
  for (uint32_t rank = 1; a.status == TN_OK && rank < s->ranks; rank++)
    if (ask_rank(c, t, rank, &a) != TN_OK) break;
  for (uint32_t i = 0; i < c->op->num_args; i++) tn_tensor_release(t[i]);
  return a;
}

static bool is_call(const answer *a) {
  return a->status == TN_OK || a->status == TN_ERR_UNSUPPORTED;
}

static bool same_answer(const answer *a, const answer *b) {
  return a->status == b->status && a->count == b->count && a->names == b->names;
}

/* --- sizes --- */

static op_case resized(const op_case *c, const group *g, int64_t size) {
  op_case other = *c;
  for (uint32_t i = 0; i < g->count; i++) other.arg[g->at[i].arg].shape[g->at[i].axis] = size;
  return other;
}

static answer ask_at(const op_case *c, const group *g, int64_t size, const threshold_search *s) {
  const op_case other = resized(c, g, size);
  return ask(&other, s);
}

/* Between sizes of different answers, steps of `unit` from `low`: the last one that is answered
 * as low is, or 0 where a step between is no call. */
static int64_t bisect(const op_case *c, const group *g, int64_t low, int64_t high, int64_t unit,
                      const answer *at_low, const threshold_search *s) {
  int64_t steps = (high - low) / unit, below = 0;
  while (steps - below > 1) {
    const int64_t middle = below + (steps - below) / 2;
    const answer a = ask_at(c, g, low + middle * unit, s);
    if (!is_call(&a)) return 0;
    if (same_answer(&a, at_low))
      below = middle;
    else
      steps = middle;
  }
  return low + below * unit;
}

/* By whole multiples first, which sizes that must be divided allow, then to the very size.
 * Returns the size above the line, 0 where none was found. */
static int64_t follow_one(const op_case *c, const group *g, int64_t low, int64_t high, int64_t unit,
                          const threshold_search *s) {
  const answer at_low = ask_at(c, g, low, s);
  int64_t last = bisect(c, g, low, high, unit, &at_low, s);
  if (!last) return 0;
  const int64_t fine = unit > 1 ? bisect(c, g, last, last + unit, 1, &at_low, s) : 0;
  if (fine) last = fine, unit = 1;
  const op_case below = resized(c, g, last), above = resized(c, g, last + unit);
  const answer other = ask(&above, s);
  if (!is_call(&other) || same_answer(&at_low, &other)) return 0;
  s->found(s->ctx, &below, &above);
  return last + unit;
}

/* From low to high across all lines between, as far as the budget goes; returns how many. */
static uint32_t follow(const op_case *c, const group *g, int64_t low, int64_t high, int64_t unit,
                       const answer *at_high, const threshold_search *s) {
  uint32_t found = 0;
  while (low < high && found < CROSSINGS) {
    low = follow_one(c, g, low, high, unit, s);
    if (!low) break;
    found++;
    const answer a = ask_at(c, g, low, s);
    if (same_answer(&a, at_high)) break;
    if ((high - low) % unit) unit = 1;
  }
  return found;
}

static bool fits(const op_case *c, const group *g, int64_t size) {
  const op_case other = resized(c, g, size);
  return size <= most_elements(c->op) && is_small(&other);
}

/* How many lines were found. `usable`: whether the group may change at all. */
static uint32_t cross(const op_case *c, const group *g, const answer *here,
                      const threshold_search *s, bool *usable) {
  uint32_t found = 0;
  answer last = *here;
  *usable = false;
  for (int64_t size = g->size; found < CROSSINGS && fits(c, g, size * STRIDE); size *= STRIDE) {
    const answer next = ask_at(c, g, size * STRIDE, s);
    if (!is_call(&next)) break;
    *usable = true;
    if (!same_answer(&next, &last)) found += follow(c, g, size, size * STRIDE, g->size, &next, s);
    last = next;
  }
  const answer least = ask_at(c, g, 1, s);
  if (!is_call(&least) || same_answer(&least, here)) return found;
  return found + follow(c, g, 1, g->size, 1, here, s);
}

/* --- groups --- */

static bool size_seen(const op_case *c, uint32_t arg, int32_t axis) {
  for (uint32_t i = 0; i <= arg; i++) {
    if (c->arg[i].absent || arg_is_output(&c->op->args[i])) continue;
    for (int32_t d = 0; d < c->arg[i].rank && (i < arg || d < axis); d++)
      if (c->arg[i].shape[d] == c->arg[arg].shape[axis]) return true;
  }
  return false;
}

static group alike(const op_case *c, int64_t size) {
  group g = {.size = size};
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    if (c->arg[i].absent || arg_is_output(&c->op->args[i])) continue;
    for (int32_t d = 0; d < c->arg[i].rank; d++) {
      if (c->arg[i].shape[d] != size || g.count == POSITIONS) continue;
      g.at[g.count].arg = (uint8_t)i;
      g.at[g.count++].axis = (uint8_t)d;
    }
  }
  return g;
}

/* Parts of a group to try where all of it cannot change: a size of one argument with one of
 * another, then sizes by themselves. */
static bool part(const group *all, uint32_t index, group *g) {
  *g = (group){.size = all->size, .count = 2};
  for (uint32_t i = 0; i < all->count; i++)
    for (uint32_t k = i + 1; k < all->count; k++) {
      if (all->at[i].arg == all->at[k].arg || index--) continue;
      g->at[0] = all->at[i], g->at[1] = all->at[k];
      return true;
    }
  g->count = 1;
  if (index < all->count) g->at[0] = all->at[index];
  return index < all->count;
}

/* The lines that one size leads across; `tries` is what is left of the case's budget. */
static uint32_t try_size(const op_case *c, int64_t size, const answer *here,
                         const threshold_search *s, uint32_t *tries) {
  const group all = alike(c, size);
  group g = all;
  bool usable = false;
  --*tries;
  uint32_t found = cross(c, &g, here, s, &usable);
  if (usable || all.count == 1) return found;
  for (uint32_t i = 0; !found && *tries && part(&all, i, &g); i++, --*tries)
    found = cross(c, &g, here, s, &usable);
  return found;
}

static void search_case(const op_case *c, const threshold_search *s) {
  uint32_t lines = 0, tries = GROUPS;
  const answer here = ask(c, s);
  if (!is_call(&here)) return;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    if (c->arg[i].absent || arg_is_output(&c->op->args[i])) continue;
    for (int32_t d = 0; d < c->arg[i].rank && tries && lines < LINES * s->ranks; d++)
      if (c->arg[i].shape[d] > 0 && !size_seen(c, i, d))
        lines += try_size(c, c->arg[i].shape[d], &here, s, &tries);
  }
}

/* --- the cases to start from --- */

/* Kernels choose by attributes, ranks and what is absent; sizes are ours to change. */
static bool same_form(const op_case *a, const op_case *b) {
  if (a->op != b->op || memcmp(a->attrs, b->attrs, a->op->attrs_size) != 0) return false;
  for (uint32_t i = 0; i < a->op->num_args; i++)
    if (a->arg[i].rank != b->arg[i].rank || a->arg[i].absent != b->arg[i].absent) return false;
  return true;
}

/* How good a case is to start from: sizes that can be changed by themselves, and large ones, which
 * have less far to go, among those that leave room. */
static int64_t worth(const op_case *c) {
  int64_t count = 0, elements = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    if (c->arg[i].absent || arg_is_output(&c->op->args[i])) continue;
    for (int32_t d = 0; d < c->arg[i].rank; d++) {
      if (c->arg[i].shape[d] == 0) return 0;
      count += c->arg[i].shape[d] > 1 && !size_seen(c, i, d);
    }
    elements += case_elements(&c->arg[i]);
  }
  return count * ELEMENTS + (elements < ELEMENTS / STRIDE ? elements : 0);
}

/* Of each form the case that is worth most. */
static void keep_form(void *ctx, const op_case *c) {
  bases *b = ctx;
  uint32_t i = 0;
  if (c->op->attrs_size > sizeof c->attrs) return;
  while (i < b->count && !same_form(&b->list[i], c)) i++;
  if (i < b->count ? worth(c) > worth(&b->list[i]) : i < BASES) b->list[i] = *c;
  if (i == b->count && i < BASES) b->count++;
}

/* Up to the last kernel that leaves calls to others: those behind it take what they took. */
static uint32_t ranks_to_ask(const tn_operator *op, tn_dtype dtype, tn_device *device) {
  tn_kernel_info info = {.struct_size = sizeof info};
  uint32_t ranks = 0;
  for (uint32_t rank = 0; tn_kernel_find(device, op->id, dtype, rank, &info) == TN_OK; rank++)
    if (info.some_calls) ranks = rank + 1;
  return ranks;
}

void thresholds_search(const tn_operator *op, const tn_dtype *types, threshold_search *s) {
  s->ranks = ranks_to_ask(op, types[0], s->device);
  if (!s->ranks) return;
  bases b = {.list = calloc(BASES, sizeof *b.list)};
  if (b.list) cases_emit(op, types, (case_sink){keep_form, &b});
  for (uint32_t i = 0; i < b.count; i++)
    if (s->begin(s->ctx, &b.list[i])) search_case(&b.list[i], s);
  free(b.list);
}
