/*
 * The fastest way of a convolution by measuring: the algorithms that cuDNN's older heuristic names,
 * and for two axes the engines that its graphs have, which are more and of which many run on newer
 * units. Engines that compute less exactly than the call asks for are left out by their notes.
 *
 * Where there is a bias or an activation, each stands beside those that have it in them: what is
 * measured is the whole call. Some of these take NaN for 0, so that one is only kept after it was
 * seen not to. Sums that stay in float32 until an activation are engines' alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

#define NOTE(name) (UINT32_C(1) << CUDNN_NUMERICAL_NOTE_##name)

static bool is_half(const convolution *c) { return c->dtype == TN_F16 || c->dtype == TN_BF16; }

/* Notes that a call cannot do with. */
static uint32_t forbidden_notes(const convolution *c) {
  uint32_t notes = NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(FFT) | NOTE(WINOGRAD_TILE_6x6) |
                   NOTE(WINOGRAD_TILE_13x13);
  if (c->deterministic || (is_half(c) && c->role == CUDA_CONV_FORWARD))
    notes |= NOTE(NONDETERMINISTIC);
  if (c->dtype == TN_F32 && c->math == TN_MATH_IEEE)
    notes |= NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS);
  return notes;
}

/* An engine that is less exact than its notes say, -1 for none: 17 of gradients by weight is
 * Winograd's algorithm too, in cuDNN 9.14. */
static int64_t forbidden_engine(const convolution *c) {
  return cuda_conv_has_large_tiles(c) ? 17 : -1;
}

/* Groups of so few channels of 16 bits that engines of cuDNN 9.14 read beside their bounds, where
 * they are more than one channel each. */
static bool has_odd_groups(const convolution *c) {
  const int32_t in = c->x[1] / c->groups, out = c->y[1] / c->groups;
  return is_half(c) && c->groups > 1 && in > 1 && (in % 8 != 0 || out % 8 != 0);
}

/* Sizes and strides of a tensor over two spatial axes, packed; without an id, one between
 * operations. */
static dnn_tensor typed_tensor(dnn_graph *g, int64_t id, cudnnDataType_t type, const convolution *c,
                               const int32_t size[5]) {
  const int64_t n[4] = {size[0], size[1], size[3], size[4]};
  const int64_t rows[4] = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
  const int64_t last[4] = {n[1] * n[2] * n[3], 1, n[3] * n[1], n[1]};
  const int64_t *stride = c->channels_last ? last : rows;
  return id ? dnn_graph_memory(g, id, type, n, stride) : dnn_graph_between(g, type, n, stride);
}

/* In the call's type; without an id, in the type computed in. */
static dnn_tensor tensor_of(dnn_graph *g, int64_t id, const convolution *c, const int32_t size[5]) {
  return typed_tensor(g, id, id ? cuda_conv_data_type(c->dtype) : CUDNN_DATA_FLOAT, c, size);
}

/* cuDNN's operation for an activation; relu stands for relu6 too. */
static bool mode_of(int32_t activation, cudnnPointwiseMode_t *mode) {
  switch (activation) {
  case TN_ACTIVATION_RELU:
  case TN_ACTIVATION_RELU6:
    *mode = CUDNN_POINTWISE_RELU_FWD;
    return true;
  case TN_ACTIVATION_SILU:
    *mode = CUDNN_POINTWISE_SWISH_FWD;
    return true;
  case TN_ACTIVATION_SIGMOID:
    *mode = CUDNN_POINTWISE_SIGMOID_FWD;
    return true;
  case TN_ACTIVATION_GELU:
    *mode = CUDNN_POINTWISE_GELU_FWD;
    return true;
  case TN_ACTIVATION_GELU_TANH:
    *mode = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    return true;
  default:
    return false;
  }
}

/* In float32, those of cuDNN's operations that are ours to the bit; in 16 bits, where all is
 * rounded at the end, what it has. */
static bool is_fusable(const convolution *c) {
  cudnnPointwiseMode_t mode;
  if (!cuda_conv_has_epilogue(c)) return false;
  if (c->activation == TN_ACTIVATION_NONE) return true;
  return mode_of(c->activation, &mode) && (is_half(c) || mode == CUDNN_POINTWISE_RELU_FWD);
}

/* Bias, addend and activation of what the convolution gave. */
static void add_epilogue(dnn_graph *g, const convolution *c, dnn_tensor x, dnn_tensor y) {
  const int32_t size[5] = {1, c->y[1], 1, 1, 1};
  cudnnPointwiseMode_t mode;
  const bool activates = mode_of(c->activation, &mode);
  if (c->bias) {
    dnn_tensor sum = activates || c->addend ? tensor_of(g, 0, c, c->y) : y;
    dnn_graph_pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, x,
                        tensor_of(g, CONV_ID_BIAS, c, size), NULL, sum);
    x = sum;
  }
  if (c->addend) {
    dnn_tensor sum = activates ? tensor_of(g, 0, c, c->y) : y;
    dnn_graph_pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, x,
                        tensor_of(g, CONV_ID_ADDEND, c, c->y), NULL, sum);
    x = sum;
  }
  if (activates && mode == CUDNN_POINTWISE_RELU_FWD)
    dnn_graph_relu(g, CUDNN_DATA_FLOAT, c->activation == TN_ACTIVATION_RELU6 ? 6 : INFINITY, x, y);
  else if (activates)
    dnn_graph_pointwise(g, mode, CUDNN_DATA_FLOAT, x, NULL, NULL, y);
}

/* Appends at most `most` without any of the notes. */
static void list_engines(cuda_queue *queue, const convolution *c, bool fused, uint32_t notes,
                         int most, field *f) {
  static const dnn_conv_result results[] = {[CUDA_CONV_FORWARD] = DNN_CONV_Y,
                                            [CUDA_CONV_BACKWARD] = DNN_CONV_X,
                                            [CUDA_CONV_WEIGHT] = DNN_CONV_W};
  dnn_conv conv = {.result = results[c->role], .compute = CUDNN_DATA_FLOAT};
  const dnn_limits limits = {notes, conv_workspace_limit, forbidden_engine(c)};
  dnn_graph g;
  if (c->deep || c->dtype == TN_F64 || has_odd_groups(c)) return;
  for (int i = 0; i < 2; i++) {
    conv.stride[i] = c->stride[1 + i];
    conv.padding[i] = c->padding[1 + i];
    conv.dilation[i] = c->dilation[1 + i];
  }
  memset(&g, 0, sizeof g);
  dnn_tensor x = tensor_of(&g, CONV_ID_X, c, c->x), w = tensor_of(&g, CONV_ID_W, c, c->w);
  const bool wide = cuda_conv_sums_are_wide(c) && !fused;
  const cudnnDataType_t type = wide ? CUDNN_DATA_FLOAT : cuda_conv_data_type(c->dtype);
  dnn_tensor y = typed_tensor(&g, CONV_ID_Y, type, c, c->y);
  dnn_tensor sums = fused ? tensor_of(&g, 0, c, c->y) : y;
  dnn_graph_conv(&g, &conv, x, w, sums);
  if (fused) add_epilogue(&g, c, sums, y);
  f->engines += dnn_graph_plans(&g, queue->dnn, &limits, &f->engine[f->engines], most);
  dnn_graph_free(&g);
}

/* All engines, or of either kind alone. */
static void list_field(cuda_queue *queue, const convolution *c, bool plain, bool fused, field *f) {
  f->engines = 0;
  if (plain) list_engines(queue, c, false, forbidden_notes(c), most_engines, f);
  f->first_fused = f->engines;
  if (fused) list_engines(queue, c, true, forbidden_notes(c), most_fused, f);
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
    const bool atomic = is_half(&t->plan->key) && f->engine[i].notes & NOTE(NONDETERMINISTIC);
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
  return cuda_tune_applies(host, operations_of(c) / (is_fusable(c) ? least_fused : 1));
}

/* Has the plan use what the heuristic of graphs puts first: a call of an engine costs the host less
 * than one of an algorithm, which converts layouts by kernels of its own as well. Among those that
 * nobody compares with others are none that add in no order and round each time. */
static void take_first_engine(cuda_queue *queue, conv_plan *p) {
  const uint32_t atomic = is_half(&p->key) ? NOTE(NONDETERMINISTIC) : 0;
  field f = {.engines = 0};
  list_engines(queue, &p->key, false, forbidden_notes(&p->key) | atomic, 1, &f);
  if (!f.engines) return;
  p->graph = f.engine[0];
  if (share(queue->device, p)) return;
  p->graph = (dnn_plan){.plan = NULL};
  drop_engines(&f, -1);
}

void cuda_conv_tune(cuda_queue *queue, conv_plan *p, const conv_candidate *list, int count) {
  const bool fusable = is_fusable(&p->key);
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
    cuda_choice_add(&key, &best, sizeof best);
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
