/*
 * Processes in which the slots of a backend are called. One goes through the checks, with the
 * device open, until a check fails, crashes or stands still; the next begins behind that one, so
 * that no check meets what another left behind. The process that watches reads in shared memory
 * which slot was being called.
 */
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../plain.h"
#include "../../progress.h"
#include "../effects.h"
#include "../output.h"
#include "backend.h"

enum { CHECKS = 40, HANG_S = 20 };

/* The checks of one device. Lies in shared memory. */
typedef struct session {
  _Atomic int32_t at; /* the check that is being run, -1: none */
  _Atomic uint64_t began_ns;
  _Atomic bool ended[CHECKS];
  _Atomic bool through;     /* the process came to its end by itself */
  _Atomic bool synchronous; /* what the backend says, once it is open */
  double seconds[CHECKS];
  direct_watch watch[CHECKS];
} session;

typedef struct runner {
  const check_options *options;
  const agenda *agenda;
  const checked_device *device;
  unit *units;
  session *session;
} runner;

void backend_name_checks(agenda *a) {
  a->num_checks = num_slot_checks;
  for (uint32_t i = 0; i < num_slot_checks && a->num_ops + i < CHECK_ITSELF; i++)
    snprintf(a->op[a->num_ops + i].name, sizeof a->op->name, "backend.%s", slot_checks[i].name);
}

bool backend_has_check(const char *glob) {
  for (uint32_t i = 0; i < num_slot_checks; i++)
    if (!fnmatch(glob, slot_checks[i].name, 0)) return true;
  return false;
}

/* The device itself is always opened, and so always reported. */
static bool is_wanted(const check_options *o, uint32_t check) {
  return check == 0 || !o->slots || !fnmatch(o->slots, slot_checks[check].name, 0);
}

/* Of one slot; --timeout makes it longer, too. */
static uint64_t limit_ns(const check_options *o) {
  return 1000000000ull * (o->timeout_given || o->timeout_s < HANG_S ? o->timeout_s : HANG_S);
}

/* Of those that open a device. */
static uint64_t opening_limit_ns(const check_options *o) { return 1000000000ull * o->timeout_s; }

/* A check may open the device, and try several things that never come. */
static uint64_t check_limit_ns(const check_options *o) {
  return opening_limit_ns(o) + 3 * limit_ns(o);
}

void backend_list(const check_options *o, const checked_device *d) {
  for (uint32_t i = 0; *d->plugin && i < num_slot_checks; i++)
    if (is_wanted(o, i)) printf("backend.%-20s %s\n", slot_checks[i].name, slot_checks[i].about);
}

/* ------------------------------------------------------------ in the process --- */

static void show_progress(const runner *r, uint32_t check) {
  progress_show("%s: backend.%s", r->device->id, slot_checks[check].name);
}

static void begin(const runner *r, direct *d, uint32_t check) {
  session *s = r->session;
  d->watch = &s->watch[check];
  atomic_store(&s->began_ns, clock_ns());
  atomic_store(&s->at, (int32_t)check);
  if (r->options->no_fork) show_progress(r, check);
}

static void end(const runner *r, uint32_t check) {
  session *s = r->session;
  s->seconds[check] += (double)(clock_ns() - atomic_load(&s->began_ns)) / 1e9;
  atomic_store(&s->ended[check], true);
  atomic_store(&s->at, 0); /* what goes wrong between checks is the device's */
}

static void judge_output(direct *d) {
  char text[400];
  if (output_found(text, sizeof text)) direct_fail(d, "a slot of this check %s", text);
}

/* What slots left behind in the process, or wrote. That drivers set variables of the environment
 * and limits is none of it. */
static void judge_effects(effects_watch *w, direct *d) {
  char text[400];
  w->said |= EFFECTS_OF_DRIVERS;
  direct_where(d, "%s", "");
  while (effects_found(w, text, sizeof text)) direct_fail(d, "a slot of this check %s", text);
  judge_output(d);
}

/* Whether the next check may have this process too. */
static bool run_one(const runner *r, direct *d, uint32_t check) {
  const slot_check *c = &slot_checks[check];
  effects_watch watch = {0};
  if (c->queued && d->slots.flags & TN_BACKEND_SYNCHRONOUS) return true;
  begin(r, d, check);
  effects_begin(&watch);
  c->run(d, r->options);
  judge_effects(&watch, d);
  end(r, check);
  return direct_is_sound(d);
}

static void open_and_run(const runner *r) {
  session *s = r->session;
  bool sound = true;
  direct d = {.watch = &s->watch[0]};
  direct_choice choice = {r->device->plugin, r->device->type, r->device->index, r->options->seed,
                          limit_ns(r->options)};
  begin(r, &d, 0);
  if (!direct_ok(&d, "opening the device", direct_open(&choice, &s->watch[0], &d))) {
    end(r, 0);
    return;
  }
  atomic_store(&s->synchronous, d.slots.flags & TN_BACKEND_SYNCHRONOUS);
  judge_output(&d); /* other effects of opening are said beside operators */
  for (uint32_t i = 1; sound && i < num_slot_checks; i++)
    if (is_wanted(r->options, i) && !atomic_load(&s->ended[i])) sound = run_one(r, &d, i);
  begin(r, &d, 0);
  /* After a failure work may be under way that closing would wait for. */
  if (sound) direct_close(&d);
  if (sound) end(r, 0);
}

/* ---------------------------------------------------------------- around it --- */

/* "event_wait (two queues, 3rd event)" of the slots that open a device, or of the others, that were
 * called before then and have not returned; how many. */
static uint32_t slots_text(const direct_watch *w, bool opening, uint64_t before_ns, char *text,
                           size_t size) {
  uint32_t found = 0;
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < DIRECT_LANES && found < 3; i++) {
    const direct_lane *lane = &w->lane[i];
    uint64_t began = atomic_load(&lane->began_ns);
    if (!began || began > before_ns || used >= size || atomic_load(&lane->opens) != opening)
      continue;
    used += (size_t)snprintf(text + used, size - used, "%s%.31s%s%.159s%s", found++ ? ", " : "",
                             lane->slot, *lane->where ? " (" : "", lane->where,
                             *lane->where ? ")" : "");
  }
  return found;
}

/* What was called last, where nothing is being called now. */
static void last_text(const direct_watch *w, char *text, size_t size) {
  const direct_lane *lane = &w->lane[atomic_load(&w->last)];
  snprintf(text, size, "after %.31s%s%.159s%s", *lane->slot ? lane->slot : "nothing",
           *lane->where ? " (" : "", lane->where, *lane->where ? ")" : "");
}

static void add_failure(direct_watch *w, const char *where, const char *how) {
  uint32_t at = atomic_fetch_add(&w->failures, 1);
  if (at < DIRECT_FAILURES) snprintf(w->failure[at], sizeof w->failure[at], "%s: %s", where, how);
}

/* The check that a process died at has failed. */
static void bury(const runner *r, int status) {
  session *s = r->session;
  int32_t at = atomic_load(&s->at);
  char where[600], how[100];
  if (status == 0 && atomic_load(&s->through)) return;
  if (at < 0) at = 0;
  direct_watch *w = &s->watch[at];
  if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(how, sizeof how, "ended the process with status %d", WEXITSTATUS(status));
  if (!slots_text(w, false, UINT64_MAX, where, sizeof where) &&
      !slots_text(w, true, UINT64_MAX, where, sizeof where))
    last_text(w, where, sizeof where);
  add_failure(w, where, how);
  atomic_store(&s->ended[at], true);
}

/* Whether slots have not returned within their limit: then they have failed. */
static bool hangs(direct_watch *w, bool opening, uint64_t limit) {
  const uint64_t now = clock_ns();
  char where[600], how[100];
  if (now <= limit || !slots_text(w, opening, now - limit, where, sizeof where)) return false;
  snprintf(how, sizeof how, "did not return within %llu s",
           (unsigned long long)(limit / 1000000000));
  add_failure(w, where, how);
  return true;
}

/* Whether a slot has not returned for too long, or the check has not ended: then it has failed. */
static bool is_stuck(const runner *r) {
  session *s = r->session;
  int32_t at = atomic_load(&s->at);
  const check_options *o = r->options;
  char where[600], how[100];
  if (at < 0) return false;
  const uint64_t began = atomic_load(&s->began_ns), now = clock_ns();
  if (hangs(&s->watch[at], false, limit_ns(o)) || hangs(&s->watch[at], true, opening_limit_ns(o))) {
    atomic_store(&s->ended[at], true);
    return true;
  }
  if (now > began && now - began > check_limit_ns(r->options)) {
    last_text(&s->watch[at], where, sizeof where);
    snprintf(how, sizeof how, "the check did not end within %llu s",
             (unsigned long long)(check_limit_ns(r->options) / 1000000000));
    add_failure(&s->watch[at], where, how);
    atomic_store(&s->ended[at], true);
    return true;
  }
  return false;
}

/* Until it has ended, or has stood still for too long; true. */
static bool watch_process(const runner *r, pid_t child) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (is_stuck(r)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return true;
    }
    int32_t at = atomic_load(&r->session->at);
    show_progress(r, at < 0 ? 0 : (uint32_t)at);
    usleep(2000);
  }
  bury(r, status);
  return true;
}

/* False when no process could begin. */
static bool run_process(const runner *r) {
  fflush(NULL);
  atomic_store(&r->session->at, -1);
  atomic_store(&r->session->through, false);
  const int output = output_open();
  pid_t child = fork();
  if (child == 0) {
    output_keep(output);
    open_and_run(r);
    fflush(NULL);
    atomic_store(&r->session->through, true);
    /* Leak checkers look when a process ends by itself. What failed may still be under way. */
    if (atomic_load(&r->session->ended[0])) exit(0);
    _exit(0);
  }
  bool ran = child > 0 && watch_process(r, child);
  output_pass_on(output);
  return ran;
}

static bool any_left(const runner *r) {
  const session *s = r->session;
  bool left = !atomic_load(&s->ended[0]);
  if (atomic_load(&s->watch[0].failures)) return false;
  for (uint32_t i = 1; i < num_slot_checks; i++)
    left |= is_wanted(r->options, i) && !atomic_load(&s->ended[i]) &&
            !(slot_checks[i].queued && atomic_load(&s->synchronous));
  return left;
}

/* ------------------------------------------------------------------ results --- */

static void fill_failure(const runner *r, unit *u, const char *check, const char *text) {
  const check_options *o = r->options;
  check_failure *f = &u->failure[u->kept++];
  *f = (check_failure){.dtype = TN_DTYPE_NONE};
  snprintf(f->text, sizeof f->text, "%s: %s", r->device->id, text);
  snprintf(f->again, sizeof f->again, "tenon check%s%s --device %s --slots %s --seed %llu",
           o->plugin ? " " : "", o->plugin ? o->plugin : "", r->device->id, check,
           (unsigned long long)o->seed);
}

static void fill_unit(const runner *r, uint32_t check, unit *u) {
  const session *s = r->session;
  const direct_watch *w = &s->watch[check];
  uint32_t failures = atomic_load(&w->failures);
  u->op = r->agenda->num_ops + check;
  u->is_slots = true;
  u->tally.runs = atomic_load(&w->calls);
  u->tally.failures = u->failed[TN_DTYPE_NONE] = failures;
  u->seconds = s->seconds[check];
  snprintf(u->what, sizeof u->what, "%s", slot_checks[check].about);
  snprintf(u->note, sizeof u->note, "%s", w->note);
  for (uint32_t i = 0; i < failures && i < DIRECT_FAILURES && i < CHECK_KEPT; i++)
    fill_failure(r, u, slot_checks[check].name, w->failure[i]);
  if (!failures && !atomic_load(&s->ended[check]))
    snprintf(u->note, sizeof u->note, "not checked: the device did not open");
}

static void report(const runner *r, void (*done)(void *ctx, unit *u), void *ctx) {
  const bool synchronous = atomic_load(&r->session->synchronous);
  for (uint32_t i = 0; i < num_slot_checks; i++) {
    if (!is_wanted(r->options, i) || (synchronous && slot_checks[i].queued)) continue;
    fill_unit(r, i, &r->units[i]);
    if (i == 0 && synchronous)
      snprintf(r->units[0].note, sizeof r->units[0].note,
               "queues and events are not checked: %s works in its caller "
               "(TN_BACKEND_SYNCHRONOUS)",
               r->device->type);
    atomic_store(&r->units[i].state, UNIT_DONE);
    done(ctx, &r->units[i]);
  }
}

bool backend_run(const check_options *o, const agenda *a, uint32_t device, unit *units,
                 void (*done)(void *ctx, unit *u), void *ctx) {
  runner r = {o, a, &a->device[device], units, shared_memory(sizeof *r.session)};
  bool ok = true;
  for (uint32_t i = 0; i < num_slot_checks; i++) units[i].device = device;
  if (!*r.device->plugin) return true;
  while (ok && any_left(&r)) {
    if (!o->no_fork) {
      ok = run_process(&r);
      continue;
    }
    const int out = output_aside();
    open_and_run(&r);
    output_back(out);
  }
  progress_clear();
  report(&r, done, ctx);
  munmap(r.session, sizeof *r.session);
  return ok;
}
