/*
 * The fuzzing mode. Workers take the numbers of steps from a counter; what a step does follows
 * from the seed and its number. What fails, crashes or hangs the watching process makes smaller,
 * each try in a process of its own, and reports as a failure of the operator, which then is left
 * alone.
 */
#include "fuzz.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../json.h"
#include "../../plain.h"
#include "../../progress.h"

enum { LANES = 16, NS_PER_S = 1000000000, SHRINK_S = 20 };

/* What one worker is at. */
typedef struct lane {
  pid_t pid;
  uint64_t asked_ns;         /* when it was told to end, 0 */
  _Atomic uint64_t since_ns; /* when it began what it is at */
  _Atomic bool at_step, found;
  _Atomic bool through; /* it came to its end by itself */
  uint64_t step;
  uint32_t op; /* place in the agenda; CHECK_ITSELF: a chain */
  tn_dtype types[TN_MAX_TYPE_VARS];
  char text[FUZZ_TEXT];
  char why[1200];
  last_words said;
} lane;

/* Shared by all of them. */
typedef struct yard {
  _Atomic uint64_t next; /* step */
  _Atomic uint64_t steps, declined, chains;
  _Atomic bool left_alone[CHECK_OPS];
  lane lanes[LANES];
  /* A try. */
  char text[FUZZ_TEXT], why[1200];
  fuzz_kind kind;
} yard;

typedef struct fuzz {
  const check_options *options;
  const agenda *agenda;
  const checked_device *device;
  uint32_t place; /* of the device */
  unit *units, *itself;
  yard *yard;
  uint64_t seed, until_ns;
  bool broken;
} fuzz;

bool fuzz_is_wanted(const check_options *o) { return o->minutes > 0 || o->has_step || o->sequence; }

/* --- in a worker --- */

/* One runtime alone: nothing here is repeated. */
static tn_status bench_open(const fuzz *f, workbench *w) {
  *w = (workbench){.options = f->options};
  tn_status status = session_open(f->options, f->device->id, false, &w->runtime);
  if (status != TN_OK) return status;
  w->device = session_device(w->runtime, f->device->id);
  w->reference = session_device(w->runtime, "reference");
  return TN_OK;
}

static bool hear_before(void *ctx, const op_case *c, const char *how) {
  (void)ctx, (void)c, (void)how;
  return true;
}

static case_again hear_again(void *ctx, const op_case *c, const char *how) {
  (void)ctx, (void)c, (void)how;
  return RUN_FIRST;
}

static void hear_now(void *ctx, const char *how) { (void)ctx, (void)how; }

static void hear_failure(void *ctx, const char *text) {
  fuzz_result *r = ctx;
  if (!r->why[0]) snprintf(r->why, sizeof r->why, "%s", text);
}

/* A case that its rule declines is none; but that must say whose rule it was. Asked before any
 * number is drawn: where indexes may point is known of right cases alone. */
static void run_one(const workbench *w, const op_case *c, fuzz_result *r) {
  static row_table table; /* large */
  const row_choice choice = {.only = "", .except = "reference"};
  row_list rows;
  table.count = 0;
  table.left_out = 0;
  rows_list(w->device, c->op->id, c->types[0], &choice, &table, &rows);
  r->tally.rows = &rows;
  r->tally.watch = (tally_watch){r, hear_before, hear_again, hear_now, hear_failure};
  switch (invented_is_taken(w, c)) {
  case TN_OK:
    run_case(c, w->device, w->reference, &r->tally);
    break;
  case TN_ERR_INVALID_ARGUMENT:
    r->tally.declined++;
    if (!strstr(tn_last_error(), c->op->name))
      tally_fail(&r->tally, "a refusal does not name the operator: %s", tn_last_error());
    break;
  default: /* no memory for it, or no kernel */
    r->tally.declined++;
    break;
  }
  r->tally.rows = NULL;
}

/* The error that came nearest to its bound. Several processes may write at once: any is as good. */
static void note_worst(unit *u, tn_dtype dtype, const tally *t) {
  double was = u->tally.bound > 0 ? u->tally.error / u->tally.bound : -1;
  if (t->bound <= 0 || t->error / t->bound < was) return;
  u->tally.error = t->error;
  u->tally.bound = t->bound;
  u->worst = dtype;
}

static void count(const fuzz *f, uint32_t place, const tn_dtype *types, const fuzz_result *r) {
  unit *u = &f->units[place];
  __atomic_fetch_add(&u->tally.cases, r->tally.cases, __ATOMIC_RELAXED);
  __atomic_fetch_add(&u->tally.runs, r->tally.runs, __ATOMIC_RELAXED);
  note_worst(u, types[0], &r->tally);
  __atomic_fetch_or(&u->natives, TN_SET(types[0]), __ATOMIC_RELAXED);
}

static void begin_step(lane *l, uint32_t op) {
  l->op = op;
  atomic_store(&l->since_ns, clock_ns());
  atomic_store(&l->at_step, true);
}

static void end_step(lane *l, const fuzz_result *r) {
  if (r->why[0]) {
    snprintf(l->why, sizeof l->why, "%s", r->why);
    atomic_store(&l->found, true);
  }
  atomic_store(&l->at_step, false);
}

static void step_chain(const fuzz *f, const workbench *w, lane *l, uint64_t *state) {
  chain c;
  fuzz_result r = {0};
  if (atomic_load(&f->yard->left_alone[CHECK_ITSELF]) || !chain_invent(w, f->options, state, &c))
    return;
  chain_write(&c, l->text, sizeof l->text);
  memset(l->types, 0, sizeof l->types);
  l->types[0] = c.dtype;
  begin_step(l, CHECK_ITSELF);
  chain_run(w, &c, &r);
  atomic_fetch_add(&f->yard->chains, 1);
  __atomic_fetch_add(&f->itself->tally.runs, 1, __ATOMIC_RELAXED);
  end_step(l, &r);
}

/* One of the operators that are wanted; CHECK_OPS if there is none. */
static uint32_t pick_op(const fuzz *f, uint64_t *state) {
  uint32_t seen = 0, picked = CHECK_OPS;
  for (uint32_t i = 0; i < f->agenda->num_ops; i++)
    if (f->device->wanted[i] && fuzz_below(state, ++seen) == 0) picked = i;
  return picked;
}

static void step_case(const fuzz *f, const workbench *w, lane *l, uint64_t *state) {
  op_case c;
  fuzz_result r = {0};
  uint32_t place = pick_op(f, state);
  if (place == CHECK_OPS || atomic_load(&f->yard->left_alone[place])) return;
  const tn_operator *op = session_operator(w->runtime, f->agenda->op[place].id);
  if (!op || !invent_case(w, op, state, &c)) return;
  case_describe(&c, l->text, sizeof l->text);
  memcpy(l->types, c.types, sizeof l->types);
  begin_step(l, place);
  run_one(w, &c, &r);
  count(f, place, c.types, &r);
  atomic_fetch_add(&f->yard->declined, r.tally.declined);
  end_step(l, &r);
}

/* What step `number` does depends on the seed, the device's kernels and itself alone. */
static void step(const fuzz *f, const workbench *w, lane *l, uint64_t number) {
  uint64_t state = case_mix(f->seed ^ case_mix(number));
  l->step = number;
  atomic_fetch_add(&f->yard->steps, 1);
  if (fuzz_below(&state, 8) == 0)
    step_chain(f, w, l, &state);
  else
    step_case(f, w, l, &state);
}

/* Whether there is an operator, or are chains, that did not fail yet. */
static bool is_anything_left(const fuzz *f) {
  bool left = !f->options->op && !atomic_load(&f->yard->left_alone[CHECK_ITSELF]);
  for (uint32_t i = 0; i < f->agenda->num_ops; i++)
    left |= f->device->wanted[i] && !atomic_load(&f->yard->left_alone[i]);
  return left;
}

static int work(const fuzz *f, lane *l) {
  workbench w;
  atomic_store(&l->since_ns, clock_ns());
  if (bench_open(f, &w) != TN_OK) {
    snprintf(l->why, sizeof l->why, "%s: cannot be opened: %s", f->device->id, tn_last_error());
    return 1;
  }
  atomic_store(&l->since_ns, 0);
  uint64_t last = f->options->has_step ? f->options->step : UINT64_MAX;
  while (clock_ns() < f->until_ns && !atomic_load(&l->found) && is_anything_left(f)) {
    uint64_t number = atomic_fetch_add(&f->yard->next, 1);
    if (number > last) break;
    step(f, &w, l, number);
  }
  atomic_store(&l->since_ns, clock_ns());
  tn_runtime_close(w.runtime);
  atomic_store(&l->through, true);
  return 0;
}

/* --- a text, run once --- */

/* What a failed step says, or how its process ended. */
static fuzz_kind kind_of(const char *why) {
  if (strstr(why, "did not end within") || strstr(why, "killed by signal 14 ")) return FUZZ_HANG;
  if (strstr(why, "killed by signal")) return FUZZ_SIGNAL;
  if (strstr(why, "ended the process with status")) return FUZZ_EXIT;
  return strstr(why, "TN_ERR_") ? FUZZ_STATUS : FUZZ_WRONG;
}

static void run_text(const fuzz *f, const workbench *w, const char *text, yard *y) {
  op_case c;
  chain calls;
  fuzz_result r = {0};
  bool chained = chain_is_text(text);
  bool ok = chained ? chain_read(text, &calls, r.why, sizeof r.why)
                    : read_case(w->runtime, text, &c, r.why, sizeof r.why);
  if (ok && chained) chain_run(w, &calls, &r);
  if (ok && !chained) run_one(w, &c, &r);
  y->kind = !ok ? FUZZ_UNREAD : r.why[0] ? kind_of(r.why) : FUZZ_SOUND;
  snprintf(y->why, sizeof y->why, "%s", r.why);
  if (!f->options->sequence) return;
  f->itself->tally.cases += r.tally.cases + (chained && ok);
  f->itself->tally.runs += r.tally.runs + (chained && ok);
}

static void run_try(void *ctx) {
  const fuzz *f = ctx;
  yard *y = f->yard;
  workbench w;
  y->kind = FUZZ_STATUS;
  if (bench_open(f, &w) != TN_OK) {
    snprintf(y->why, sizeof y->why, "%s", tn_last_error());
    return;
  }
  run_text(f, &w, y->text, y);
  tn_runtime_close(w.runtime);
}

static bool text_fails(fuzz *f, const char *text, char *why, size_t size) {
  yard *y = f->yard;
  snprintf(y->text, sizeof y->text, "%s", text);
  y->kind = FUZZ_SOUND;
  y->why[0] = 0;
  const char *how = workers_apart(f->options, run_try, f, f->options->timeout_s);
  if (*how)
    snprintf(why, size, "%.900s: %s", text, how);
  else
    snprintf(why, size, "%s", y->why);
  return *how || y->kind != FUZZ_SOUND;
}

/* --- what was found --- */

static void again_text(const fuzz *f, const char *text, char *again, size_t size) {
  const char *plugin = f->options->plugin;
  snprintf(again, size, "tenon check%s%s --device %s --sequence '%s'", plugin ? " " : "",
           plugin ? plugin : "", f->device->id, text);
}

static void record(fuzz *f, unit *u, const tn_dtype *types, const char *why, const char *text) {
  uint32_t kept = u->kept;
  memcpy(u->types, types, sizeof u->types);
  u->tally.failures++;
  unit_fail(f->options, f->agenda, u, why);
  if (u->kept > kept) again_text(f, text, u->failure[kept].again, sizeof u->failure->again);
  atomic_store(&u->state, UNIT_DONE);
}

/* Made smaller in a child, which runs what it tries itself; a try that kills it has failed, and
 * another child goes on from there. */
typedef struct shrink_job {
  const fuzz *f;
  const workbench *bench;
  char text[FUZZ_TEXT], why[1200];
  char trying[FUZZ_TEXT]; /* "" between two tries */
  fuzz_kind kind;         /* of the failure that is made smaller: another is none */
  uint64_t until_ns;
} shrink_job;

static bool fails_here(void *ctx, const char *text, char *why, size_t size) {
  shrink_job *j = ctx;
  yard *y = j->f->yard;
  snprintf(j->trying, sizeof j->trying, "%s", text);
  alarm(j->f->options->timeout_s);
  run_text(j->f, j->bench, text, y);
  alarm(0);
  j->trying[0] = 0;
  snprintf(why, size, "%s", y->why);
  return y->kind == j->kind;
}

static void run_shrink(void *ctx) {
  shrink_job *j = ctx;
  workbench w;
  if (bench_open(j->f, &w) != TN_OK) return;
  j->bench = &w;
  shrink_text(w.runtime, j->text, j->why, sizeof j->why, j->until_ns, fails_here, j);
  tn_runtime_close(w.runtime);
}

static void shrink(const fuzz *f, lane *l) {
  shrink_job *j = shared_memory(sizeof *j);
  j->f = f;
  j->until_ns = clock_ns() + (uint64_t)SHRINK_S * NS_PER_S;
  snprintf(j->text, sizeof j->text, "%s", l->text);
  snprintf(j->why, sizeof j->why, "%s", l->why);
  j->kind = kind_of(l->why);
  progress_clear();
  for (bool died = true; died && clock_ns() < j->until_ns;) {
    const char *how = workers_apart(f->options, run_shrink, j, 0);
    died = *how && j->trying[0] && kind_of(how) == j->kind;
    if (!died) break;
    snprintf(j->text, sizeof j->text, "%s", j->trying);
    snprintf(j->why, sizeof j->why, "%.700s: %s", j->trying, how);
    j->trying[0] = 0;
  }
  snprintf(l->text, sizeof l->text, "%s", j->text);
  snprintf(l->why, sizeof l->why, "%s", j->why);
  munmap(j, sizeof *j);
}

/* A step failed: by what it said, or by how it died. */
static void found(fuzz *f, lane *l, const char *died) {
  char why[1400];
  unit *u = l->op == CHECK_ITSELF ? f->itself : &f->units[l->op];
  if (atomic_exchange(&f->yard->left_alone[l->op], true)) return;
  if (*died) snprintf(l->why, sizeof l->why, "%.700s: %s", l->text, died);
  shrink(f, l);
  snprintf(why, sizeof why, "%s [--seed %" PRIu64 " --fuzz-step %" PRIu64 "]", l->why, f->seed,
           l->step);
  record(f, u, l->types, why, l->text);
}

/* --- the watching process --- */

static void start(fuzz *f, lane *l) {
  fflush(NULL);
  last_words_forget(&l->said);
  atomic_store(&l->at_step, false);
  atomic_store(&l->found, false);
  atomic_store(&l->through, false);
  atomic_store(&l->since_ns, clock_ns());
  l->asked_ns = 0;
  l->why[0] = 0;
  pid_t pid = fork();
  if (pid == 0) { /* *l is shared: only the parent writes its pid */
    last_words_keep(&l->said, f->options->plugin);
    _exit(work(f, l));
  }
  l->pid = pid < 0 ? 0 : pid;
  f->broken |= pid < 0;
}

static void bury(fuzz *f, lane *l, int status) {
  char how[400];
  static const tn_dtype none[TN_MAX_TYPE_VARS];
  workers_obituary(f->options, &l->said, status, l->asked_ns != 0, how, sizeof how);
  l->pid = 0;
  if (atomic_load(&l->at_step))
    found(f, l, how);
  else if (atomic_load(&l->found))
    found(f, l, "");
  else if ((status || !atomic_load(&l->through)) && !f->broken) {
    char why[1300];
    f->broken = true;
    snprintf(why, sizeof why, "%s", l->why[0] ? l->why : how);
    record(f, f->itself, none, why, "");
  }
}

static void watch(fuzz *f, lane *l) {
  int status;
  uint64_t since = atomic_load(&l->since_ns), now = clock_ns();
  if (waitpid(l->pid, &status, WNOHANG) == l->pid) {
    bury(f, l, status);
    return;
  }
  bool late = since && now > since && now - since > (uint64_t)f->options->timeout_s * NS_PER_S;
  if (!late || (!atomic_load(&l->at_step) && now < f->until_ns && !l->asked_ns && !since)) return;
  if (!l->asked_ns) {
    last_words_ask(l->pid);
    l->asked_ns = now;
  } else if (now - l->asked_ns > 2ull * NS_PER_S) {
    kill(l->pid, SIGKILL);
  }
}

static bool is_over(const fuzz *f) {
  if (f->broken || clock_ns() >= f->until_ns || !is_anything_left(f)) return true;
  return f->options->has_step && atomic_load(&f->yard->next) > f->options->step;
}

static void supervise(fuzz *f) {
  uint32_t lanes = f->options->has_step ? 1 : f->options->jobs < LANES ? f->options->jobs : LANES;
  uint32_t alive;
  do {
    alive = 0;
    for (uint32_t i = 0; i < lanes; i++) {
      lane *l = &f->yard->lanes[i];
      if (l->pid) watch(f, l);
      if (!l->pid && !is_over(f)) start(f, l);
      alive += l->pid != 0;
    }
    progress_show("%s: %" PRIu64 " random steps, seed %" PRIu64, f->device->id,
                  atomic_load(&f->yard->steps), f->seed);
    if (alive) usleep(10000);
  } while (alive);
}

/* --- what is said of it --- */

static void say_what_ran(const fuzz *f) {
  uint64_t steps = atomic_load(&f->yard->steps), declined = atomic_load(&f->yard->declined),
           chains = atomic_load(&f->yard->chains);
  if (!f->options->json) {
    printf("%s: %" PRIu64 " random steps with --seed %" PRIu64 ": %" PRIu64
           " sequences of calls, %" PRIu64 " calls that a shape rule declined\n",
           plain(f->device->id), steps, f->seed, chains, declined);
    return;
  }
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "device", f->device->id);
  json_bool(&j, "fuzz", true);
  json_number(&j, "seed", f->seed);
  json_number(&j, "steps", steps);
  json_number(&j, "sequences", chains);
  json_number(&j, "declined", declined);
  json_close(&j, '}');
}

/* Of each operator what the workers counted, as of a run with the kit's cases. */
static void conclude(fuzz *f, void (*done)(void *ctx, unit *u), void *ctx) {
  for (uint32_t i = 0; i < f->agenda->num_ops; i++) {
    unit *u = &f->units[i];
    if (!f->device->wanted[i]) continue;
    atomic_store(&u->state, UNIT_DONE);
    done(ctx, u);
  }
  if (f->itself->tally.runs || f->itself->tally.failures) {
    atomic_store(&f->itself->state, UNIT_DONE);
    done(ctx, f->itself);
  }
}

static uint64_t seed_of(const check_options *o) {
  return o->has_seed || o->has_step ? o->seed : case_mix(clock_ns()) % 1000000000;
}

/* The text of --sequence, as it is. */
static void run_sequence(fuzz *f) {
  static const tn_dtype none[TN_MAX_TYPE_VARS];
  char why[1400];
  if (text_fails(f, f->options->sequence, why, sizeof why))
    record(f, f->itself, none, why, f->options->sequence);
}

void fuzz_run(const check_options *o, const agenda *a, uint32_t device, unit *units, unit *itself,
              void (*done)(void *ctx, unit *u), void *ctx) {
  fuzz f = {.options = o, .agenda = a, .device = &a->device[device], .place = device};
  f.units = units;
  f.itself = itself;
  f.yard = shared_memory(sizeof *f.yard);
  f.seed = seed_of(o);
  f.until_ns =
      o->minutes > 0 ? clock_ns() + (uint64_t)(o->minutes * 60e9 / a->num_devices) : UINT64_MAX;
  atomic_store(&f.yard->next, o->has_step ? o->step : 0);
  for (uint32_t i = 0; i < a->num_ops; i++) {
    units[i].device = device;
    units[i].op = i;
  }
  if (o->sequence)
    run_sequence(&f);
  else
    supervise(&f);
  progress_clear();
  conclude(&f, done, ctx);
  if (!o->sequence) say_what_ran(&f);
  munmap(f.yard, sizeof *f.yard);
}
