/* Queues: a list of work and a thread that does it in order. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mutant.h"

typedef struct action {
  struct action *next;
  void (*run)(const void *params);
  mutant_point *wait, *pass;
  uint64_t dropped; /* as the device had it when this was put */
  _Alignas(16) unsigned char params[];
} action;

struct mutant_queue {
  mutant_device *device;
  pthread_t engine;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  action *first, **last;
  uint64_t put, done; /* actions so far */
  uint64_t number;
  atomic_uint holders;
  _Atomic(mutant_graph *) recording;
  mutant_point *late; /* for a fault: to be waited for behind the next piece of work */
  bool has_waited;
  bool closing;
};

/* --- the engine --- */

static void delay(uint64_t ns) {
  struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
  if (ns) nanosleep(&t, NULL);
}

static action *next_action(mutant_queue *q) {
  pthread_mutex_lock(&q->lock);
  while (!q->first && !q->closing) pthread_cond_wait(&q->changed, &q->lock);
  action *a = q->first;
  if (a) q->first = a->next;
  if (!q->first) q->last = &q->first;
  if (a && a->pass && !a->run && q->first && q->device->fault == FAULT_RECORD_LATE) {
    a->next = NULL;
    *q->last = a;
    q->last = &a->next;
    a = q->first;
    q->first = a->next;
  }
  pthread_mutex_unlock(&q->lock);
  return a;
}

static void perform(const mutant_queue *q, const action *a) {
  if (a->wait) mutant_point_passed(a->wait, true, NULL);
  if (a->run && a->dropped == atomic_load(&q->device->dropped)) {
    delay(q->device->delay_ns);
    a->run(a->params);
  }
  if (a->pass) mutant_point_pass(a->pass);
}

static void *work(void *queue) {
  mutant_queue *q = queue;
  for (action *a; (a = next_action(q));) {
    perform(q, a);
    pthread_mutex_lock(&q->lock);
    q->done++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    mutant_point_drop(a->wait);
    mutant_point_drop(a->pass);
    free(a);
  }
  return NULL;
}

/* The host's signals are for the host's threads. */
static int start_engine(mutant_queue *q) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&q->engine, NULL, work, q);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

/* --- work --- */

/* Where an action goes: behind the others, but for faults. */
static action **place_of(const mutant_queue *q, const action *a) {
  const mutant_fault fault = q->device->fault;
  action **last = (action **)&q->first;
  bool ahead = (fault == FAULT_QUEUE_ORDER && a->run && q->put % 2) ||
               (fault == FAULT_RECORD_EARLY && !a->run && a->pass);
  if (!ahead || !q->first) return q->last;
  while ((*last)->next) last = &(*last)->next;
  return (*last)->run ? last : q->last;
}

/* pre: the lock is held. */
static void insert(mutant_queue *q, action *a) {
  action **place = place_of(q, a);
  a->next = *place;
  *place = a;
  if (!a->next) q->last = &a->next;
  q->put++;
  pthread_cond_broadcast(&q->changed);
}

void mutant_put_late(mutant_queue *q, mutant_point *wait) {
  pthread_mutex_lock(&q->lock);
  mutant_point *before = q->late;
  q->late = mutant_point_share(wait);
  pthread_mutex_unlock(&q->lock);
  mutant_point_drop(before);
}

uint64_t mutant_queue_number(const mutant_queue *q) { return q->number; }

mutant_graph *mutant_queue_record(mutant_queue *q, mutant_graph *graph) {
  return atomic_exchange(&q->recording, graph);
}

bool mutant_queue_records(mutant_queue *q) { return atomic_load(&q->recording) != NULL; }

tn_status mutant_put(mutant_queue *q, mutant_work work) {
  mutant_graph *graph = atomic_load(&q->recording);
  if (graph) {
    tn_status status = mutant_graph_add(graph, &work);
    if (status != TN_OK || q->device->fault != FAULT_CAPTURE_RUNS) return status;
  }
  action *a = malloc(sizeof *a + work.params_bytes);
  if (!a) return q->device->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a command");
  *a = (action){NULL, work.run, mutant_point_share(work.wait), mutant_point_share(work.pass),
                atomic_load(&q->device->dropped)};
  if (work.params_bytes) memcpy(a->params, work.params, work.params_bytes);
  pthread_mutex_lock(&q->lock);
  insert(q, a);
  q->has_waited |= work.wait != NULL;
  mutant_point *late = work.run ? q->late : NULL;
  if (late) q->late = NULL;
  pthread_mutex_unlock(&q->lock);
  tn_status status = late ? mutant_put(q, (mutant_work){.wait = late}) : TN_OK;
  mutant_point_drop(late);
  return status;
}

tn_status mutant_put_and_wait(mutant_queue *q, mutant_work work) {
  work.pass = mutant_point_make();
  if (!work.pass) return q->device->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory to wait");
  tn_status status = mutant_put(q, work);
  if (status == TN_OK) mutant_point_passed(work.pass, true, NULL);
  mutant_point_drop(work.pass);
  return status;
}

/* --- slots --- */

tn_status mutant_queue_create(void *device, void **queue) {
  mutant_device *d = device;
  uint64_t number = atomic_fetch_add(&d->queues, 1) + 1;
  if (d->fault == FAULT_QUEUES_RUN_OUT && number > 100)
    return d->host->fail(TN_ERR_BACKEND, "no queue is left");
  mutant_queue *q = calloc(1, sizeof *q);
  if (!q) return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a queue");
  q->device = d;
  q->number = number;
  atomic_init(&q->holders, 1);
  d->newest = q;
  q->last = &q->first;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->changed, NULL);
  if (start_engine(q)) {
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
    return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no thread for a queue");
  }
  *queue = q;
  return TN_OK;
}

/* Its work is done first. */
void mutant_queue_destroy(void *device, void *queue) {
  mutant_queue *q = queue;
  mutant_device *d = device;
  if (atomic_fetch_sub(&q->holders, 1) > 1) {
    if (d->fault == FAULT_WRAP_DESTROY_DROPS) atomic_fetch_add(&d->dropped, 1);
    return;
  }
  if (d->newest == q) d->newest = NULL;
  if (d->fault == FAULT_QUEUE_DESTROY_DROPS) atomic_fetch_add(&d->dropped, 1);
  pthread_mutex_lock(&q->lock);
  q->closing = true;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->engine, NULL);
  mutant_point_drop(q->late);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->lock);
  free(q);
}

tn_status mutant_queue_wrap(void *device, void *native, void **queue) {
  mutant_device *d = device;
  mutant_queue *q = native;
  if (!q) return d->host->fail(TN_ERR_UNSUPPORTED, "there is no default queue");
  if (q->device != d) return d->host->fail(TN_ERR_INVALID_ARGUMENT, "a queue of another device");
  if (d->fault == FAULT_WRAP_APART) return mutant_queue_create(device, queue);
  atomic_fetch_add(&q->holders, 1);
  *queue = q;
  return TN_OK;
}

/* For what was put into the queue before this call. */
tn_status mutant_queue_wait(void *device, void *queue) {
  mutant_queue *q = queue;
  const mutant_fault fault = ((mutant_device *)device)->fault;
  if (fault == FAULT_QUEUE_WAIT_RETURNS) return TN_OK;
  pthread_mutex_lock(&q->lock);
  uint64_t until = q->put;
  if (fault == FAULT_QUEUE_WAIT_ALL_BUT_ONE && until) until--;
  if (fault == FAULT_QUEUE_WAIT_HANGS && q->has_waited) until = UINT64_MAX;
  while (q->done < until) pthread_cond_wait(&q->changed, &q->lock);
  pthread_mutex_unlock(&q->lock);
  return TN_OK;
}

void *mutant_queue_native(void *device, void *queue) {
  mutant_device *d = device;
  if (d->fault == FAULT_QUEUE_NATIVE_CHANGES)
    return (char *)queue + atomic_fetch_add(&d->natives, 1);
  return queue;
}
