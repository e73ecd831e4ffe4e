/*
 * The measuring of tune.h: each candidate once to warm up, then in a few batches between two
 * events. The heuristic's first comes first, and others must be cheaper by a twenty-fifth. Where
 * they can be run again at little cost, the best take turns in the end: clocks rise while a device
 * that was idle is measured, and others may use it or the host for a while.
 */
#include "backends/cuda/tune.h"

#include <time.h>

#include "kernels/cuda/base/choices.h"

enum { most_runs = 16, batches = 3, rest_bytes = 64 << 20 };
static const double least_operations = (double)(1 << 28);
static const float enough_ms = 0.7f, budget_ms = 400, margin = 0.96f, lone_ms = 0.05f;
/* Time in which the host puts a batch into the stream; how much the device's counts beside the
 * whole. */
static const float ahead_ms = 0.25f, device_share = 0.25f;
enum { turns = 5 };
/* Of the fastest's time, what those take that are timed again; by how much the first may be slower
 * then; and a median, of the least time, that tells of a device that nobody else uses. */
static const float near_best = 1.15f, turn_margin = 0.98f, steady_spread = 1.1f;
static const float turns_ms = 150; /* all turns at the most: what takes longer was timed well */

bool cuda_tune_applies(const tn_host *host, double operations) {
  if (host->deterministic || cuda_choice_is_off()) return false;
  return operations >= least_operations || cuda_choice_takes_all();
}

static bool is_recorded(const cuda_queue *queue) {
  enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  if (queue->capturing) return true;
  if (cudaStreamIsCapturing(queue->stream, &captured) == cudaSuccess)
    return captured != cudaStreamCaptureStatusNone;
  (void)cudaGetLastError();
  return true;
}

/* Measuring takes at most a quarter of what is free. */
static bool take_memory(cuda_tuner *t, size_t bytes) {
  size_t free_now = 0, total = 0;
  if (cudaMemGetInfo(&free_now, &total) == cudaSuccess && bytes <= free_now / 4 &&
      free_now > rest_bytes && cudaMalloc((void **)&t->memory, bytes) == cudaSuccess)
    return true;
  (void)cudaGetLastError();
  t->memory = NULL;
  return false;
}

bool cuda_tuner_open(cuda_tuner *t, cuda_queue *queue, size_t bytes, tn_dtype dtype) {
  if (is_recorded(queue)) return false;
  *t = (cuda_tuner){.queue = queue, .mode = cudaStreamCaptureModeRelaxed, .best_ms = -1};
  /* Another thread may be recording: that is no reason for the runtime to refuse memory here. */
  (void)cudaThreadExchangeStreamCaptureMode(&t->mode);
  if (take_memory(t, bytes) && cudaEventCreate(&t->begin) == cudaSuccess &&
      cudaEventCreate(&t->end) == cudaSuccess &&
      cuda_fill_noise(queue->stream, t->memory, bytes, dtype) == (int)cudaSuccess)
    return true;
  cuda_tuner_close(t);
  return false;
}

void cuda_tuner_close(cuda_tuner *t) {
  (void)cudaStreamSynchronize(t->queue->stream);
  if (t->begin) (void)cudaEventDestroy(t->begin);
  if (t->end) (void)cudaEventDestroy(t->end);
  if (t->memory) (void)cudaFree(t->memory);
  (void)cudaThreadExchangeStreamCaptureMode(&t->mode);
  (void)cudaGetLastError();
}

/* Of one run, in milliseconds. */
typedef struct timing {
  float device, host;
} timing;

static double host_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* The stream is busy for `ahead` ms before the first of `runs` runs, so that it is the device that
 * is timed where the host takes longer. False where one fails. */
static bool time_runs(cuda_tuner *t, cuda_candidate_fn run, void *user, int runs, float ahead,
                      timing *out) {
  cudaStream_t stream = t->queue->stream;
  float ms = -1;
  bool ran = ahead <= 0 || cuda_pass_time(stream, (uint64_t)(ahead * 1e6f)) == cudaSuccess;
  ran = ran && cudaEventRecord(t->begin, stream) == cudaSuccess;
  const double begin = host_ms();
  for (int i = 0; i < runs && ran; i++) ran = run(user);
  out->host = (float)(host_ms() - begin) / (float)runs;
  ran = ran && cudaEventRecord(t->end, stream) == cudaSuccess &&
        cudaEventSynchronize(t->end) == cudaSuccess &&
        cudaEventElapsedTime(&ms, t->begin, t->end) == cudaSuccess;
  if (!ran) {
    (void)cudaStreamSynchronize(stream);
    (void)cudaGetLastError();
    return false;
  }
  t->spent_ms += ms + ahead;
  out->device = ms / (float)runs;
  return true;
}

/* What a loop of calls takes, and of those that the host bounds the least that the device does. */
static float cost_of(timing t) {
  return (t.device > t.host ? t.device : t.host) + device_share * t.device;
}

/* By the least of a few batches, which what else the host does makes longer; below 0 where it fails
 * or is out of the question. */
static float time_candidate(cuda_tuner *t, cuda_candidate_fn run, void *user) {
  /* The first run may load code: it only says whether the candidate runs at all. */
  timing least, batch;
  if (!time_runs(t, run, user, 1, 0, &least) || !time_runs(t, run, user, 1, 0, &least)) return -1;
  /* A run by itself has what launches take beside it. */
  if (t->best_ms >= 0 && least.device > 2 * t->best_ms + lone_ms) return -1;
  int runs = least.device > 0 ? (int)(enough_ms / least.device) : most_runs;
  if (runs > most_runs) runs = most_runs;
  for (int i = 0; i < batches && runs > 0; i++) {
    if (!time_runs(t, run, user, runs, ahead_ms, &batch)) return -1;
    if (batch.device < least.device) least.device = batch.device;
    if (batch.host < least.host) least.host = batch.host;
  }
  return cost_of(least);
}

bool cuda_tuner_is_best(cuda_tuner *t, cuda_candidate_fn run, void *user) {
  t->last_ms = -1;
  if (t->best_ms >= 0 && t->spent_ms > budget_ms) return false;
  t->last_ms = time_candidate(t, run, user);
  if (t->last_ms < 0 || (t->best_ms >= 0 && t->last_ms > margin * t->best_ms)) return false;
  t->best_ms = t->last_ms;
  return true;
}

typedef struct finalist {
  cuda_nth_candidate_fn run;
  void *user;
  int which;
  float device[turns], host;
} finalist;

static bool run_finalist(void *user) {
  const finalist *f = user;
  return f->run(f->user, f->which);
}

static int finalists_of(const float *ms, int count, finalist *to) {
  float best = -1;
  int chosen = 0;
  for (int i = 0; i < count; i++)
    if (ms[i] >= 0 && (best < 0 || ms[i] < best)) best = ms[i];
  for (int i = 0; i < count; i++)
    if (ms[i] >= 0 && (chosen == 0 || ms[i] <= near_best * best)) to[chosen++].which = i;
  return chosen;
}

/* Sorts the times, so that the median is in the middle. */
static float median_of(float *ms) {
  for (int i = 1; i < turns; i++)
    for (int j = i; j > 0 && ms[j] < ms[j - 1]; j--) {
      const float other = ms[j];
      ms[j] = ms[j - 1], ms[j - 1] = other;
    }
  return ms[turns / 2];
}

/* The place of one that fails, else -1. */
static int take_turns(cuda_tuner *t, finalist *list, int count, float longest) {
  int runs = longest > 0 ? (int)(enough_ms / longest) : most_runs;
  runs = runs < 1 ? 1 : runs > most_runs ? most_runs : runs;
  for (int turn = 0; turn < turns; turn++)
    for (int i = 0; i < count; i++) {
      timing batch;
      if (!time_runs(t, run_finalist, &list[i], runs, ahead_ms, &batch)) return i;
      list[i].device[turn] = batch.device;
      if (turn == 0 || batch.host < list[i].host) list[i].host = batch.host;
    }
  return -1;
}

/* By their times before the turns, but for the one at `failed`. The first wins as it does there. */
static int fastest_of(const finalist *list, int count, const float *ms, int failed) {
  int first = failed == 0, best = first;
  for (int i = first; i < count; i++)
    if (i != failed && ms[list[i].which] < ms[list[best].which]) best = i;
  return list[ms[list[best].which] < margin * ms[list[first].which] ? best : first].which;
}

int cuda_tuner_decide(cuda_tuner *t, cuda_nth_candidate_fn run, void *user, const float *ms,
                      int count, bool *steady) {
  finalist list[CUDA_TUNER_MOST];
  float longest = 0, costs[CUDA_TUNER_MOST];
  for (int i = 0; i < CUDA_TUNER_MOST; i++) list[i] = (finalist){.run = run, .user = user};
  const int finalists = finalists_of(ms, count < CUDA_TUNER_MOST ? count : CUDA_TUNER_MOST, list);
  *steady = true;
  if (finalists < 2) return finalists ? list[0].which : -1;
  for (int i = 0; i < finalists; i++)
    if (ms[list[i].which] > longest) longest = ms[list[i].which];
  if ((float)(turns * finalists) * longest > turns_ms) return fastest_of(list, finalists, ms, -1);
  const int failed = take_turns(t, list, finalists, longest);
  if (failed >= 0) {
    *steady = false;
    return fastest_of(list, finalists, ms, failed);
  }
  int best = 0;
  for (int i = 0; i < finalists; i++) {
    const float middle = median_of(list[i].device);
    costs[i] = cost_of((timing){middle, list[i].host});
    if (middle > steady_spread * list[i].device[0]) *steady = false;
    if (costs[i] < costs[best]) best = i;
  }
  return list[costs[best] < turn_margin * costs[0] ? best : 0].which;
}
