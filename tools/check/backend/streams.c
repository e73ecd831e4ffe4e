/*
 * Streams and events as a program has them, through the public functions: operators on several
 * streams, ordered by events, tensors released while work is under way, so that the dispatcher's
 * pool hands memory on from stream to stream; and threads that share the default stream. Numbers
 * are whole and small, so that results are exact.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "tenon/ops.h"

enum {
  STREAMS = 3,
  LEAVES = 4,
  SUMS = 8,
  STEPS = 150,
  THREADS = 3,
  TURNS = 12,
  ELEMENTS = 8000,
  LONG = 4 << 20, /* elements, at the most */
  AT_ONCE = 64
};
static const uint64_t WORK_NS = 4000000;

/* A tensor that is a sum of leaves: how often of each. */
typedef struct sum {
  tn_tensor *tensor;
  uint32_t count[LEAVES];
  uint32_t stream;       /* that it was made on */
  bool read_by[STREAMS]; /* since then */
} sum;

typedef struct play {
  direct *d;
  tn_runtime *runtime;
  tn_device *device;
  tn_stream *stream[STREAMS];
  tn_event *event;
  tn_tensor *leaf[LEAVES], *large;
  float value[LEAVES][ELEMENTS];
  sum sums[SUMS];
  uint64_t state;
  uint32_t at_once; /* sums of `large` that take a while */
} play;

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(direct_random(state) % n); }

static bool ok(const play *p, const char *function, tn_status status) {
  if (status == TN_OK) return true;
  direct_fail(p->d, "%s failed: %s", function, tn_last_error());
  return false;
}

/* Later work of stream `to` comes behind what stream `from` has been given. */
static bool order(const play *p, uint32_t to, uint32_t from) {
  return to == from ||
         (ok(p, "tn_event_record", tn_event_record(p->event, p->stream[from])) &&
          ok(p, "tn_stream_wait_event", tn_stream_wait_event(p->stream[to], p->event)));
}

/* Its memory goes back to its own stream: behind those that read it. */
static bool drop(const play *p, sum *s) {
  for (uint32_t i = 0; i < STREAMS; i++)
    if (s->read_by[i] && !order(p, s->stream, i)) return false;
  tn_tensor_release(s->tensor);
  *s = (sum){0};
  return true;
}

static bool agrees(const play *p, const float *found, const uint32_t *count, const char *what) {
  for (int i = 0; i < ELEMENTS; i++) {
    float wanted = 0;
    for (int k = 0; k < LEAVES; k++) wanted += (float)count[k] * p->value[k][i];
    if (found[i] == wanted) continue;
    direct_fail(p->d, "%s: element %d is %g, not %g", what, i, (double)found[i], (double)wanted);
    return false;
  }
  return true;
}

static bool read_sum(const play *p, const sum *s, const char *what) {
  float *found = malloc(ELEMENTS * sizeof *found);
  if (!found) return direct_note(p->d, "not checked: no host memory"), false;
  direct_enter(p->d, "tn_tensor_to_host");
  tn_status status = tn_tensor_to_host(s->tensor, found, ELEMENTS * sizeof *found);
  bool fine =
      ok(p, "tn_tensor_to_host", direct_leave(p->d, status)) && agrees(p, found, s->count, what);
  free(found);
  return fine;
}

/* Something that takes a while, and whose result nobody wants. */
static bool work(const play *p, uint32_t stream) {
  bool fine = true;
  for (uint32_t i = 0; fine && i < p->at_once; i++) {
    tn_tensor *out = NULL;
    fine = ok(p, "tn_add", tn_add(p->stream[stream], p->large, p->large, &out));
    tn_tensor_release(out);
  }
  return fine;
}

/* A new sum of an old one and a leaf, on any stream, in the place of any other. */
static bool one_step(play *p, int number) {
  uint32_t stream = below(&p->state, STREAMS), from = below(&p->state, SUMS),
           to = below(&p->state, SUMS), leaf = below(&p->state, LEAVES);
  sum *a = &p->sums[from];
  sum made = {.stream = stream};
  direct_where(p->d, "operators on %d streams, seed %llu, step %d", STREAMS,
               (unsigned long long)p->d->seed, number);
  if (number % 16 == 0 && !work(p, a->stream)) return false;
  if (!order(p, stream, a->stream)) return false;
  if (!ok(p, "tn_add", tn_add(p->stream[stream], a->tensor, p->leaf[leaf], &made.tensor)))
    return false;
  memcpy(made.count, a->count, sizeof made.count);
  made.count[leaf]++;
  a->read_by[stream] = true;
  if (!drop(p, &p->sums[to])) return false;
  p->sums[to] = made;
  return number % 32 || read_sum(p, &p->sums[below(&p->state, SUMS)], "a sum");
}

static bool begin_sums(play *p) {
  bool fine = true;
  for (uint32_t i = 0; fine && i < SUMS; i++) {
    sum *s = &p->sums[i];
    s->stream = i % STREAMS;
    s->count[i % LEAVES] = 2;
    fine = ok(p, "tn_add",
              tn_add(p->stream[s->stream], p->leaf[i % LEAVES], p->leaf[i % LEAVES], &s->tensor));
  }
  return fine;
}

static void check_streams_of_program(play *p) {
  bool fine = begin_sums(p);
  for (int i = 1; fine && i <= STEPS; i++) fine = one_step(p, i);
  for (uint32_t i = 0; fine && i < SUMS; i++) fine = read_sum(p, &p->sums[i], "a sum at the end");
  for (uint32_t i = 0; fine && i < SUMS; i++) fine = drop(p, &p->sums[i]);
}

/* ------------------------------------------------------------------- threads --- */

typedef struct player {
  play *p;
  uint32_t number;
  pthread_t thread;
} player;

/* Chains of its own on the stream that all share. */
static void *use_default(void *arg) {
  const player *me = arg;
  play *p = me->p;
  uint64_t state = p->d->seed + 77 * me->number;
  bool fine = true;
  direct_where(p->d, "operators of %d threads on the default stream", THREADS);
  for (int turn = 0; fine && turn < TURNS && direct_is_sound(p->d); turn++) {
    sum s = {0};
    uint32_t leaf = below(&state, LEAVES);
    fine = ok(p, "tn_add", tn_add(NULL, p->leaf[leaf], p->leaf[leaf], &s.tensor));
    s.count[leaf] = 2;
    for (int i = 0; fine && i < 5; i++) {
      tn_tensor *next = NULL;
      leaf = below(&state, LEAVES);
      fine = ok(p, "tn_add", tn_add(NULL, s.tensor, p->leaf[leaf], &next));
      s.count[leaf]++;
      tn_tensor_release(s.tensor);
      s.tensor = next;
    }
    fine = fine && read_sum(p, &s, "a thread's sum");
    tn_tensor_release(s.tensor);
  }
  return NULL;
}

static void check_threads_of_program(play *p) {
  player players[THREADS];
  int begun = 0;
  for (uint32_t i = 0; i < THREADS; i++) {
    players[i] = (player){p, i, 0};
    if (pthread_create(&players[i].thread, NULL, use_default, &players[i])) break;
    begun++;
  }
  for (int i = 0; i < begun; i++) pthread_join(players[i].thread, NULL);
}

/* ------------------------------------------------------------------- the play --- */

/* One sum of large tensors, waited for; how long it took. */
static tn_status time_add(const play *p, uint64_t *ns) {
  tn_tensor *out = NULL;
  uint64_t began = direct_now();
  tn_status status = tn_add(NULL, p->large, p->large, &out);
  if (!status) status = tn_device_synchronize(p->device);
  tn_tensor_release(out);
  *ns = direct_now() - began;
  return status;
}

/* Tensors so large that some sums of them take a while. On devices without that kernel there is
 * nothing to put into streams. */
static bool find_long_work(play *p) {
  uint64_t ns = 0;
  for (int64_t elements = 1 << 14; elements <= LONG && ns < WORK_NS; elements *= 4) {
    tn_tensor_release(p->large);
    p->large = NULL;
    if (!ok(p, "tn_full", tn_full_f64(p->device, NULL, TN_F32, 1, &elements, 0, &p->large)))
      return false;
    tn_status status = time_add(p, &ns); /* the first may compile it */
    if (status == TN_ERR_UNSUPPORTED || status == TN_ERR_NOT_FOUND) {
      direct_note(p->d, "not checked: %s", tn_last_error());
      return false;
    }
    if (!ok(p, "tn_add", status) || !ok(p, "tn_add", time_add(p, &ns))) return false;
  }
  p->at_once = (uint32_t)(WORK_NS / (ns ? ns : 1)) + 1;
  if (p->at_once > AT_ONCE) p->at_once = AT_ONCE;
  return true;
}

static bool set_up(play *p, const check_options *o) {
  const int64_t shape[1] = {ELEMENTS};
  direct_enter_opening(p->d, "tn_runtime_open");
  tn_status status = session_open(o, p->d->id, false, &p->runtime);
  if (!ok(p, "tn_runtime_open", direct_leave(p->d, status))) return false;
  p->device = session_device(p->runtime, p->d->id);
  if (!p->device) return direct_fail(p->d, "there is no %s", p->d->id), false;
  if (!find_long_work(p)) return false;
  bool fine = ok(p, "tn_event_create", tn_event_create(p->device, &p->event));
  p->stream[0] = NULL; /* the default one */
  for (int i = 1; fine && i < STREAMS; i++)
    fine = ok(p, "tn_stream_create", tn_stream_create(p->device, &p->stream[i]));
  for (int k = 0; fine && k < LEAVES; k++) {
    for (int i = 0; i < ELEMENTS; i++) p->value[k][i] = (float)((i * (k + 3) + 11 * k) % 251);
    fine = ok(p, "tn_tensor_from_host",
              tn_tensor_from_host(p->device, TN_F32, 1, shape, p->value[k], &p->leaf[k]));
  }
  /* Made on the default stream, and read on all. */
  return fine && ok(p, "tn_device_synchronize", tn_device_synchronize(p->device));
}

static void take_down(play *p) {
  for (int k = 0; k < LEAVES; k++) tn_tensor_release(p->leaf[k]);
  tn_tensor_release(p->large);
  for (int i = 1; i < STREAMS; i++) tn_stream_destroy(p->stream[i]);
  tn_event_destroy(p->event);
  direct_enter(p->d, "tn_runtime_close");
  tn_runtime_close(p->runtime);
  direct_leave(p->d, TN_OK);
}

void check_streams(direct *d, const check_options *o) {
  play *p = calloc(1, sizeof *p);
  if (!p) return;
  p->d = d;
  p->state = d->seed;
  direct_where(d, "a runtime opens the device");
  if (set_up(p, o)) {
    check_streams_of_program(p);
    if (direct_is_sound(d)) check_threads_of_program(p);
  }
  if (direct_is_sound(d)) take_down(p);
  free(p);
}
