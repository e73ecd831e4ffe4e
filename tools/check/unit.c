/*
 * One operator on one device: every choice of element types, and of each the cases of the
 * operator's shape rule. Every case is held against the reference; now and then its call
 * is made twice in deterministic mode; the typical case is spoiled into bad calls. Runs
 * come in an order that is always the same, so that where one process died another can
 * go on.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bad_calls.h"
#include "check.h"
#include "load.h"
#include "output.h"
#include "thresholds.h"

uint64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The deterministic runtime has no guards: on a device with queues the guard waits for every call
 * with a workspace, and what a kernel leaves to a queue would never be late. */
tn_status workbench_open(const check_options *o, const checked_device *d, workbench *w) {
  check_options unguarded = *o;
  unguarded.guarded = false;
  *w = (workbench){.options = o};
  tn_status status = session_open(o, d->id, false, &w->runtime);
  if (status != TN_OK) return status;
  w->device = session_device(w->runtime, d->id);
  w->reference = session_device(w->runtime, "reference");
  w->other = w->device == w->reference ? session_device(w->runtime, "cpu") : w->reference;
  status = session_open(&unguarded, d->id, true, &w->deterministic);
  if (status != TN_OK)
    tn_runtime_close(w->runtime);
  else
    w->repeating = session_device(w->deterministic, d->id);
  return status;
}

void workbench_close(workbench *w) {
  tn_runtime_close(w->deterministic);
  tn_runtime_close(w->runtime);
}

void types_text(const tn_dtype *types, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "%s", types[0] ? tn_dtype_name(types[0]) : "-");
  for (int i = 1; i < TN_MAX_TYPE_VARS && types[i] && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, ",%s", tn_dtype_name(types[i]));
}

bool unit_is_idle(const unit *u) {
  return !u->tally.runs && !u->tally.failures && !u->tally.bad_calls && !u->is_slots;
}

/* --- what is kept of each run --- */

/* An operator at work. */
typedef struct trial {
  const workbench *bench;
  const agenda *agenda;
  const tn_operator *op;
  unit *unit;
  row_choice choice;
  uint64_t number; /* of cases of these types so far */
  bool loaded;     /* a case of these types was run many times */
  op_case largest; /* of those that threads can run at once; its op is NULL: none yet */
  uint64_t largest_number;
  op_case described; /* in unit->what: most runs are of the same case as the one before */
} trial;

/* What failed beside any operator shows again with any of them. */
static void again_itself(const check_options *o, const agenda *a, const unit *u, char *text,
                         size_t size) {
  bool known = u->device < a->num_devices;
  snprintf(text, size, "tenon check%s%s%s%s", o->plugin ? " " : "", o->plugin ? o->plugin : "",
           known ? " --device " : "", known ? a->device[u->device].id : "");
}

/* Drops the last that a list names; false where there is none. */
static bool drop_expected(unit *u) {
  for (uint32_t i = u->kept; i-- > 0;) {
    if (!u->failure[i].expected) continue;
    memmove(&u->failure[i], &u->failure[i + 1], sizeof *u->failure * (--u->kept - i));
    return true;
  }
  return false;
}

check_failure *unit_keep(unit *u, bool expected) {
  if (u->kept == CHECK_KEPT && (expected || !drop_expected(u))) return NULL;
  check_failure *f = &u->failure[u->kept++];
  *f = (check_failure){.expected = expected};
  return f;
}

bool unit_fails(const unit *u) { return u->tally.failures > u->expected; }

const check_failure *unit_failure(const unit *u) {
  for (uint32_t i = 0; i < u->kept; i++)
    if (!u->failure[i].expected) return &u->failure[i];
  return NULL;
}

void unit_fail(const check_options *o, const agenda *a, unit *u, const char *text) {
  char types[64];
  u->failed[u->types[0]]++;
  check_failure *f = unit_keep(u, expect_names(o->expected, a->op[u->op].name, u->types[0]));
  if (!f) return;
  f->dtype = u->types[0];
  types_text(u->types, types, sizeof types);
  snprintf(f->text, sizeof f->text, "%s", text);
  if (u->op == CHECK_ITSELF) {
    again_itself(o, a, u, f->again, sizeof f->again);
    return;
  }
  snprintf(f->again, sizeof f->again,
           "tenon check%s%s --device %s --op %s --dtype %s --seed %llu --case %llu%s",
           o->plugin ? " " : "", o->plugin ? o->plugin : "", a->device[u->device].id,
           a->op[u->op].name, types, (unsigned long long)o->seed, (unsigned long long)u->number,
           o->large ? " --large" : "");
}

static void begin_run(trial *t, const op_case *c, const char *how) {
  unit *u = t->unit;
  snprintf(u->how, sizeof u->how, "%s", how);
  if (memcmp(&t->described, c, sizeof *c) != 0) {
    case_describe(c, u->what, sizeof u->what);
    t->described = *c;
  }
  atomic_store(&u->run_began_ns, clock_ns());
}

/* --- side effects --- */

static void blame(trial *t, const char *how, const char *what) {
  unit *u = t->unit;
  char text[1300];
  snprintf(text, sizeof text, "%s%s: %s: %s", t->agenda->device[u->device].id, how, u->what, what);
  u->tally.failures++;
  unit_fail(t->bench->options, t->agenda, u, text);
}

/* What the last case left behind in the process and in this thread; once for a choice of types. */
static void find_effects(trial *t) {
  effects_watch *w = t->bench->effects;
  char what[400];
  if (!w) return;
  if (effects_found(w, what, sizeof what)) blame(t, "", what);
  if (!output_found(what, sizeof what) || w->said & EFFECT_OUTPUT) return;
  w->said |= EFFECT_OUTPUT;
  blame(t, "", what);
}

/* Another mode would make the next run's numbers wrong. */
static void find_mode(trial *t) {
  char what[400], how[120];
  snprintf(how, sizeof how, " (%s)", t->unit->how);
  if (t->bench->effects && effects_found_mode(t->bench->effects, what, sizeof what))
    blame(t, how, what);
}

static bool before_run(void *ctx, const op_case *c, const char *how) {
  trial *t = ctx;
  find_mode(t);
  if (++t->unit->begun <= t->unit->resume) return false;
  begin_run(t, c, how);
  return true;
}

/* Where a process goes on for one that died, what others need of a run is done again, but not a
 * run at which one died. */
static case_again before_run_again(void *ctx, const op_case *c, const char *how) {
  trial *t = ctx;
  unit *u = t->unit;
  u->begun++;
  for (uint32_t i = 0; i < u->crashes; i++)
    if (u->died[i] == u->begun) return RUN_NOT;
  begin_run(t, c, how);
  return u->begun <= u->resume ? RUN_AGAIN : RUN_FIRST;
}

static void run_goes_on(void *ctx, const char *how) {
  trial *t = ctx;
  snprintf(t->unit->how, sizeof t->unit->how, "%s", how);
  atomic_store(&t->unit->run_began_ns, clock_ns());
}

static void run_failed(void *ctx, const char *text) {
  trial *t = ctx;
  unit_fail(t->bench->options, t->agenda, t->unit, text);
}

/* --- cases --- */

/* Every fourth case, and every one with work for several threads. */
static bool worth_repeating(const op_case *c, uint64_t number) {
  int64_t most = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (case_elements(&c->arg[i]) > most) most = case_elements(&c->arg[i]);
  return number % 4 == 0 || most > 4096;
}

/* Another seed draws other numbers, here and in the operator. */
static op_case seeded(const op_case *c, uint64_t seed) {
  op_case other = *c;
  if (seed == 0) return other;
  other.seed = case_mix(c->seed ^ case_mix(seed));
  if (c->op->flags & TN_OPERATOR_RANDOM)
    case_set(&other, "seed", 0, case_get(c, "seed", 0) + (double)(seed % (1u << 30)));
  return other;
}

static int64_t elements_of(const op_case *c) {
  int64_t all = 0;
  for (uint32_t i = 0; c->op && i < c->op->num_args; i++)
    if (!c->arg[i].absent) all += case_elements(&c->arg[i]);
  return all;
}

/* By threads at once. What is not tried is said, or else the kernel would pass for one that was;
 * once for an operator. */
static void run_together(trial *t, const op_case *c, const load_site *site) {
  unit *u = t->unit;
  char types[64], note[300];
  together_case(c, site, &u->tally, note, sizeof note);
  types_text(u->types, types, sizeof types);
  if (*note && !*u->note) snprintf(u->note, sizeof u->note, "%s: %s", types, note);
}

/* The first case that is typical is run many times at once, and at the end the largest. */
static void load(trial *t, const op_case *c, uint64_t number) {
  const load_site site = {t->bench->device, t->bench->repeating, t->bench->reference};
  if (elements_of(c) > elements_of(&t->largest)) t->largest = *c, t->largest_number = number;
  if (!c->typical || t->loaded) return;
  t->loaded = true;
  growth_case(c, &site, &t->unit->tally);
  run_together(t, c, &site);
}

static void load_largest(trial *t) {
  const load_site site = {t->bench->device, t->bench->repeating, t->bench->reference};
  if (!t->largest.op) return;
  t->unit->number = t->unit->tally.number = t->largest_number;
  if (!t->loaded) growth_case(&t->largest, &site, &t->unit->tally);
  run_together(t, &t->largest, &site);
  find_effects(t);
}

/* Of a sample the first of all, and what stands for its operator, are never left out. */
static bool is_wanted(const check_options *o, const op_case *c, uint64_t number) {
  if (o->has_case) return number == o->only_case;
  return o->every <= 1 || number % o->every == 0 || c->typical;
}

static void take_case(void *ctx, const op_case *c) {
  trial *t = ctx;
  const check_options *o = t->bench->options;
  uint64_t number = t->number++;
  if (!is_wanted(o, c, number)) return;
  op_case mine = seeded(c, o->seed);
  t->unit->number = t->unit->tally.number = number;
  run_case(&mine, t->bench->device, t->bench->reference, &t->unit->tally);
  if (t->bench->repeating && worth_repeating(&mine, number))
    repeat_case(&mine, t->bench->repeating, &t->unit->tally);
  if (mine.typical) bad_calls(&mine, t->bench->device, t->bench->other, &t->unit->tally);
  if (load_fits(&mine)) load(t, &mine, number);
  find_effects(t);
}

static void emit(trial *t, const tn_dtype *types, case_sink sink) {
  t->number = 0;
  cases_emit(t->op, types, sink);
  cases_degenerate(t->op, types, sink);
  cases_extreme(t->op, types, sink);
  if (t->bench->options->large) cases_large(t->op, types, sink);
}

/* --- thresholds --- */

/* Counts as a run: a `supports` that crashes or hangs is a failure with its case. Where a process
 * goes on for one that died it searches again, since the runs that follow depend on what is
 * found. */
static bool begin_search(void *ctx, const op_case *c) {
  trial *t = ctx;
  t->unit->number = t->number;
  return before_run_again(t, c, "looking for thresholds") != RUN_NOT;
}

/* Numbers as they lie in memory. */
static void run_side(trial *t, const op_case *c) {
  op_case mine = seeded(c, t->bench->options->seed);
  const check_options *o = t->bench->options;
  uint64_t number = t->number++;
  if (!is_wanted(o, c, number)) return;
  mine.variants = VARIANT_MADE;
  t->unit->number = t->unit->tally.number = number;
  run_case(&mine, t->bench->device, t->bench->reference, &t->unit->tally);
  find_effects(t);
}

static void run_sides(void *ctx, const op_case *below, const op_case *above) {
  trial *t = ctx;
  const check_options *o = t->bench->options;
  if (!o->has_case || o->only_case == t->number || o->only_case == t->number + 1)
    t->unit->tally.thresholds++;
  run_side(t, below);
  run_side(t, above);
}

static void cross_thresholds(trial *t, const tn_dtype *types) {
  threshold_search s = {t->bench->device, t, begin_search, run_sides, 0};
  if (!t->bench->options->no_thresholds) thresholds_search(t->op, types, &s);
}

static bool has_kernel(tn_device *device, uint32_t op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return device && tn_kernel_find(device, op, dtype, 0, &info) == TN_OK;
}

/* Types that the operator's rule does not let stand together make no cases and count as
 * no choice. */
static void try_types(trial *t, const tn_dtype *types) {
  unit *u = t->unit;
  uint64_t runs = u->tally.runs, refused = u->tally.unsupported, begun = u->begun;
  double error = u->tally.error, bound = u->tally.bound;
  row_list rows;
  memcpy(u->types, types, sizeof u->types);
  t->loaded = false;
  t->largest.op = NULL;
  if (t->bench->effects) t->bench->effects->said = 0;
  rows_list(t->bench->device, t->op->id, types[0], &t->choice, &u->rows, &rows);
  if (!has_kernel(t->bench->reference, t->op->id, types[0])) {
    snprintf(u->note, sizeof u->note, "no reference kernel for %s",
             types[0] ? tn_dtype_name(types[0]) : "it");
    return;
  }
  u->tally.rows = &rows;
  const bool native = rows.ranks > 0;
  if (native) emit(t, types, (case_sink){take_case, t});
  if (native) load_largest(t);
  if (native) cross_thresholds(t, types);
  u->tally.rows = NULL;
  if (u->tally.error != error || u->tally.bound != bound) u->worst = types[0];
  if (native && u->begun == begun) return;
  runs = u->tally.runs - runs;
  refused = u->tally.unsupported - refused;
  if (runs > refused) rows_ran_first(&rows, t->bench->device, t->op->id);
  u->combos++;
  u->seen |= TN_SET(types[0]);
  if (!native || (runs && refused == runs)) return;
  u->native++;
  u->natives |= TN_SET(types[0]);
}

/* --- choices of types --- */

/* "f16", "i*" or "f16,i64": globs for the type variables in turn. */
static bool types_match(const char *globs, const tn_dtype *types) {
  char one[32];
  for (int i = 0; globs && *globs && i < TN_MAX_TYPE_VARS; i++) {
    size_t length = strcspn(globs, ",");
    snprintf(one, sizeof one, "%.*s", (int)length, globs);
    if (fnmatch(one, types[i] ? tn_dtype_name(types[i]) : "-", 0)) return false;
    globs += length + (globs[length] == ',');
  }
  return true;
}

bool unit_takes_types(const check_options *o, const tn_dtype *types) {
  return types_match(o->dtype, types);
}

/* Calls visit for every choice of types for the type variables from `var` on. */
static void each_types(trial *t, void (*visit)(trial *t, const tn_dtype *types), int var,
                       tn_dtype *types) {
  if (var == TN_MAX_TYPE_VARS || !t->op->types[var]) {
    if (types_match(t->bench->options->dtype, types)) visit(t, types);
    return;
  }
  for (int dtype = 1; dtype < TN_DTYPE_SLOTS; dtype++) {
    if (!(t->op->types[var] >> dtype & 1)) continue;
    types[var] = (tn_dtype)dtype;
    each_types(t, visit, var + 1, types);
  }
  types[var] = TN_DTYPE_NONE;
}

/* A device whose memory is the host's runs the reference kernels if nothing else. */
static void check_completeness(trial *t) {
  unit *u = t->unit;
  char text[300];
  if (!t->agenda->device[u->device].host || u->native == u->combos) return;
  snprintf(text, sizeof text, "%s has kernels for %u of %u choices of types on a host device",
           t->op->name, u->native, u->combos);
  unit_fail(t->bench->options, t->agenda, u, text);
  u->tally.failures++;
}

/* A rule that takes nothing leaves nothing checked. */
static void check_rule(trial *t) {
  unit *u = t->unit;
  char text[400];
  if (u->tally.runs || !u->tally.declined || t->bench->options->has_case) return;
  snprintf(text, sizeof text, "%s: its shape rule takes none of the %llu cases tried: %s",
           t->op->name, (unsigned long long)u->tally.declined, u->tally.reason);
  unit_fail(t->bench->options, t->agenda, u, text);
  u->tally.failures++;
}

static row_choice choice_of(const workbench *w, const agenda *a) {
  tn_device_info judge = {.struct_size = sizeof judge};
  const bool own = w->device == w->reference;
  if (own || tn_device_get_info(w->reference, &judge) != TN_OK) judge.plugin = "";
  return (row_choice){.only = a->plugin, .except = judge.plugin};
}

void unit_run(const workbench *w, const agenda *a, unit *u) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  trial t = {.bench = w, .agenda = a, .unit = u};
  uint64_t began = clock_ns();
  t.op = session_operator(w->runtime, a->op[u->op].id);
  u->tally.watch = (tally_watch){&t, before_run, before_run_again, run_goes_on, run_failed};
  t.choice = choice_of(w, a);
  u->begun = u->tally.cases = u->tally.thresholds = u->combos = u->native = 0;
  if (t.op) each_types(&t, try_types, 0, types);
  check_completeness(&t);
  if (t.op) check_rule(&t);
  if (u->combos && !u->tally.runs && u->native)
    snprintf(u->note, sizeof u->note, "no case fits its shape rule");
  u->seconds += (double)(clock_ns() - began) / 1e9;
  atomic_store(&u->run_began_ns, 0);
}

/* --- the list --- */

static void count_case(void *ctx, const op_case *c) {
  trial *t = ctx;
  (void)c;
  t->number++;
}

/* Who wants to know. */
typedef struct listing {
  trial trial;
  unit_listed_fn *listed;
  void *ctx;
} listing;

static void list_types(trial *t, const tn_dtype *types) {
  listing *l = (listing *)(void *)t; /* its first member */
  emit(t, types, (case_sink){count_case, t});
  if (t->number) l->listed(l->ctx, t->op, types, t->number);
}

void unit_list(const workbench *w, const agenda *a, uint32_t op, unit_listed_fn *listed,
               void *ctx) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  listing l = {{.bench = w, .agenda = a}, listed, ctx};
  l.trial.op = session_operator(w->runtime, a->op[op].id);
  if (l.trial.op) each_types(&l.trial, list_types, 0, types);
}
