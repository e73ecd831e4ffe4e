/*
 * Threads at once. Each has its own tensors, numbers, stream and prepared call; what they compute
 * was computed alone before. In host memory timers stop the threads amid the kernel while the
 * others go on, so that a buffer which they share is seen to be, whether there are processors for
 * all of them or not.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "laid.h"
#include "load.h"

enum {
  MEMBERS = 4,
  HELD = 4,               /* results of invoked calls that are kept before they are looked at */
  MANY_CALLS = 64,        /* too short to be stopped in */
  ENOUGH_STOPS = 16,      /* amid a call, of all threads together */
  ENOUGH_CALLS = 12,      /* of a thread */
  MOST_CPU_NS = 6000000,  /* of the process, where calls are slow */
  MOST_NS = 200000000,    /* where others have the processors */
  MOST_LONE_NS = 1500000, /* of a call that is tried at all */
  STOP_NS = 20000,        /* that a thread sleeps amid a call */
  KERNELS = 3,            /* ranks that are tried */
};

typedef struct team {
  const load_site *site;
  const op_case *c;
  uint32_t rank;
  bool stops;       /* threads are stopped amid calls */
  bool interrupted; /* calls failed, and signals may be why */
  uint64_t slow_ns; /* of a call alone that is too slow to be tried, else 0 */
  atomic_bool go, stop;
  atomic_uint done, idle; /* threads that have made enough calls, and many */
} team;

typedef struct member {
  team *team;
  op_case c;
  laid l;
  tn_prepared *prepared; /* NULL: its calls are invoked */
  output want[CASE_ARGS];
  tn_tensor *held[HELD][CASE_ARGS];
  int num_held;
  pthread_t thread;
  effects_watch effects;   /* of its thread */
  uint64_t calls, lone_ns; /* what a call takes alone */
  bool refused;            /* it was a call's status */
  char why[500];           /* what went wrong, if anything */
} member;

/* --- results --- */

/* The same bits are promised to hosts alone that ask for them: repeat.c has such a one. */
static bool same_result(const member *m, const output *got, const output *want, judgement *j) {
  if (got->elements != want->elements)
    return snprintf(j->why, sizeof j->why, "shapes differ"), false;
  if (!memcmp(got->data, want->data, tn_dtype_size(got->dtype) * (size_t)got->elements))
    return true;
  if (compare_outputs(&m->c, got, want, j)) return true;
  /* Both are within the bound of the truth, on either side of it. */
  if (j->bound > 0 && j->error <= 2 * j->bound) return true;
  if (!*j->why) snprintf(j->why, sizeof j->why, "other bits");
  return false;
}

static void look_at(member *m, tn_tensor *const *arg) {
  for (uint32_t i = m->l.num_in; i < m->l.num_args && !*m->why; i++) {
    output got = {0};
    judgement j = {.why = ""};
    if (!arg[i]) continue;
    if (laid_read(arg[i], &got) != TN_OK)
      snprintf(m->why, sizeof m->why, "%s", tn_last_error());
    else if (!same_result(m, &got, &m->want[i], &j))
      snprintf(m->why, sizeof m->why, "%s is not as when the call is made alone: %s",
               m->c.op->args[i].name, j.why);
    free(got.data);
  }
}

static void look_at_held(member *m) {
  for (int k = 0; k < m->num_held; k++) {
    look_at(m, m->held[k]);
    for (uint32_t i = m->l.num_in; i < m->l.num_args; i++) tn_tensor_release(m->held[k][i]);
  }
  m->num_held = 0;
}

/* --- stopping amid calls --- */

static _Thread_local volatile sig_atomic_t inside; /* the thread is in a call */
static atomic_uint stops;

static void stop_a_while(int signal) {
  int kept = errno;
  (void)signal;
  if (inside) atomic_fetch_add(&stops, 1);
  if (inside) nanosleep(&(struct timespec){0, STOP_NS}, NULL);
  errno = kept;
}

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static bool timer_begin(const member *m, timer_t *timer) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
  event.sigev_notify_thread_id = gettid();
  return m->team->stops && !timer_create(CLOCK_MONOTONIC, &event, timer);
}

/* For somewhere in the call that begins now. */
static void timer_set(const member *m, timer_t timer) {
  uint64_t at = case_mix(m->c.seed + m->calls) % (m->lone_ns + 1);
  struct itimerspec when = {.it_value = {0, (long)at + 1}};
  timer_settime(timer, 0, &when, NULL);
}

/* --- calls --- */

static tn_status run_call(member *m) {
  tn_status status = laid_refresh(&m->l);
  if (status != TN_OK) return status;
  if (m->prepared) return tn_run(m->prepared);
  tn_call call = laid_call(&m->l);
  return tn_invoke(&call);
}

/* What an invoked call made is held, and the next one makes others. */
static void call_and_hold(member *m) {
  const uint64_t began = clock_ns();
  inside = 1;
  tn_status status = run_call(m);
  inside = 0;
  if (clock_ns() - began < m->lone_ns) m->lone_ns = clock_ns() - began;
  if (status != TN_OK) {
    snprintf(m->why, sizeof m->why, "%s: %s", tn_status_name(status), tn_last_error());
    m->refused = true;
    return;
  }
  m->calls++;
  if (effects_found_mode(&m->effects, m->why, sizeof m->why)) return;
  if (m->prepared || m->l.updates) {
    if (m->l.stream) tn_stream_synchronize(m->l.stream);
    look_at(m, m->l.arg);
    if (!m->prepared) laid_drop_outputs(&m->l);
    return;
  }
  memcpy(m->held[m->num_held], m->l.arg, sizeof m->l.arg);
  memset(m->l.arg + m->l.num_in, 0, sizeof *m->l.arg * (m->l.num_args - m->l.num_in));
  if (++m->num_held == HELD) look_at_held(m);
}

static void *member_run(void *ctx) {
  member *m = ctx;
  timer_t timer;
  const bool timed = timer_begin(m, &timer);
  effects_begin(&m->effects);
  while (!atomic_load(&m->team->go)) sched_yield();
  while (!*m->why && !atomic_load(&m->team->stop)) {
    if (timed) timer_set(m, timer);
    call_and_hold(m);
    if (m->calls == ENOUGH_CALLS) atomic_fetch_add(&m->team->done, 1);
    if (m->calls == MANY_CALLS) atomic_fetch_add(&m->team->idle, 1);
    if (m->calls > ENOUGH_CALLS) sched_yield(); /* others may not have begun */
  }
  if (timed) timer_delete(timer);
  look_at_held(m);
  atomic_fetch_add(&m->team->done, MEMBERS * (*m->why != 0));
  return NULL;
}

/* --- alone --- */

/* Another seed draws other numbers; the operator's own seed stays. */
static tn_status member_make(member *m, team *of, uint32_t index) {
  tn_stream *stream = NULL;
  tn_status status = TN_OK;
  *m = (member){.team = of, .c = *of->c};
  m->c.seed = case_mix(m->c.seed + index);
  if (index & 1) status = tn_stream_create(of->site->device, &stream);
  if (status == TN_OK) status = laid_make(&m->c, of->site->device, stream, &m->l);
  if (status != TN_OK && stream) tn_stream_destroy(stream);
  return status;
}

static void member_free(member *m) {
  tn_stream *stream = m->l.stream;
  tn_prepared_release(m->prepared);
  for (uint32_t i = 0; i < CASE_ARGS; i++) free(m->want[i].data);
  if (m->l.c) laid_free(&m->l);
  if (stream) tn_stream_destroy(stream);
}

static tn_status alone(member *m, uint64_t *took_ns) {
  tn_status status = tn_device_synchronize(m->l.device);
  uint64_t began = clock_ns();
  if (status == TN_OK) status = run_call(m);
  m->lone_ns = clock_ns() - began;
  if (status == TN_OK && m->l.stream) status = tn_stream_synchronize(m->l.stream);
  for (uint32_t i = m->l.num_in; i < m->l.num_args && status == TN_OK; i++)
    if (m->l.arg[i]) {
      free(m->want[i].data);
      status = laid_read(m->l.arg[i], &m->want[i]);
    }
  *took_ns = clock_ns() - began;
  if (!m->prepared) laid_drop_outputs(&m->l);
  return status;
}

/* Half of them prepare their call; all do behind the best kernel. Outputs that depend on data are
 * cut where the call is invoked alone. */
static tn_status member_begin(member *m, uint32_t index, const char *judge) {
  const bool cut = m->c.op->flags & TN_OPERATOR_DATA_DEPENDENT;
  uint64_t took_ns;
  tn_status status = TN_OK;
  if (m->team->rank && cut) return TN_ERR_UNSUPPORTED;
  if (m->team->rank || (index >= MEMBERS / 2 && !cut))
    status = laid_prepare(&m->l, m->team->rank, judge, &m->prepared);
  if (status == TN_OK) status = alone(m, &took_ns);
  if (status == TN_OK && took_ns > MOST_LONE_NS) status = alone(m, &took_ns); /* now it is warm */
  if (status != TN_OK || took_ns <= MOST_LONE_NS) return status;
  m->team->slow_ns = took_ns;
  return TN_ERR_UNSUPPORTED;
}

/* --- all at once --- */

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Lets them work until they have met often enough. */
static void wait_for(team *t) {
  const uint64_t began = clock_ns(), spent = cpu_ns();
  for (;;) {
    bool met = !t->stops || atomic_load(&stops) >= ENOUGH_STOPS || atomic_load(&t->idle) >= MEMBERS;
    if (atomic_load(&t->done) >= MEMBERS && met) break;
    if (clock_ns() - began > MOST_NS || cpu_ns() - spent > MOST_CPU_NS) break;
    nanosleep(&(struct timespec){0, 2 * STOP_NS}, NULL);
  }
  atomic_store(&t->stop, true);
}

static void run_threads(member *members) {
  struct sigaction before, ours = {.sa_handler = stop_a_while, .sa_flags = SA_RESTART};
  team *t = members->team;
  uint32_t started = 0;
  atomic_store(&stops, 0);
  if (t->stops) sigaction(SIGURG, &ours, &before);
  while (started < MEMBERS &&
         !pthread_create(&members[started].thread, NULL, member_run, &members[started]))
    started++;
  atomic_store(&t->stop, started < MEMBERS); /* a process that may have no more threads */
  atomic_store(&t->go, true);
  if (started == MEMBERS) wait_for(t);
  for (uint32_t i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
  if (t->stops) sigaction(SIGURG, &before, NULL);
}

/* Of the kernel at the team's rank. */
static void name_kernel(team *t, member *m, char *name, size_t size) {
  tn_kernel_info k = {.struct_size = sizeof k, .name = "?"};
  tn_prepared *prepared = NULL;
  tn_call call = laid_call(&m->l);
  if (m->prepared)
    tn_prepared_kernel(m->prepared, &k);
  else if (tn_prepare_candidate(&call, t->rank, &prepared) == TN_OK)
    tn_prepared_kernel(prepared, &k);
  snprintf(name, size, "%s", k.name);
  tn_prepared_release(prepared);
  if (!m->prepared) laid_drop_outputs(&m->l);
}

static bool is_host(tn_device *device) {
  tn_device_info info = {.struct_size = sizeof info};
  return tn_device_get_info(device, &info) == TN_OK && info.host_memory;
}

static void report(const team *t, const member *members, const char *kernel, tally *to) {
  char why[800];
  for (uint32_t i = 0; i < MEMBERS; i++) {
    if (!*members[i].why) continue;
    snprintf(why, sizeof why, "%s, in %d threads at once: %s", kernel, MEMBERS, members[i].why);
    load_complain(t->site, t->c, to, "threads", why);
    return;
  }
}

/* Whether calls failed by their status alone, in threads that were stopped. */
static bool was_interrupted(const member *members) {
  bool refused = false;
  for (uint32_t i = 0; i < MEMBERS; i++) {
    if (*members[i].why && !members[i].refused) return false;
    refused |= members[i].refused;
  }
  return refused && members->team->stops && atomic_load(&stops) > 0;
}

/* False where there is no kernel of that rank, or none to try. */
static bool try_rank(team *all, tally *t, char *note, size_t size) {
  const load_site *s = all->site;
  member *members = calloc(MEMBERS, sizeof *members);
  char judge[64], kernel[128];
  tn_status status = members ? TN_OK : TN_ERR_OUT_OF_MEMORY;
  uint32_t made = 0;
  load_judge(s, judge, sizeof judge);
  for (; made < MEMBERS && status == TN_OK; made += status == TN_OK) {
    status = member_make(&members[made], all, made);
    if (status == TN_OK) status = member_begin(&members[made], made, judge);
    if (status != TN_OK) member_free(&members[made]);
  }
  if (status == TN_OK) {
    name_kernel(all, members, kernel, sizeof kernel);
    tn_device_synchronize(s->device);
    run_threads(members);
    if (was_interrupted(members))
      snprintf(note, size, "%s fails where signals come amid its calls, and not without", kernel);
    else
      report(all, members, kernel, t);
  }
  all->interrupted = status == TN_OK && was_interrupted(members);
  for (uint32_t i = 0; i < made; i++) member_free(&members[i]);
  free(members);
  return status == TN_OK;
}

/* The timers' signals end waits that a vendor's library may not take up again (EINTR, whatever
 * SA_RESTART says): a call that fails by a status is tried without. Wrong numbers are wrong. */
static bool run_rank(const op_case *c, const load_site *s, uint32_t rank, tally *t, char *note,
                     size_t size) {
  team all = {.site = s, .c = c, .rank = rank, .stops = is_host(s->device)};
  team again = {.site = s, .c = c, .rank = rank};
  const uint64_t failures = t->failures;
  bool ran = try_rank(&all, t, note, size);
  if (all.interrupted) ran = try_rank(&again, t, note, size);
  if (t->failures > failures) note[0] = 0;
  if (all.slow_ns && rank == 0)
    snprintf(note, size, "threads not tried: a call takes %.1f ms", (double)all.slow_ns / 1e6);
  return ran;
}

void together_case(const op_case *c, const load_site *s, tally *t, char *note, size_t size) {
  note[0] = 0;
  if (!tally_begin(t, c, "threads")) return;
  const uint32_t kernels = c->typical ? 1 : KERNELS;
  for (uint32_t rank = 0; rank < kernels && run_rank(c, s, rank, t, note, size);) rank++;
}

/* --- what both loads share --- */

bool load_fits(const op_case *c) {
  enum { MOST = 1 << 14 };
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (!c->arg[i].absent && case_elements(&c->arg[i]) > MOST) return false;
  return true;
}

void load_judge(const load_site *s, char *name, size_t size) {
  tn_device_info info = {.struct_size = sizeof info};
  bool known = tn_device_get_info(s->reference, &info) == TN_OK;
  snprintf(name, size, "%s", known ? info.plugin : "");
}

void load_complain(const load_site *s, const op_case *c, tally *t, const char *how,
                   const char *why) {
  tn_device_info info = {.struct_size = sizeof info};
  char text[900];
  tn_device_get_info(s->device, &info);
  case_describe(c, text, sizeof text);
  tally_fail(t, "%s (%s): %s: %s", info.id, how, text, why);
}
