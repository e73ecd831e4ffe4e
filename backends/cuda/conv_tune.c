/*
 * The fastest way of a convolution by measuring: the algorithms that cuDNN's older heuristic names,
 * and the engines that its graphs have, which are more and of which many run on newer units.
 *
 * Where there is a bias or an activation, each stands beside those that have it in them: what is
 * measured is the whole call. Some of these take NaN for 0, so that one is only kept after it was
 * seen not to. Sums that stay in float32 until an activation are engines' alone.
 */
#include <math.h>
#include <stdlib.h>

#include "backends/cuda/conv.h"
#include "backends/cuda/tune.h"
#include "kernels/cuda/base/choices.h"
#include "kernels/cuda/base/rounded.h"

enum { most_engines = 16, most_fused = 6 };

/* What is fused pays where the convolution alone is too small to be measured. */
static const double least_fused = 1.0 / 64;

/* So many does a device do while it reads or writes a byte, by order of magnitude. */
static const double operations_per_byte = 64;

/* What is remembered: a candidate's place in the heuristic's list of its kind and its number, by
 * which it is known again. */
typedef struct chosen {
  int64_t number;
  int32_t is_engine, place, fused, atomic; /* the last: adds in no order */
  int64_t notes;                           /* of the engine */
} chosen;

/* What candidates may have. */
typedef struct allowed {
  bool fused, atomic;
} allowed;

/* All that there is to try. */
typedef struct field {
  const conv_candidate *list;
  int count;
  dnn_plan engine[most_engines + most_fused];
  int engines, first_fused; /* all of them; those from here on have the epilogue in them */
} field;

typedef struct trial {
  const cuda_queue *queue;
  conv_plan *plan;
  conv_memory memory;
} trial;

static bool run_trial(void *user) {
  const trial *t = user;
  return cuda_conv_execute(t->queue, t->plan, &t->memory) == TN_OK;
}

/* All engines, or of either kind alone. */
static void list_field(cuda_queue *queue, const convolution *c, bool plain, bool fused, field *f) {
  const uint32_t notes = cuda_conv_forbidden_notes(c);
  f->engines = 0;
  if (plain) f->engines = cuda_conv_engines(queue, c, false, notes, f->engine, most_engines);
  f->first_fused = f->engines;
  if (fused)
    f->engines += cuda_conv_engines(queue, c, true, notes, f->engine + f->engines, most_fused);
}

/* Frees the engines but for the one at `kept`. */
static void drop_engines(field *f, int kept) {
  for (int i = 0; i < f->engines; i++)
    if (i != kept) dnn_plan_destroy(&f->engine[i]);
}

/* Algorithms that the heuristic would put last for being less exact are left to it. */
static bool is_exact(const conv_plan *p, const conv_candidate *a) {
  if (p->key.role == CUDA_CONV_FORWARD)
    return a->algorithm != CUDNN_CONVOLUTION_FWD_ALGO_FFT &&
           a->algorithm != CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING &&
           a->algorithm != CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
  if (p->key.role == CUDA_CONV_BACKWARD)
    return a->algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT &&
           a->algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING &&
           a->algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  return a->algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT &&
         a->algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING &&
         a->algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/* The place of the candidate that the plan has. */
static int first_place(cudnnHandle_t dnn, conv_plan *p, const field *f) {
  for (int i = 0; i < f->count; i++)
    if (cuda_conv_take(dnn, p, &f->list[i])) return i;
  return 0;
}

static size_t bytes_of(const convolution *c, const int32_t size[5]) {
  size_t elements = 1;
  for (int i = 0; i < 5; i++) elements *= (size_t)size[i];
  return (elements * tn_dtype_size((tn_dtype)c->dtype) + 255) / 256 * 256;
}

/* The most workspace that any candidate wants. */
static size_t most_workspace(cudnnHandle_t dnn, conv_plan *p, const field *f) {
  size_t most = 0;
  for (int i = 0; i < f->engines; i++) {
    p->graph = f->engine[i];
    p->fused = i >= f->first_fused;
    if (cuda_conv_plan_bytes(p) > most) most = cuda_conv_plan_bytes(p);
  }
  p->graph = (dnn_plan){.plan = NULL};
  p->fused = false;
  for (int i = 0; i < f->count; i++)
    if (cuda_conv_take(dnn, p, &f->list[i]) && p->workspace_bytes > most) most = p->workspace_bytes;
  return most;
}

/* Which of the field's engines it is. */
static int engine_at(const field *f, const chosen *c) {
  return c->place + (c->fused ? f->first_fused : 0);
}

/* Has the plan be what was chosen, with the heuristic's algorithm beside an engine; false where
 * there is no such candidate. */
static bool settle(cudnnHandle_t dnn, conv_plan *p, const field *f, const chosen *c) {
  const int first = first_place(dnn, p, f);
  if (c->is_engine) {
    const int at = engine_at(f, c), end = c->fused ? f->engines : f->first_fused;
    if (c->place < 0 || at >= end || f->engine[at].engine != c->number ||
        f->engine[at].notes != (uint32_t)c->notes)
      return false;
    p->graph = f->engine[at];
    p->fused = c->fused;
    return true;
  }
  p->fused = c->fused && p->activation;
  if (c->place >= 0 && c->place < f->count && f->list[c->place].algorithm == c->number &&
      cuda_conv_take(dnn, p, &f->list[c->place]))
    return true;
  if (f->count) (void)cuda_conv_take(dnn, p, &f->list[first]);
  p->fused = false;
  return false;
}

static void log_candidate(const cuda_tuner *tuner, const trial *t, const char *kind,
                          long long number, uint32_t notes) {
  const tn_host *host = tuner->queue->device->host;
  host->log(host, TN_LOG_DEBUG, "cuda: conv role %d: %s%s %lld, notes %#x, %zu bytes: %.4f ms",
            t->plan->key.role, t->plan->fused ? "fused " : "", kind, number, (unsigned)notes,
            cuda_conv_plan_bytes(t->plan), (double)tuner->last_ms);
}

static void race_algorithms(cuda_tuner *tuner, trial *t, const field *f, bool fused, chosen *best) {
  cudnnHandle_t dnn = tuner->queue->dnn;
  const int first = first_place(dnn, t->plan, f);
  t->plan->fused = fused;
  for (int i = first; i < f->count; i++) {
    if (i > first && !is_exact(t->plan, &f->list[i])) continue;
    if (!cuda_conv_take(dnn, t->plan, &f->list[i])) continue;
    const bool leads = cuda_tuner_is_best(tuner, run_trial, t);
    log_candidate(tuner, t, "algorithm", f->list[i].algorithm, 0);
    if (leads) *best = (chosen){.number = f->list[i].algorithm, .place = i, .fused = fused};
  }
  t->plan->fused = false;
}

/* Has every candidate run that is allowed; false where none could. */
static bool race(cuda_tuner *tuner, trial *t, const field *f, const allowed *may, chosen *best) {
  tuner->best_ms = -1, tuner->spent_ms = 0;
  race_algorithms(tuner, t, f, false, best);
  if (may->fused && t->plan->activation) race_algorithms(tuner, t, f, true, best);
  (void)first_place(tuner->queue->dnn, t->plan, f);
  for (int i = 0; i < (may->fused ? f->engines : f->first_fused); i++) {
    const bool atomic =
        cuda_conv_is_half(&t->plan->key) && f->engine[i].notes & CONV_NOTE(NONDETERMINISTIC);
    if (atomic && !may->atomic) continue;
    t->plan->graph = f->engine[i];
    t->plan->fused = i >= f->first_fused;
    const bool leads = cuda_tuner_is_best(tuner, run_trial, t);
    log_candidate(tuner, t, "engine", (long long)f->engine[i].engine, f->engine[i].notes);
    if (!leads) continue;
    *best = (chosen){.number = f->engine[i].engine, .is_engine = 1, .fused = t->plan->fused};
    best->place = t->plan->fused ? i - f->first_fused : i;
    best->atomic = atomic;
    best->notes = f->engine[i].notes;
  }
  t->plan->graph = (dnn_plan){.plan = NULL};
  t->plan->fused = false;
  return tuner->best_ms >= 0;
}

/* Whether NaN in x is NaN in the middle of y. pre: the plan is to be judged by it; x is lost. */
static bool keeps_nan(const trial *t) {
  const convolution *c = &t->plan->key;
  const size_t size = tn_dtype_size((tn_dtype)c->dtype);
  cudaStream_t stream = t->queue->stream;
  int64_t at = c->y[0] / 2, place = 0;
  for (int i = 2; i < 5; i++) place = place * c->y[i] + c->y[i] / 2;
  const int64_t plane = (int64_t)c->y[2] * c->y[3] * c->y[4], channel = c->y[1] / 2;
  at = c->channels_last ? (at * plane + place) * c->y[1] + channel
                        : (at * c->y[1] + channel) * plane + place;
  uint32_t bits = 0;
  if (cudaMemsetAsync(t->memory.x, 0xff, bytes_of(c, c->x), stream) != cudaSuccess ||
      !run_trial((void *)(uintptr_t)t) ||
      cudaMemcpyAsync(&bits, (char *)t->memory.y + (size_t)at * size, size, cudaMemcpyDeviceToHost,
                      stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  const uint32_t infinite = c->dtype == TN_F16 ? 0x7c00 : c->dtype == TN_BF16 ? 0x7f80 : 0x7f800000;
  return (bits & (size == 2 ? 0x7fffu : 0x7fffffffu)) > infinite;
}

/* ---------------------------------------------------------- rounding once --- */

enum { compared = 1 << 15 };

/* The first results of a run of the plan as it is. */
static bool results_of(const trial *t, uint16_t *to, int count) {
  const convolution *c = &t->plan->key;
  const void *result = c->role == CUDA_CONV_FORWARD    ? t->memory.y
                       : c->role == CUDA_CONV_BACKWARD ? t->memory.x
                                                       : t->memory.w;
  cudaStream_t stream = t->queue->stream;
  if (run_trial((void *)(uintptr_t)t) &&
      cudaMemcpyAsync(to, result, (size_t)count * sizeof *to, cudaMemcpyDeviceToHost, stream) ==
          cudaSuccess &&
      cudaStreamSynchronize(stream) == cudaSuccess)
    return true;
  (void)cudaGetLastError();
  return false;
}

/* Has the plan be what others are held against: the heuristic's first algorithm, or where there is
 * none, the first engine without an epilogue; false where there is neither. */
static bool take_yardstick(const trial *t, const field *f) {
  (void)first_place(t->queue->dnn, t->plan, f);
  t->plan->fused = false;
  if (!f->count && f->first_fused > 0) t->plan->graph = f->engine[0];
  return f->count || f->first_fused > 0;
}

/* Whether what was chosen gives what the yardstick does, which adds in float and rounds once. pre:
 * results of 16 bits. */
static bool rounds_once(const trial *t, const field *f, const chosen *c) {
  const convolution *key = &t->plan->key;
  const int32_t *size = key->role == CUDA_CONV_FORWARD    ? key->y
                        : key->role == CUDA_CONV_BACKWARD ? key->x
                                                          : key->w;
  const size_t all = bytes_of(key, size) / sizeof(uint16_t);
  const int count = all < compared ? (int)all : compared;
  uint16_t *a = calloc((size_t)count, 2 * sizeof *a), *b = a ? a + count : NULL;
  bool once = a && take_yardstick(t, f) && results_of(t, a, count) &&
              settle(t->queue->dnn, t->plan, f, c) && results_of(t, b, count) &&
              cuda_rounded_alike(a, b, count, (tn_dtype)key->dtype);
  t->plan->graph = (dnn_plan){.plan = NULL};
  free(a);
  return once;
}

static bool measure(cuda_queue *queue, conv_plan *p, const field *f, chosen *best) {
  const convolution *c = &p->key;
  const size_t x = bytes_of(c, c->x), w = bytes_of(c, c->w), y = bytes_of(c, c->y);
  const int32_t bias_size[5] = {1, c->y[1], 1, 1, 1};
  const size_t bias = bytes_of(c, bias_size), addend = c->addend ? y : 0;
  cuda_tuner tuner;
  if (!cuda_tuner_open(&tuner, queue, x + w + y + bias + addend + most_workspace(queue->dnn, p, f),
                       (tn_dtype)c->dtype))
    return false;
  unsigned char *at = tuner.memory, *behind = at + x + w + y;
  trial t = {queue, p, {at, at + x, at + x + w, behind, behind + bias, behind + bias + addend}};
  allowed may = {true, true};
  bool any = race(&tuner, &t, f, &may, best);
  if (any && best->atomic && !rounds_once(&t, f, best)) {
    may.atomic = false;
    any = race(&tuner, &t, f, &may, best);
  }
  /* Some that take over an activation are wrong where channels are few. */
  const bool wrong = any && best->fused && cuda_conv_sums_are_wide(c) && !rounds_once(&t, f, best);
  if (wrong || (any && best->fused && !(settle(queue->dnn, p, f, best) && keeps_nan(&t)))) {
    may.fused = false;
    any = race(&tuner, &t, f, &may, best);
  }
  p->graph = (dnn_plan){.plan = NULL};
  p->fused = false;
  cuda_tuner_close(&tuner);
  return any;
}

/* An engine's plan as the device keeps it, for all its queues and until it is closed. */
typedef struct shared_engine {
  cuda_plan plan;
  convolution key;
  dnn_plan engine;
  bool fused;
} shared_engine;

void cuda_engine_destroy(cuda_plan *plan) {
  shared_engine *e = (shared_engine *)plan;
  dnn_plan_destroy(&e->engine);
  free(e);
}

/* Has the plan use the device's engine for it, if there is one. */
static bool take_shared(cuda_device *device, conv_plan *p) {
  (void)pthread_mutex_lock(&device->lock);
  cuda_plan *found = cuda_plans_find(&device->engines, &p->key, sizeof p->key);
  if (found) p->graph = ((shared_engine *)found)->engine;
  if (found) p->fused = ((shared_engine *)found)->fused;
  (void)pthread_mutex_unlock(&device->lock);
  return found != NULL;
}

/* Hands the plan's engine to the device; false where that has one already or no room. */
static bool share(cuda_device *device, const conv_plan *p) {
  shared_engine *e = calloc(1, sizeof *e);
  if (!e) return false;
  e->key = p->key;
  e->engine = p->graph;
  e->fused = p->fused;
  e->plan.key = &e->key;
  e->plan.key_bytes = sizeof e->key;
  (void)pthread_mutex_lock(&device->lock);
  bool adds = device->engines.count < cuda_plan_limit &&
              !cuda_plans_find(&device->engines, &p->key, sizeof p->key);
  if (adds) cuda_plans_add(&device->engines, &e->plan);
  (void)pthread_mutex_unlock(&device->lock);
  if (!adds) free(e);
  return adds;
}

/* Additions and multiplications, or what could be done of them while memory is read and written. */
static double operations_of(const convolution *c) {
  const double bytes =
      (double)bytes_of(c, c->x) + (double)bytes_of(c, c->w) + (double)bytes_of(c, c->y);
  double n = 2;
  for (int i = 0; i < 5; i++) n *= c->y[i];
  for (int i = 1; i < 5; i++) n *= c->w[i];
  return fmax(n, operations_per_byte * bytes);
}

bool cuda_conv_is_measured(const tn_host *host, const convolution *c) {
  return cuda_tune_applies(host, operations_of(c) / (cuda_conv_is_fusable(c) ? least_fused : 1));
}

/* Has the plan use what the heuristic of graphs puts first: a call of an engine costs the host less
 * than one of an algorithm, which converts layouts by kernels of its own as well. Among those that
 * nobody compares with others are none that add in no order and round each time. */
static void take_first_engine(cuda_queue *queue, conv_plan *p) {
  const uint32_t atomic = cuda_conv_is_half(&p->key) ? CONV_NOTE(NONDETERMINISTIC) : 0;
  field f = {.engines = 0};
  f.engines = cuda_conv_engines(queue, &p->key, false, cuda_conv_forbidden_notes(&p->key) | atomic,
                                f.engine, 1);
  if (!f.engines) return;
  p->graph = f.engine[0];
  if (share(queue->device, p)) return;
  p->graph = (dnn_plan){.plan = NULL};
  drop_engines(&f, -1);
}

void cuda_conv_tune(cuda_queue *queue, conv_plan *p, const conv_candidate *list, int count) {
  const bool fusable = cuda_conv_is_fusable(&p->key);
  if (take_shared(queue->device, p)) return;
  if (!cuda_conv_is_measured(queue->device->host, &p->key)) {
    take_first_engine(queue, p);
    return;
  }
  const cuda_choice_key key = {cuda_choice_environment(queue->device->info.ordinal, "convolution"),
                               &p->key, sizeof p->key};
  field f = {.list = list, .count = count};
  chosen best = {.number = 0};
  /* What is known needs no more than its own kind, which take their time to build. */
  const bool found = cuda_choice_find(&key, &best, sizeof best), engine = found && best.is_engine;
  list_field(queue, &p->key, !found || (engine && !best.fused),
             fusable && (!found || (engine && best.fused)), &f);
  bool is_known = found && settle(queue->dnn, p, &f, &best);
  if (found && !is_known) {
    drop_engines(&f, -1);
    list_field(queue, &p->key, true, fusable, &f);
  }
  if (!is_known && measure(queue, p, &f, &best)) {
    is_known = settle(queue->dnn, p, &f, &best);
    cuda_choice_add(&key, &best, sizeof best, true);
  }
  if (!is_known && !count && f.first_fused > 0) {
    best = (chosen){.number = f.engine[0].engine, .is_engine = true, .notes = f.engine[0].notes};
    is_known = settle(queue->dnn, p, &f, &best);
  }
  if (!is_known) (void)first_place(queue->dnn, p, &f); /* takes it again */
  const bool by_engine = p->graph.plan, kept = by_engine && share(queue->device, p);
  if (by_engine && !kept) {
    p->graph = (dnn_plan){.plan = NULL}, p->fused = false;
    (void)take_shared(queue->device, p);
  }
  drop_engines(&f, kept ? engine_at(&f, &best) : -1);
}
