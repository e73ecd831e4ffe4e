/*
 * Every rule of api/gradients/ against central differences in float64, on the shapes, attributes
 * and broadcasts of the conformance kit's cases.
 *
 *     test_differences                     every operator
 *     test_differences 'conv*' softmax     those that fit a glob
 *     test_differences --list [GLOB...]    with a line for each operator
 *     test_differences --second ...        second derivatives: rules of what rules call
 *
 * Fails where a gradient is off by more than 1e-6 of its terms' sizes, where an operator's row
 * says that no rule was written yet, where one that stops gradients lets differences through, and
 * where a rule was reached by no case.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "tenon/tenon.h"
#include "tools/check/cases/number.h"
#include "trial.h"

enum { CASES = 44, DEGENERATE = 20, ELEMENTS = 300, FAILURES_SHOWN = 3, DRAWS = 6 };
enum { SECOND_CASES = 12, SECOND_DEGENERATE = 6 };

/* What came of one operator. */
typedef struct outcome {
  uint64_t cases, compared, refused, declined, empty, uneven, failures;
  double worst;
  char refusal[512];
} outcome;

/* Cases of an operator that are small enough and differ in more than their numbers. */
typedef struct collection {
  const tn_operator *op;
  op_case *cases;
  size_t count, room;
  uint64_t *seen;
  size_t num_seen;
} collection;

static bool list, second;

/* Elements that are alike would decide together. */
static bool has_ties(const tn_operator *op) {
  static const char *const names[] = {
      "max",        "min",        "cummax",        "sort",    "topk",    "norm",
      "*max_pool*", "scatter_m*", "scatter_nd_m*", "maximum", "minimum", "unique",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (!fnmatch(names[i], op->name, 0)) return true;
  return false;
}

static bool has_nan(const op_case *c) {
  for (uint32_t i = 0; i < c->op->num_attrs; ++i) {
    const double value = case_get(c, c->op->attrs[i].name, 0);
    if (c->op->attrs[i].type == TN_ATTR_F64 && value != value) return true;
  }
  return false;
}

static bool is_small(const op_case *c) {
  for (uint32_t i = 0; i < c->op->num_args; ++i)
    if (!arg_is_output(&c->op->args[i]) && !c->arg[i].absent &&
        case_elements(&c->arg[i]) > ELEMENTS)
      return false;
  return true;
}

/* Of what tells the case from others of the operator: all but how its numbers are drawn. */
static uint64_t hash_of(const op_case *c) {
  char text[1024];
  uint64_t hash = 1;
  case_describe(c, text, sizeof text);
  char *end = strstr(text, " values=");
  if (end) *end = 0;
  for (const char *at = text; *at; ++at) hash = case_mix(hash ^ (unsigned char)*at);
  return hash;
}

static bool is_new(collection *all, uint64_t hash) {
  for (size_t i = 0; i < all->num_seen; ++i)
    if (all->seen[i] == hash) return false;
  all->seen = realloc(all->seen, (all->num_seen + 1) * sizeof *all->seen);
  if (!all->seen) abort();
  all->seen[all->num_seen++] = hash;
  return true;
}

static void collect(void *context, const op_case *c) {
  collection *all = context;
  if (!is_small(c) || has_nan(c)) return;
  if (all->num_seen >= 4000 || !is_new(all, hash_of(c))) return;
  if (all->count == all->room) {
    all->room = all->room ? 2 * all->room : 64;
    all->cases = realloc(all->cases, all->room * sizeof *all->cases);
    if (!all->cases) abort();
  }
  all->cases[all->count++] = *c;
}

/* Points away from kinks, drawn anew where there was one after all. */
static verdict run_case(tn_device *device, const op_case *c, unsigned number, outcome *o) {
  trial t = {
      .device = device, .c = c, .variant = number, .second = second, .tied = has_ties(c->op)};
  verdict v = TRIAL_UNEVEN;
  for (unsigned draw = 0; v == TRIAL_UNEVEN && draw < DRAWS; ++draw) {
    t.seed = case_mix(c->op->id * 100000u + number * 10 + draw);
    v = trial_run(&t);
  }
  ++o->cases;
  o->compared += t.compared;
  if (t.worst > o->worst && v == TRIAL_HELD) o->worst = t.worst;
  o->declined += v == TRIAL_DECLINED;
  o->empty += v == TRIAL_EMPTY;
  o->uneven += v == TRIAL_UNEVEN;
  if (v == TRIAL_REFUSED && !o->refused++)
    snprintf(o->refusal, sizeof o->refusal, "%s", tn_last_error());
  if (v == TRIAL_WRONG && o->failures++ < FAILURES_SHOWN) printf("%s\n", t.text);
  return v;
}

/* Evenly `most` of those collected from `first` on. */
static void run_some(tn_device *device, const collection *all, size_t first, size_t most,
                     outcome *o) {
  const size_t count = all->count - first, n = count < most ? count : most;
  for (size_t i = 0; i < n; ++i) {
    const size_t at = first + i * count / n;
    run_case(device, &all->cases[at], (unsigned)(first + i), o);
    if (o->failures > 20) return;
  }
}

/* Element types: float64 where there is a choice, and of an index its two types in turn. */
static bool choose_types(const tn_operator *op, unsigned round, tn_dtype *types) {
  bool floats = false;
  for (int i = 0; i < TN_MAX_TYPE_VARS; ++i) {
    const tn_dtype_set set = op->types[i];
    types[i] = TN_F32;
    if (!set) continue;
    if (set >> TN_F64 & 1)
      types[i] = TN_F64;
    else if (set >> TN_I64 & 1 && !(round & 1 && set >> TN_I32 & 1))
      types[i] = TN_I64;
    else
      for (int d = TN_BOOL; d <= TN_F64; ++d)
        if (set >> d & 1) types[i] = (tn_dtype)d;
    floats |= types[i] == TN_F64;
  }
  return floats;
}

static void run_operator(tn_device *device, const tn_operator *op, outcome *o) {
  tn_dtype types[TN_MAX_TYPE_VARS];
  collection all = {.op = op};
  const case_sink sink = {collect, &all};
  if (!choose_types(op, 0, types) || op->flags & TN_OPERATOR_DATA_DEPENDENT) return;
  cases_emit(op, types, sink);
  run_some(device, &all, 0, second ? SECOND_CASES : CASES, o);
  const size_t first = all.count;
  choose_types(op, 1, types);
  cases_degenerate(op, types, sink);
  run_some(device, &all, first, second ? SECOND_DEGENERATE : DEGENERATE, o);
  free(all.cases);
  free(all.seen);
}

/* A plugin's own operator has no row, but may have a rule. */
static row_kind kind_of(const tn_operator *op) { return op->gradient ? ROW_RULE : row_of(op->id); }

/* Whether what refused a second derivative is an operator whose row says so. */
static bool is_deliberate(tn_runtime *rt, const char *refusal) {
  char words[128];
  for (size_t i = 0; i < tn_op_count(rt); ++i) {
    snprintf(words, sizeof words, "tn_%s has no gradient", tn_op_at(rt, i)->name);
    if (kind_of(tn_op_at(rt, i)) == ROW_REFUSES && strstr(refusal, words)) return true;
  }
  return false;
}

static const char *judge_second(tn_runtime *rt, const outcome *o) {
  if (o->failures) return "second derivatives are wrong";
  if (o->refused && !is_deliberate(rt, o->refusal)) return o->refusal;
  if (o->uneven > o->cases / 50) return "too many cases are at kinks or not finite";
  return NULL;
}

/* The first thing that is wrong with the operator's row, or NULL. */
static const char *judge(const tn_operator *op, const outcome *o) {
  const row_kind kind = kind_of(op);
  if (o->failures) return "gradients are wrong";
  if (kind == ROW_UNWRITTEN) return "no rule was written yet";
  if (kind == ROW_NONE) return "has no row in api/gradients/";
  if (kind == ROW_RULE && o->refused) return o->refusal;
  /* A graph has the largest shape of what depends on data: test_masked.c takes those by tape. */
  if (op->flags & TN_OPERATOR_DATA_DEPENDENT) return NULL;
  if (kind == ROW_RULE && !o->compared) return "its rule was reached by no case";
  if (kind == ROW_REFUSES && o->cases > o->empty + o->declined && !o->refused)
    return "its row refuses, but a gradient was given";
  if (o->uneven > o->cases / 50) return "too many cases are at kinks or not finite";
  return NULL;
}

static void print_row(const tn_operator *op, const outcome *o) {
  static const char *const kinds[] = {"-", "rule", "stops", "refuses", "UNWRITTEN"};
  printf("%-36s %-9s %4llu cases %6llu derivatives, worst %.1e", op->name, kinds[kind_of(op)],
         (unsigned long long)o->cases, (unsigned long long)o->compared, o->worst);
  if (o->refused) printf(", %llu refused", (unsigned long long)o->refused);
  if (o->declined) printf(", %llu declined", (unsigned long long)o->declined);
  if (o->empty) printf(", %llu without floats", (unsigned long long)o->empty);
  if (o->uneven) printf(", %llu uneven", (unsigned long long)o->uneven);
  printf("\n");
}

static bool is_chosen(const char *name, int count, char **globs) {
  for (int i = 0; i < count; ++i)
    if (!fnmatch(globs[i], name, 0)) return true;
  return count == 0;
}

static int run_all(tn_runtime *rt, int count, char **globs) {
  uint64_t cases = 0, compared = 0, failed = 0;
  for (size_t i = 0; i < tn_op_count(rt); ++i) {
    const tn_operator *op = tn_op_at(rt, i);
    outcome o = {0};
    if (!is_chosen(op->name, count, globs)) continue;
    /* Runs of a program draw on, where differences need one function. */
    if (second && (kind_of(op) != ROW_RULE || op->flags & TN_OPERATOR_RANDOM)) continue;
    run_operator(tn_runtime_device(rt), op, &o);
    cases += o.cases;
    compared += o.compared;
    const char *why = second ? judge_second(rt, &o) : judge(op, &o);
    if (list) print_row(op, &o);
    if (why) printf("FAILED %s: %s\n", op->name, why);
    failed += why != NULL;
  }
  printf("%llu cases, %llu directional derivatives, %llu operators failed\n",
         (unsigned long long)cases, (unsigned long long)compared, (unsigned long long)failed);
  const bool few = count == 0 && !second && cases < 5000;
  if (few) printf("FAILED: less than 5000 cases\n");
  return failed || few ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .plugins = getenv("TENON_PLUGINS") ? NULL : "reference",
                                      .device = "reference"};
  tn_runtime *rt = NULL;
  int options_given = 0;
  for (int i = 1; i < argc && !strncmp(argv[i], "--", 2); ++i, ++options_given) {
    list |= !strcmp(argv[i], "--list");
    second |= !strcmp(argv[i], "--second");
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (tn_runtime_open(&options, &rt)) return fprintf(stderr, "%s\n", tn_last_error()), 1;
  const int result = run_all(rt, argc - 1 - options_given, argv + 1 + options_given);
  tn_runtime_close(rt);
  return result;
}
