/*
 * Processes that check. The parent opens no runtime: it forks workers, which take units
 * from shared memory, and watches them. Where a worker dies or stands still, the run that
 * it was at is a failure, and another worker goes on behind it. Devices in host memory
 * get a worker per processor, others four at the most, since starting a vendor's driver
 * takes long and the device is one.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../plain.h"
#include "../progress.h"
#include "check.h"
#include "output.h"

void *shared_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return memory;
  perror("tenon check");
  exit(1);
}

bool workers_apart(const check_options *o, void (*fn)(void *ctx), void *ctx) {
  int status = 0;
  if (o->no_fork) return fn(ctx), true;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    fn(ctx);
    _exit(fflush(NULL) != 0 || ferror(stdout)); /* what it printed may not have been written */
  }
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

typedef struct worker {
  pid_t pid;            /* 0: none */
  _Atomic int64_t unit; /* what it is at, -1 */
  bool stuck;
  int output;                 /* the file that what it writes goes to */
  _Atomic bool opening_known; /* whether what opening leaves behind has been said */
} worker;

enum { WORKERS = 64, DRIVERS = 4 };

typedef struct pool {
  const check_options *options;
  const agenda *agenda;
  const checked_device *device;
  unit *units; /* of this device, one per operator of the agenda */
  worker *workers;
  uint32_t num_workers;
  uint32_t reported; /* units up to here have been reported */
  bool broken;       /* a worker could not begin */
} pool;

/* "cpu:0: 12 of 236 operators, at conv2d (made)": the first that is being run. */
static void show_progress(const pool *p) {
  uint32_t wanted = 0, done = 0;
  const unit *at = NULL;
  for (uint32_t i = 0; i < p->agenda->num_ops; i++) {
    int state = atomic_load(&p->units[i].state);
    wanted += state != UNIT_IDLE;
    done += state == UNIT_DONE;
    if (state == UNIT_TAKEN && !at) at = &p->units[i];
  }
  progress_show("%s: %" PRIu32 " of %" PRIu32 " operators%s%s", p->device->id, done, wanted,
                at ? ", at " : "", at ? plain(p->agenda->op[at->op].name) : "");
}

static int64_t take_unit(const pool *p) {
  for (uint32_t i = 0; i < p->agenda->num_ops; i++) {
    int todo = UNIT_TODO;
    if (atomic_compare_exchange_strong(&p->units[i].state, &todo, UNIT_TAKEN)) return i;
  }
  return -1;
}

static bool any_todo(const pool *p) {
  for (uint32_t i = 0; i < p->agenda->num_ops; i++)
    if (atomic_load(&p->units[i].state) == UNIT_TODO) return true;
  return false;
}

/* What plugins and devices left behind as they were opened. That drivers start threads and set
 * variables of the environment is none of it. */
static bool effects_of_opening(effects_watch *w, char *text, size_t size) {
  w->said = EFFECTS_OF_DRIVERS;
  bool found = effects_found(w, text, size) || output_found(text, size);
  effects_begin(w);
  return found;
}

/* Every worker finds the same. */
static void blame_opening(const pool *p, unit *u, const char *what) {
  char text[600];
  if (atomic_exchange(&p->workers->opening_known, true)) return;
  snprintf(text, sizeof text, "%s (opening): a plugin or the device %s", p->device->id, what);
  u->tally.failures++;
  unit_fail(p->options, p->agenda, u, text);
}

/* What a worker does; NULL where the parent itself works. */
static tn_status work(const pool *p, worker *me) {
  workbench bench;
  effects_watch watch;
  char opening[400];
  effects_begin(&watch);
  tn_status status = workbench_open(p->options, p->device, &bench);
  if (status != TN_OK) {
    fprintf(stderr, "tenon check: %s\n", tn_last_error());
    return status;
  }
  bench.effects = &watch;
  bool spoilt = effects_of_opening(&watch, opening, sizeof opening);
  for (int64_t i; (i = take_unit(p)) >= 0;) {
    atomic_store(&p->units[i].run_began_ns, clock_ns());
    atomic_store(&me->unit, i);
    if (spoilt) blame_opening(p, &p->units[i], opening);
    spoilt = false;
    if (p->options->no_fork) show_progress(p);
    unit_run(&bench, p->agenda, &p->units[i]);
    atomic_store(&me->unit, -1);
    atomic_store(&p->units[i].state, UNIT_DONE);
  }
  workbench_close(&bench);
  return TN_OK;
}

static void start(pool *p, worker *w) {
  fflush(NULL);
  w->stuck = false;
  atomic_store(&w->unit, -1);
  w->output = output_open();
  pid_t pid = fork();
  if (pid == 0) { /* *w is shared: only the parent writes its pid */
    output_keep(w->output);
    int failed = work(p, w) != TN_OK;
    fflush(NULL);
    exit(failed); /* not _exit: leak checkers look when a process ends */
  }
  w->pid = pid < 0 ? 0 : pid;
  p->broken |= pid < 0;
}

/* The run that a worker died at is a failure; the unit goes on behind it. */
static void bury(pool *p, worker *w, int status) {
  int64_t at = atomic_load(&w->unit);
  char text[1300], how[100];
  w->pid = 0;
  output_pass_on(w->output);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && at < 0) return;
  if (at < 0) {
    p->broken = true;
    return;
  }
  unit *u = &p->units[at];
  if (w->stuck)
    snprintf(how, sizeof how, "did not end within %u s", p->options->timeout_s);
  else if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(how, sizeof how, "ended the process with status %d", WEXITSTATUS(status));
  snprintf(text, sizeof text, "%s (%s): %s: %s", p->device->id, u->how, u->what, how);
  u->tally.failures++;
  unit_fail(p->options, p->agenda, u, text);
  u->resume = u->died[u->crashes] = u->begun;
  if (++u->crashes == CHECK_CRASHES)
    snprintf(u->note, sizeof u->note, "given up after %d crashes", CHECK_CRASHES);
  atomic_store(&u->state, u->crashes == CHECK_CRASHES ? UNIT_DONE : UNIT_TODO);
}

static void watch(pool *p, worker *w) {
  int status;
  if (waitpid(w->pid, &status, WNOHANG) == w->pid) {
    bury(p, w, status);
    return;
  }
  int64_t at = atomic_load(&w->unit);
  uint64_t began = at >= 0 ? atomic_load(&p->units[at].run_began_ns) : 0, now = clock_ns();
  if (began == 0 || now < began || now - began < p->options->timeout_s * 1000000000ull) return;
  w->stuck = true;
  kill(w->pid, SIGKILL);
}

static void report(pool *p, void (*done)(void *ctx, unit *u), void *ctx) {
  for (; p->reported < p->agenda->num_ops; p->reported++) {
    int state = atomic_load(&p->units[p->reported].state);
    if (state == UNIT_TODO || state == UNIT_TAKEN) return;
    if (state == UNIT_DONE) done(ctx, &p->units[p->reported]);
  }
}

/* Keeps workers at work as long as there is some. */
static void supervise(pool *p, void (*done)(void *ctx, unit *u), void *ctx) {
  uint32_t alive = 0;
  do {
    alive = 0;
    for (uint32_t i = 0; i < p->num_workers; i++) {
      worker *w = &p->workers[i];
      if (w->pid) watch(p, w);
      if (!w->pid && !p->broken && any_todo(p)) start(p, w);
      alive += w->pid != 0;
    }
    report(p, done, ctx);
    if (alive) show_progress(p);
    if (alive) usleep(10000);
  } while (alive);
}

static uint32_t workers_for(const check_options *o, const checked_device *d) {
  uint32_t jobs = d->host || o->jobs_given || o->jobs < DRIVERS ? o->jobs : DRIVERS;
  return jobs < 1 ? 1 : jobs > WORKERS ? WORKERS : jobs;
}

bool workers_run(const check_options *o, const agenda *a, uint32_t device, unit *units,
                 void (*done)(void *ctx, unit *u), void *ctx) {
  pool p = {.options = o, .agenda = a, .device = &a->device[device], .units = units};
  p.workers = shared_memory(WORKERS * sizeof *p.workers);
  p.num_workers = workers_for(o, p.device);
  for (uint32_t i = 0; i < a->num_ops; i++) {
    units[i].device = device;
    units[i].op = i;
    atomic_store(&units[i].state, p.device->wanted[i] ? UNIT_TODO : UNIT_IDLE);
  }
  if (o->no_fork)
    p.broken = work(&p, &p.workers[0]) != TN_OK;
  else
    supervise(&p, done, ctx);
  progress_clear();
  report(&p, done, ctx);
  munmap(p.workers, WORKERS * sizeof *p.workers);
  return !p.broken;
}
