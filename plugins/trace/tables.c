/*
 * What a trace knows of: devices, lanes, rows, threads. Entries are put in front of their list
 * under the trace's lock and never move, so that finding one is a walk over atomic pointers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

static void *alloc_zeroed(const trace *t, size_t bytes) {
  void *made = t->host->alloc(t->host, bytes, 16);
  return made ? memset(made, 0, bytes) : NULL;
}

static size_t bucket(uint64_t a, uint64_t b) {
  uint64_t mixed = (a >> 4) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xc2b2ae3d27d4eb4fu;
  return (mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15u >> 56;
}

/* --- devices --- */

static device *find_device(const trace *t, const char *type, int32_t index) {
  for (device *d = atomic_load_explicit(&t->devices, memory_order_acquire); d; d = d->next)
    if (d->index == index && strcmp(d->type, type) == 0) return d;
  return NULL;
}

/* Numbers of processes stay below 2^22 on Linux; those of devices lie above, with those of the
 * process and its trace in them, so that traces can be put together. */
static uint32_t device_pid(const trace *t, uint32_t number) {
  uint32_t above = (number & 0x3f) + 1 + 0x40 * ((t->number - 1) & 7);
  return above << 22 | ((uint32_t)t->pid & 0x3fffff);
}

static device *make_device(trace *t, const char *type, int32_t index) {
  device *first = atomic_load(&t->devices), *d = alloc_zeroed(t, sizeof *d);
  if (!d) return NULL;
  uint32_t number = 0;
  for (const device *other = first; other; other = other->next) ++number;
  d->next = first;
  d->type = type;
  d->index = index;
  d->pid = device_pid(t, number);
  pthread_mutex_init(&d->lock, NULL);
  atomic_store_explicit(&t->devices, d, memory_order_release);
  char name[96];
  snprintf(name, sizeof name, "%s:%" PRId32, type, index);
  slice_process(t, d->pid, name, number + 1);
  return d;
}

device *device_of(trace *t, const char *type, int32_t index) {
  device *d = find_device(t, type, index);
  if (d) return d;
  pthread_mutex_lock(&t->lock);
  d = find_device(t, type, index);
  if (!d) d = make_device(t, type, index);
  pthread_mutex_unlock(&t->lock);
  return d;
}

/* --- rows --- */

/* Identities of devices and of calls that need stand-ins are strings that stay where they are. */
static const char *fallback_from(const tn_layer_call *call) {
  return TN_HAS_FIELD(call, tn_layer_call, fallback_from) ? call->fallback_from : NULL;
}

static const char *stand_in_for(const tn_layer_call *call) {
  return TN_HAS_FIELD(call, tn_layer_call, stand_in_for) ? call->stand_in_for : NULL;
}

static row *find_row(const trace *t, const tn_layer_call *call, size_t at) {
  row *r = atomic_load_explicit(&t->rows[at], memory_order_acquire);
  while (r && (r->kernel != call->args->kernel || r->handle != call->args->device ||
               r->fallback_from != fallback_from(call) || r->stand_in_for != stand_in_for(call)))
    r = r->next;
  return r;
}

/* Outputs alone are never lists. */
static uint32_t count_results(const tn_operator *op) {
  size_t step =
      TN_HAS_FIELD(op, tn_operator, arg_size) && op->arg_size ? op->arg_size : sizeof(tn_arg);
  uint32_t results = 0;
  for (uint32_t i = 0; i < op->num_args; ++i) {
    const tn_arg *arg = (const void *)((const char *)op->args + i * step);
    results += arg->kind == TN_ARG_OUT || arg->kind == TN_ARG_OPTIONAL_OUT;
  }
  return results;
}

static row *make_row(trace *t, const tn_layer_call *call, size_t at, device *d) {
  row *r = alloc_zeroed(t, sizeof *r);
  if (!r) return NULL;
  r->next = atomic_load(&t->rows[at]);
  r->kernel = call->args->kernel;
  r->handle = call->args->device;
  r->device = d;
  r->op = call->op;
  r->plugin = call->plugin;
  r->fallback_from = fallback_from(call);
  r->stand_in_for = stand_in_for(call);
  r->results = count_results(call->op);
  slice_row(t, r);
  atomic_store_explicit(&t->rows[at], r, memory_order_release);
  return r;
}

row *row_of(trace *t, const tn_layer_call *call) {
  size_t at = bucket((uintptr_t)call->args->kernel, (uintptr_t)call->args->device);
  row *r = find_row(t, call, at);
  if (r) return r;
  device *d = device_of(t, call->device_type, call->device_index);
  if (!d) return NULL;
  pthread_mutex_lock(&t->lock);
  r = find_row(t, call, at);
  if (!r) r = make_row(t, call, at, d);
  pthread_mutex_unlock(&t->lock);
  return r;
}

/* --- lanes --- */

static bool can_time(const tn_backend *b) {
  return b && !(b->flags & TN_BACKEND_SYNCHRONOUS) && b->event_create && b->event_destroy &&
         b->event_record && b->event_query && b->event_wait && b->event_elapsed;
}

static lane *find_lane(const trace *t, const void *stream, pid_t thread, const device *d) {
  size_t at = bucket((uintptr_t)stream, (uint64_t)thread);
  lane *l = atomic_load_explicit(&t->lanes[at], memory_order_acquire);
  while (l && (l->stream != stream || l->thread != thread || l->device != d)) l = l->next;
  return l;
}

lane *lane_find(const trace *t, const void *stream, const device *d) {
  return find_lane(t, stream, 0, d);
}

static lane *make_lane(trace *t, const tn_layer_call *call, device *d, pid_t thread) {
  size_t at = bucket((uintptr_t)call->stream, (uint64_t)thread);
  lane *l = alloc_zeroed(t, sizeof *l);
  if (!l) return NULL;
  l->next = atomic_load(&t->lanes[at]);
  l->stream = call->stream;
  l->thread = thread;
  l->device = d;
  l->number = atomic_fetch_add(&d->num_lanes, 1) + 1;
  l->queue = call->args->queue;
  if (!thread && !d->backend) {
    d->handle = call->args->device;
    d->backend = call->backend;
  }
  atomic_store_explicit(&t->lanes[at], l, memory_order_release);
  char name[64];
  if (thread)
    snprintf(name, sizeof name, "in thread %ld", (long)thread);
  else
    snprintf(name, sizeof name, "stream %" PRIu32, l->number);
  slice_thread(t, d->pid, l->number, name);
  return l;
}

lane *lane_of(trace *t, const tn_layer_call *call, device *d, pid_t thread) {
  if (can_time(call->backend)) thread = 0;
  lane *l = find_lane(t, call->stream, thread, d);
  if (l) return l;
  pthread_mutex_lock(&t->lock);
  l = find_lane(t, call->stream, thread, d);
  if (!l) l = make_lane(t, call, d, thread);
  pthread_mutex_unlock(&t->lock);
  return l;
}

/* --- threads --- */

/* True the first time; past the set's size threads go without a name. */
static bool note_thread(trace *t, pid_t thread) {
  for (uint32_t i = 0; i < TRACE_THREADS / 2; ++i) {
    pid_t *slot = &t->threads[((uint32_t)thread + i) % TRACE_THREADS];
    if (*slot == thread) return false;
    if (*slot) continue;
    *slot = thread;
    return true;
  }
  return false;
}

static void name_thread(trace *t, pid_t thread) {
  char name[32];
  pthread_mutex_lock(&t->lock);
  bool first = note_thread(t, thread);
  pthread_mutex_unlock(&t->lock);
  if (!first) return;
  if (pthread_getname_np(pthread_self(), name, sizeof name) != 0) name[0] = 0;
  slice_thread(t, (uint32_t)t->pid, (uint32_t)thread, name[0] ? name : "thread");
}

/* The number is the kernel's and asked for once per thread and trace. */
pid_t thread_of(trace *t) {
  static _Thread_local pid_t thread;
  static _Thread_local uint64_t known_to;
  if (known_to == t->opened_ns && thread) return thread;
  thread = gettid();
  known_to = t->opened_ns;
  name_thread(t, thread);
  return thread;
}

/* --- the end --- */

void tables_free(trace *t) {
  const tn_host *host = t->host;
  for (size_t i = 0; i < TRACE_BUCKETS; ++i) {
    for (lane *l = atomic_load(&t->lanes[i]), *next; l; l = next) {
      next = l->next;
      host->free(host, l);
    }
    for (row *r = atomic_load(&t->rows[i]), *next; r; r = next) {
      next = r->next;
      host->free(host, r);
    }
  }
  for (device *d = atomic_load(&t->devices), *next; d; d = next) {
    next = d->next;
    pthread_mutex_destroy(&d->lock);
    host->free(host, d);
  }
}
