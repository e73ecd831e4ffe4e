/*
 * Chains: several calls on the same tensors, in several streams, in place, prepared, through
 * views, with tensors released while work on them is pending. The numbers are small whole ones
 * and stay so small that every type holds them: whatever the order of sums, device and reference
 * must agree in every bit.
 *
 *   chain f32 seed=7; 0 = new [3,4]; 1 = neg 0 @1 prepared; 2 = add 0 1; 3 = free 1
 */
#include "chain.h"

#include <string.h>

#include "../cases/number.h"

const char *const chain_ways[WAYS] = {"", "given", "prepared", "in-place"};

const chain_call chain_calls[CHAIN_CALLS] = {
    {"new", KIND_NEW, 0},
    {"neg", KIND_UNARY, TN_OP_NEG},
    {"abs", KIND_UNARY, TN_OP_ABS},
    {"relu", KIND_UNARY, TN_OP_RELU},
    {"copy", KIND_UNARY, TN_OP_COPY},
    {"add", KIND_BINARY, TN_OP_ADD},
    {"sub", KIND_BINARY, TN_OP_SUB},
    {"mul", KIND_BINARY, TN_OP_MUL},
    {"maximum", KIND_BINARY, TN_OP_MAXIMUM},
    {"minimum", KIND_BINARY, TN_OP_MINIMUM},
    {"sum", KIND_SUM, TN_OP_SUM},
    {"matmul", KIND_MATMUL, TN_OP_MATMUL},
    {"slice", KIND_SLICE, 0},
    {"turn", KIND_TURN, 0},
    {"free", KIND_FREE, 0},
};

/* Whole numbers up to this are exact, and so are their sums. */
static double exact_to(tn_dtype dtype) {
  if (dtype == TN_F16) return 1024;
  if (dtype == TN_BF16) return 128;
  if (dtype == TN_F32 || dtype == TN_F64) return 4194304;
  return number_is_signed(dtype) ? (double)number_max_int(dtype) / 2 : 0;
}

static double max_of(double a, double b) { return a > b ? a : b; }

/* The shape that both broadcast to. */
static bool broadcast(const known *a, const known *b, known *y) {
  y->rank = a->rank > b->rank ? a->rank : b->rank;
  for (int32_t k = 1; k <= y->rank; k++) {
    int64_t of_a = k <= a->rank ? a->shape[a->rank - k] : 1;
    int64_t of_b = k <= b->rank ? b->shape[b->rank - k] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    y->shape[y->rank - k] = of_a == 1 ? of_b : of_a;
  }
  return true;
}

static bool infer_binary(const chain_line *l, const known *a, const known *b, known *y) {
  bool product = chain_calls[l->what].op == TN_OP_MUL;
  y->most = product ? a->most * b->most : a->most + b->most;
  return broadcast(a, b, y);
}

static bool infer_matmul(const known *a, const known *b, known *y) {
  if (a->rank != 2 || b->rank != 2 || a->shape[1] != b->shape[0]) return false;
  *y = (known){.rank = 2, .shape = {a->shape[0], b->shape[1]}};
  y->most = max_of(a->most, 1) * max_of(b->most, 1) * (double)max_of((double)a->shape[1], 1);
  return true;
}

/* Along the last axis, which goes. */
static bool infer_sum(const known *a, known *y) {
  if (a->rank == 0) return false;
  *y = (known){.rank = a->rank - 1, .shape = {a->shape[0]}};
  y->most = max_of(a->most, 1) * max_of((double)a->shape[a->rank - 1], 1);
  return true;
}

/* Every second element of the last axis, but for the first; and the axes the other way round. */
static bool infer_view(line_kind kind, const known *a, known *y) {
  if (kind == KIND_TURN && a->rank != 2) return false;
  if (kind == KIND_SLICE && (a->rank == 0 || a->shape[a->rank - 1] < 2)) return false;
  *y = *a;
  y->is_view = true;
  if (kind == KIND_SLICE) y->shape[y->rank - 1] /= 2;
  if (kind == KIND_TURN) y->shape[0] = a->shape[1], y->shape[1] = a->shape[0];
  return true;
}

static bool same_shape(const known *a, const known *b) {
  return a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

static bool shares_memory(const known *all, uint32_t root, uint32_t upto, uint32_t but) {
  for (uint32_t i = 0; i < upto; i++)
    if (i != but && all[i].there && all[i].root == root) return true;
  return false;
}

/* In place a call writes over its first input, whose line it takes over; no view of that may be
 * alive, whose numbers would change. */
static bool infer_in_place(const chain *c, uint32_t at, known *all) {
  uint32_t over = (uint32_t)c->line[at].in[0];
  const int8_t second = c->line[at].in[1];
  line_kind what = chain_calls[c->line[at].what].kind;
  if (what != KIND_UNARY && what != KIND_BINARY) return false;
  if (!same_shape(&all[at], &all[over])) return false;
  if (shares_memory(all, all[over].root, at, over)) return false;
  if (second >= 0 && (uint32_t)second == over && what == KIND_BINARY) return false;
  all[at].root = all[over].root;
  all[at].is_view = all[over].is_view;
  all[over].there = false;
  return true;
}

uint32_t chain_inputs(line_kind kind) {
  return kind == KIND_NEW ? 0 : kind == KIND_BINARY || kind == KIND_MATMUL ? 2 : 1;
}

bool chain_infer(const chain *c, uint32_t at, known *all) {
  const chain_line *l = &c->line[at];
  line_kind kind = chain_calls[l->what].kind;
  known *y = &all[at];
  const known *in[2] = {NULL, NULL};
  *y = (known){0};
  for (uint32_t i = 0; i < chain_inputs(kind); i++) {
    if (l->in[i] < 0 || (uint32_t)l->in[i] >= at || !all[l->in[i]].there) return false;
    in[i] = &all[l->in[i]];
  }
  bool ok = true;
  if (kind == KIND_FREE) return all[l->in[0]].there = false, true;
  if (kind == KIND_NEW)
    *y = (known){.rank = l->rank, .shape = {l->shape[0], l->shape[1]}, .most = 3};
  if (kind == KIND_UNARY) *y = *in[0], y->is_view = false;
  if (kind == KIND_BINARY) ok = infer_binary(l, in[0], in[1], y);
  if (kind == KIND_MATMUL) ok = infer_matmul(in[0], in[1], y);
  if (kind == KIND_SUM) ok = infer_sum(in[0], y);
  if (kind == KIND_SLICE || kind == KIND_TURN) ok = infer_view(kind, in[0], y);
  y->there = ok;
  y->root = ok && y->is_view ? in[0]->root : at;
  if (!ok || y->most > exact_to(c->dtype)) return false;
  return l->way != WAY_IN_PLACE || infer_in_place(c, at, all);
}

bool chain_is_sound(const chain *c) {
  known all[CHAIN_STEPS];
  for (uint32_t i = 0; i < c->count; i++)
    if (!chain_infer(c, i, all)) return false;
  return c->count > 0;
}

/* --- making one up --- */

static bool has_kernel(tn_device *device, uint32_t op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return op == 0 || tn_kernel_find(device, op, dtype, 0, &info) == TN_OK;
}

static bool is_wanted(const workbench *w, tn_dtype dtype) {
  const tn_dtype types[TN_MAX_TYPE_VARS] = {dtype};
  return unit_takes_types(w->options, types);
}

static void draw_new(chain_line *l, uint64_t *state) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 33, 64, 129, 1000};
  static const uint32_t usual[2] = {2, 4}; /* of each chain few sizes, so that tensors fit */
  l->rank = 1 + (int32_t)fuzz_below(state, 2);
  for (int k = 0; k < l->rank; k++)
    l->shape[k] = sizes[fuzz_below(state, 4) ? usual[fuzz_below(state, 2)] : fuzz_below(state, 11)];
}

static void draw_line(chain *c, const workbench *w, uint64_t *state) {
  chain_line *l = &c->line[c->count];
  known all[CHAIN_STEPS];
  for (int tries = 0; tries < 30; tries++) {
    *l = (chain_line){.in = {-1, -1}};
    l->what = c->count < 2 ? 0 : (uint8_t)fuzz_below(state, CHAIN_CALLS);
    if (!has_kernel(w->device, chain_calls[l->what].op, c->dtype)) continue;
    l->stream = (uint8_t)fuzz_below(state, STREAMS);
    if (chain_calls[l->what].op && fuzz_below(state, 2)) l->way = (uint8_t)fuzz_below(state, WAYS);
    if (chain_calls[l->what].kind == KIND_NEW) draw_new(l, state);
    for (uint32_t i = 0; i < chain_inputs(chain_calls[l->what].kind); i++)
      l->in[i] = (int8_t)fuzz_below(state, c->count);
    bool ok = true;
    for (uint32_t i = 0; ok && i <= c->count; i++) ok = chain_infer(c, i, all);
    if (!ok) continue;
    c->count++;
    return;
  }
}

bool chain_invent(const workbench *w, const check_options *o, uint64_t *state, chain *c) {
  static const tn_dtype types[] = {TN_F32, TN_F32, TN_I32, TN_I64, TN_F16, TN_BF16, TN_F64};
  *c = (chain){.dtype = types[fuzz_below(state, 7)]};
  c->seed = fuzz_random(state) % 1000000;
  uint32_t kernels = 0, wanted = 4 + fuzz_below(state, CHAIN_STEPS - 4);
  for (int i = 0; i < CHAIN_CALLS; i++)
    kernels += chain_calls[i].op && has_kernel(w->device, chain_calls[i].op, c->dtype);
  if (o->op || !is_wanted(w, c->dtype) || !kernels) return false;
  for (uint32_t i = 0; i < wanted; i++) draw_line(c, w, state);
  return c->count > 2;
}

bool chain_without(const chain *c, uint32_t line, chain *less) {
  int8_t now[CHAIN_STEPS];
  *less = *c;
  less->count = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    chain_line l = c->line[i];
    bool gone = i == line;
    for (uint32_t k = 0; k < chain_inputs(chain_calls[l.what].kind); k++) {
      gone |= now[l.in[k]] < 0;
      if (!gone) l.in[k] = now[l.in[k]];
    }
    now[i] = gone ? -1 : (int8_t)less->count;
    if (!gone) less->line[less->count++] = l;
  }
  return chain_is_sound(less);
}
