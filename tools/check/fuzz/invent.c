/*
 * Made-up cases. What hangs together in a call, its shape rule's own cases know: one of them is
 * drawn, and its sizes are exchanged for others, alike ones alike, its attributes and kind of
 * numbers for those of other cases. What the rule then declines is no case.
 */
#include <string.h>

#include "fuzz.h"

uint64_t fuzz_random(uint64_t *state) { return *state = case_mix(*state); }

uint32_t fuzz_below(uint64_t *state, uint32_t n) {
  return (uint32_t)((fuzz_random(state) >> 32) * n >> 32);
}

static bool one_in(uint64_t *state, uint32_t n) { return fuzz_below(state, n) == 0; }

/* --- what is drawn from --- */

enum { MOST_ELEMENTS = 1 << 15, POOL = 3 };

/* Of all cases of an operator and types: a few, each as likely as the others. */
typedef struct draw {
  uint64_t *state;
  uint32_t seen;
  uint32_t variants; /* those that some case has */
  op_case kept[POOL];
} draw;

static bool is_small(const op_case *c) {
  int64_t n = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (!arg_is_output(&c->op->args[i])) n += case_elements(&c->arg[i]);
  return n <= MOST_ELEMENTS / 4;
}

static void keep(void *ctx, const op_case *c) {
  draw *d = ctx;
  if (!is_small(c)) return;
  d->variants |= c->variants;
  d->seen++;
  for (uint32_t k = 0; k < POOL; k++)
    if (one_in(d->state, d->seen)) d->kept[k] = *c;
}

/* --- sizes --- */

static int64_t draw_size(uint64_t *state) {
  static const int64_t round[] = {16, 32, 64, 128, 256, 512, 1024};
  uint32_t pick = fuzz_below(state, 100);
  if (pick < 2) return 0;
  if (pick < 45) return 1 + fuzz_below(state, 9);
  if (pick < 75) return 1 + fuzz_below(state, 130);
  if (pick < 90) return 1 + fuzz_below(state, 1100);
  return round[fuzz_below(state, 7)] + (int64_t)fuzz_below(state, 3) - 1;
}

static bool has_shape(const op_case *c, uint32_t arg) {
  return !c->arg[arg].absent && !arg_is_output(&c->op->args[arg]);
}

/* One of the sizes of a case, each axis as likely as the others; -1 if it has none. */
static int64_t pick_size(const op_case *c, uint64_t *state) {
  int64_t picked = -1;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank; k++)
      if (one_in(state, ++seen)) picked = c->arg[i].shape[k];
  return picked;
}

static tn_dims *dims_of(op_case *c, const tn_attr *a) {
  return a->type == TN_ATTR_DIMS ? (tn_dims *)(void *)(c->attrs + a->offset) : NULL;
}

static void exchange_size(op_case *c, int64_t from, int64_t to) {
  for (uint32_t i = 0; i < c->op->num_args; i++)
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank; k++)
      if (c->arg[i].shape[k] == from) c->arg[i].shape[k] = to;
  for (uint32_t i = 0; i < c->op->num_attrs; i++) {
    tn_dims *dims = dims_of(c, &c->op->attrs[i]);
    for (int32_t k = 0; dims && k < dims->count && k < TN_MAX_RANK; k++)
      if (dims->dim[k] == from) dims->dim[k] = to;
  }
}

/* One axis of one argument alone, which most rules decline. */
static void change_one(op_case *c, uint64_t *state) {
  uint32_t arg = fuzz_below(state, c->op->num_args);
  case_arg *a = &c->arg[arg];
  if (!has_shape(c, arg) || a->rank == 0) return;
  a->shape[fuzz_below(state, (uint32_t)a->rank)] = one_in(state, 3) ? draw_size(state) : 1;
}

static void change_sizes(op_case *c, uint64_t *state) {
  for (uint32_t n = 1 + fuzz_below(state, 2); n; n--) {
    int64_t from = pick_size(c, state);
    if (from > 0 && (from > 1 || one_in(state, 4))) exchange_size(c, from, draw_size(state));
  }
  if (one_in(state, 6)) change_one(c, state);
}

static bool fits(const op_case *c) {
  int64_t each = c->op->flags & TN_OPERATOR_ELEMENTWISE || op_inputs(c->op) < 2 ? MOST_ELEMENTS
                                                                                : MOST_ELEMENTS / 4;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    int64_t n = 1; /* beside an axis of 0, too: there are guards around it */
    for (int32_t k = 0; has_shape(c, i) && k < c->arg[i].rank && n <= each; k++)
      n *= c->arg[i].shape[k] ? c->arg[i].shape[k] : 1;
    if (n > each) return false;
  }
  return true;
}

/* --- attributes and numbers --- */

static size_t attr_bytes(const tn_operator *op, const tn_attr *a) {
  size_t end = op->attrs_size;
  for (uint32_t i = 0; i < op->num_attrs; i++)
    if (op->attrs[i].offset > a->offset && op->attrs[i].offset < end) end = op->attrs[i].offset;
  return end - a->offset;
}

/* Attributes that say types stay: the case's arguments go by them. */
static void mix_attributes(op_case *c, const op_case *from, uint64_t *state) {
  for (uint32_t i = 0; i < c->op->num_attrs; i++) {
    const tn_attr *a = &c->op->attrs[i];
    bool types = a->type == TN_ATTR_DTYPE || a->type == TN_ATTR_RESULT;
    if (!types && one_in(state, 2))
      memcpy(c->attrs + a->offset, from->attrs + a->offset, attr_bytes(c->op, a));
    if (a->type == TN_ATTR_FLAG && one_in(state, 6))
      case_set(c, a->name, 0, case_get(c, a->name, 0) == 0);
  }
}

/* Not where many terms are summed: alike ones may cancel, and then no bound relative to the sum
 * holds. */
static void expand(op_case *c, uint64_t *state) {
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) return;
  for (uint32_t i = 0; i < op_inputs(c->op); i++)
    if (!c->arg[i].index && c->arg[i].rank && !c->arg[i].absent && one_in(state, 12))
      c->arg[i].expanded |= 1u << fuzz_below(state, (uint32_t)c->arg[i].rank);
}

/* --- types --- */

static bool has_kernel(tn_device *device, uint32_t op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return tn_kernel_find(device, op, dtype, 0, &info) == TN_OK;
}

static tn_dtype pick_type(tn_dtype_set set, uint64_t *state) {
  uint32_t seen = 0;
  tn_dtype picked = TN_DTYPE_NONE;
  for (int t = 1; t < TN_DTYPE_SLOTS; t++)
    if (set >> t & 1 && one_in(state, ++seen)) picked = (tn_dtype)t;
  return picked;
}

static bool takes(const workbench *w, const tn_operator *op, const tn_dtype *types) {
  return unit_takes_types(w->options, types) && has_kernel(w->device, op->id, types[0]) &&
         has_kernel(w->reference, op->id, types[0]);
}

/* Some choices of types have no kernel or are not wanted. */
static bool pick_types(const workbench *w, const tn_operator *op, uint64_t *state,
                       tn_dtype *types) {
  enum { DRAWS = 60 };
  for (int tries = 0; tries < DRAWS; tries++) {
    for (int v = 0; v < TN_MAX_TYPE_VARS && op->types[v]; v++)
      types[v] = pick_type(op->types[v], state);
    if (takes(w, op, types)) return true;
  }
  return false;
}

bool invent_case(const workbench *w, const tn_operator *op, uint64_t *state, op_case *c) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  draw d = {.state = state};
  if (!pick_types(w, op, state, types)) return false;
  cases_emit(op, types, (case_sink){keep, &d});
  if (!d.seen) return false;
  *c = d.kept[0];
  if (!one_in(state, 8)) change_sizes(c, state);
  if (one_in(state, 2)) mix_attributes(c, &d.kept[1], state);
  if (one_in(state, 3)) c->values = d.kept[2].values;
  expand(c, state);
  c->seed = fuzz_random(state);
  c->variants = d.variants;
  c->typical = false;
  c->invented = true;
  return fits(c);
}

/* --- whether it is one --- */

/* Indexes that point into nothing cannot be drawn. */
static bool points_nowhere(const op_case *c) {
  bool points = false, empty = false;
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    if (!has_shape(c, i)) continue;
    points |= c->arg[i].index && case_elements(&c->arg[i]);
    empty |= case_elements(&c->arg[i]) == 0;
  }
  return points && empty;
}

static tn_call call_of(const op_case *c, tn_tensor **t) {
  uint32_t num_in = op_inputs(c->op);
  tn_call call = {.struct_size = sizeof call, .op = c->op->id, .out = t + num_in};
  call.in = (const tn_tensor *const *)t;
  call.attrs = c->op->num_attrs ? c->attrs : NULL;
  call.num_in = (uint16_t)num_in;
  call.num_out = (uint16_t)(c->op->num_args - num_in);
  for (uint32_t i = num_in; i < c->op->num_args; i++)
    if (c->arg[i].absent) call.skip_out |= 1u << (i - num_in);
  return call;
}

tn_status invented_is_taken(const workbench *w, const op_case *c) {
  tn_tensor *t[CASE_ARGS] = {0};
  tn_prepared *prepared = NULL;
  tn_status status = points_nowhere(c) ? TN_ERR_UNSUPPORTED : TN_OK;
  for (uint32_t i = 0; i < c->op->num_args && status == TN_OK; i++)
    if (has_shape(c, i))
      status =
          tn_tensor_empty(w->reference, case_dtype(c, i), c->arg[i].rank, c->arg[i].shape, &t[i]);
  if (status == TN_OK) {
    const tn_call call = call_of(c, t);
    status = tn_prepare(&call, &prepared);
  }
  tn_prepared_release(prepared);
  for (uint32_t i = 0; i < c->op->num_args; i++) tn_tensor_release(t[i]);
  return status;
}
