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

/* --- one process --- */

enum { NS_PER_S = 1000000000, GRACE_S = 2 }; /* between asking a process to end and killing it */

void workers_obituary(const check_options *o, const last_words *w, int status, bool stuck,
                      char *text, size_t size) {
  char where[300];
  last_words_text(w, where, sizeof where);
  if (stuck)
    snprintf(text, size, "did not end within %u s%s", o->timeout_s, where);
  else if (WIFSIGNALED(status))
    snprintf(text, size, "killed by signal %d (%s)%s", WTERMSIG(status),
             strsignal(WTERMSIG(status)), where);
  else
    snprintf(text, size, "ended the process with status %d", WEXITSTATUS(status));
}

/* One that is watched. */
typedef struct ward {
  pid_t pid;
  uint64_t asked_ns; /* when it was told to end, 0 */
} ward;

/* Ends a process that hangs, which first may say where. */
static void ward_end(ward *w) {
  uint64_t now = clock_ns();
  if (!w->asked_ns) {
    last_words_ask(w->pid);
    w->asked_ns = now;
  } else if (now - w->asked_ns > (uint64_t)GRACE_S * NS_PER_S) {
    kill(w->pid, SIGKILL);
  }
}

/* What waitpid says of it in the end. */
static int ward_watch(ward *w, uint32_t limit_s) {
  uint64_t began = clock_ns();
  int status = 0;
  while (waitpid(w->pid, &status, WNOHANG) == 0) {
    if (limit_s && clock_ns() - began > (uint64_t)limit_s * NS_PER_S) ward_end(w);
    usleep(1000);
  }
  return status;
}

const char *workers_apart(const check_options *o, void (*fn)(void *ctx), void *ctx,
                          uint32_t limit_s) {
  static char how[400];
  static last_words *said;
  static _Atomic bool *returned; /* a plugin may end the process with status 0 */
  if (o->no_fork) return fn(ctx), "";
  if (!said) said = shared_memory(sizeof *said);
  if (!returned) returned = shared_memory(sizeof *returned);
  last_words_forget(said);
  atomic_store(returned, false);
  fflush(NULL);
  ward w = {.pid = fork()};
  if (w.pid == 0) {
    last_words_keep(said, o->plugin);
    fn(ctx);
    atomic_store(returned, true);
    _exit(fflush(NULL) != 0 || ferror(stdout)); /* what it printed may not have been written */
  }
  if (w.pid < 0) return "no process could begin";
  int status = ward_watch(&w, limit_s);
  if (!w.asked_ns && status == 0 && atomic_load(returned)) return "";
  workers_obituary(o, said, status, w.asked_ns != 0, how, sizeof how);
  return how;
}

/* --- those of a device --- */

/* What a worker is at beside operators. */
enum { WORKER_OPENING, WORKER_AT_WORK, WORKER_CLOSING, WORKER_ENDING };

enum { OPENING_KEPT = CHECK_KEPT, OPENING_TEXT = 400 };

typedef struct worker {
  ward ward;            /* pid 0: none */
  _Atomic int64_t unit; /* what it is at, -1 */
  _Atomic int at;
  _Atomic uint64_t since_ns; /* when it came there */
  last_words said;
  char error[1200];           /* why the runtime could not be opened */
  int output;                 /* the file that what it writes goes to */
  _Atomic bool opening_known; /* of the first: what opening leaves behind is noted, or none */
  char opening[OPENING_KEPT][OPENING_TEXT];
} worker;

enum { WORKERS = 64, DRIVERS = 4 };

typedef struct pool {
  const check_options *options;
  const agenda *agenda;
  const checked_device *device;
  unit *units; /* of this device, one per operator of the agenda */
  unit *itself;
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

static void worker_comes_to(worker *me, int at) {
  atomic_store(&me->since_ns, clock_ns());
  atomic_store(&me->at, at);
}

/* What plugins and devices left behind as they were opened. That drivers start threads and set
 * variables of the environment is none of it. Every worker finds the same: one notes it. */
static void effects_of_opening(const pool *p, effects_watch *w) {
  char text[OPENING_KEPT][OPENING_TEXT] = {""};
  w->said = EFFECTS_OF_DRIVERS;
  uint32_t count = effects_list(w, text[0], OPENING_TEXT, OPENING_KEPT - 1);
  count += output_found(text[count], OPENING_TEXT);
  effects_begin(w);
  worker *first = p->workers;
  if (count && !atomic_exchange(&first->opening_known, true))
    memcpy(first->opening, text, count * sizeof *text);
}

/* What a worker does. */
static tn_status work(const pool *p, worker *me) {
  workbench bench;
  effects_watch watch;
  worker_comes_to(me, WORKER_OPENING);
  effects_begin(&watch);
  tn_status status = workbench_open(p->options, p->device, &bench);
  if (status != TN_OK) {
    snprintf(me->error, sizeof me->error, "%s", tn_last_error());
    return status;
  }
  worker_comes_to(me, WORKER_AT_WORK);
  bench.effects = &watch;
  effects_of_opening(p, &watch);
  for (int64_t i; (i = take_unit(p)) >= 0;) {
    atomic_store(&p->units[i].run_began_ns, clock_ns());
    atomic_store(&me->unit, i);
    if (p->options->no_fork) show_progress(p);
    unit_run(&bench, p->agenda, &p->units[i]);
    atomic_store(&me->unit, -1);
    atomic_store(&p->units[i].state, UNIT_DONE);
  }
  worker_comes_to(me, WORKER_CLOSING);
  workbench_close(&bench);
  worker_comes_to(me, WORKER_ENDING);
  return TN_OK;
}

/* What failed beside operators. Several workers tell the same once. */
static void itself_failed(pool *p, const worker *w, const char *how) {
  static const char *const doing[] = {"opening it", "between two operators", "closing it",
                                      "closing it"};
  unit *u = p->itself;
  char text[1600];
  if (w->error[0])
    snprintf(text, sizeof text, "%s: cannot be opened: %s", p->device->id, w->error);
  else
    snprintf(text, sizeof text, "%s: %s: %s", p->device->id, doing[atomic_load(&w->at)], how);
  for (uint32_t i = 0; i < u->kept; i++)
    if (!strcmp(u->failure[i].text, text)) return;
  u->tally.failures++;
  unit_fail(p->options, p->agenda, u, text);
  atomic_store(&u->state, UNIT_DONE);
}

static void start(pool *p, worker *w) {
  fflush(NULL);
  w->ward = (ward){0};
  w->error[0] = 0;
  last_words_forget(&w->said);
  atomic_store(&w->unit, -1);
  worker_comes_to(w, WORKER_OPENING);
  w->output = output_open();
  pid_t pid = fork();
  if (pid == 0) { /* *w is shared: only the parent writes its pid */
    last_words_keep(&w->said, p->options->plugin);
    output_keep(w->output);
    int failed = work(p, w) != TN_OK;
    fflush(NULL);
    exit(failed); /* not _exit: leak checkers look when a process ends */
  }
  w->ward.pid = pid < 0 ? 0 : pid;
  if (pid >= 0) return;
  p->broken = true;
  snprintf(w->error, sizeof w->error, "no process could begin");
  itself_failed(p, w, "");
}

/* A unit at whose run a worker died goes on behind that. */
static void bury_at(pool *p, unit *u, const char *how) {
  char text[1600];
  snprintf(text, sizeof text, "%s (%s): %s: %s", p->device->id, u->how, u->what, how);
  u->tally.failures++;
  unit_fail(p->options, p->agenda, u, text);
  u->resume = u->died[u->crashes] = u->begun;
  if (++u->crashes == CHECK_CRASHES)
    snprintf(u->note, sizeof u->note, "given up after %d crashes", CHECK_CRASHES);
  atomic_store(&u->state, u->crashes == CHECK_CRASHES ? UNIT_DONE : UNIT_TODO);
}

/* A worker that cannot open the device, or dies between operators, is not followed by another:
 * that would do the same. */
static void bury(pool *p, worker *w, int status) {
  int64_t at = atomic_load(&w->unit);
  char how[400];
  bool stuck = w->ward.asked_ns != 0;
  w->ward = (ward){0};
  output_pass_on(w->output);
  if (status == 0 && atomic_load(&w->at) == WORKER_ENDING) return;
  workers_obituary(p->options, &w->said, status, stuck, how, sizeof how);
  if (at >= 0) {
    bury_at(p, &p->units[at], how);
    return;
  }
  p->broken |= atomic_load(&w->at) < WORKER_CLOSING;
  itself_failed(p, w, how);
}

/* Since when a worker is at the same, 0: it is between two runs. */
static uint64_t busy_since(const pool *p, const worker *w) {
  int64_t at = atomic_load(&w->unit);
  if (at >= 0) return atomic_load(&p->units[at].run_began_ns);
  return atomic_load(&w->at) == WORKER_AT_WORK ? 0 : atomic_load(&w->since_ns);
}

static void watch(pool *p, worker *w) {
  int status;
  if (waitpid(w->ward.pid, &status, WNOHANG) == w->ward.pid) {
    bury(p, w, status);
    return;
  }
  uint64_t began = busy_since(p, w), now = clock_ns();
  if (!w->ward.asked_ns &&
      (began == 0 || now < began || now - began < (uint64_t)p->options->timeout_s * NS_PER_S))
    return;
  ward_end(&w->ward);
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
      if (w->ward.pid) watch(p, w);
      if (!w->ward.pid && !p->broken && any_todo(p)) start(p, w);
      alive += w->ward.pid != 0;
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

/* Operators that nobody came to, since the device broke down. */
static void leave_rest(pool *p) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < p->agenda->num_ops; i++) {
    int state = atomic_load(&p->units[i].state);
    left += state == UNIT_TODO || state == UNIT_TAKEN;
    if (state != UNIT_DONE) atomic_store(&p->units[i].state, UNIT_IDLE);
  }
  if (left)
    snprintf(p->itself->note, sizeof p->itself->note, "%" PRIu32 " operators were not checked",
             left);
}

/* What opening left behind is the device's, or its plugin's. */
static void blame_opening(const pool *p) {
  const worker *first = p->workers;
  char text[600];
  for (uint32_t i = 0; i < OPENING_KEPT && *first->opening[i]; i++) {
    snprintf(text, sizeof text, "%s (opening): a plugin or the device %s", p->device->id,
             first->opening[i]);
    p->itself->tally.failures++;
    unit_fail(p->options, p->agenda, p->itself, text);
    atomic_store(&p->itself->state, UNIT_DONE);
  }
}

/* All in this process. */
static void work_here(pool *p) {
  worker *me = &p->workers[0];
  atomic_store(&me->unit, -1);
  const int out = output_aside();
  const tn_status status = work(p, me);
  output_back(out);
  if (status != TN_OK) itself_failed(p, me, "");
}

void workers_run(const check_options *o, const agenda *a, uint32_t device, unit *units,
                 unit *itself, void (*done)(void *ctx, unit *u), void *ctx) {
  pool p = {.options = o, .agenda = a, .device = &a->device[device], .units = units};
  p.itself = itself;
  p.workers = shared_memory(WORKERS * sizeof *p.workers);
  p.num_workers = workers_for(o, p.device);
  for (uint32_t i = 0; i < a->num_ops; i++) {
    units[i].device = device;
    units[i].op = i;
    atomic_store(&units[i].state, p.device->wanted[i] ? UNIT_TODO : UNIT_IDLE);
  }
  if (o->no_fork)
    work_here(&p);
  else
    supervise(&p, done, ctx);
  progress_clear();
  blame_opening(&p);
  leave_rest(&p);
  report(&p, done, ctx);
  if (atomic_load(&itself->state) == UNIT_DONE) done(ctx, itself);
  munmap(p.workers, WORKERS * sizeof *p.workers);
}
