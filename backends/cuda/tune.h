/*
 * Measuring candidates for a plan on scratch memory, once per shape (choices.h keeps the results).
 */
#ifndef BACKENDS_CUDA_TUNE_H
#define BACKENDS_CUDA_TUNE_H

#include "backends/cuda/backend.h"

typedef struct cuda_tuner {
  cuda_queue *queue;
  unsigned char *memory;
  cudaEvent_t begin, end;
  enum cudaStreamCaptureMode mode; /* the thread's, from before */
  float best_ms, spent_ms;         /* best_ms < 0: none ran yet */
  float last_ms;                   /* of the last candidate; < 0: it failed or was not tried */
} cuda_tuner;

/* Puts the candidate's work into the queue's stream; false where it fails. */
typedef bool (*cuda_candidate_fn)(void *user);

/* Whether choices may be measured, or taken from those that were, for so many additions and
 * multiplications: not where results must be the same for ever, or little is to be gained. */
bool cuda_tune_applies(const tn_host *host, double operations);

/* Takes `bytes` of scratch, filled with numbers of a dtype in [1, 2) and their negatives. False,
 * with nothing to close, while the stream is recorded and where memory is short. */
bool cuda_tuner_open(cuda_tuner *t, cuda_queue *queue, size_t bytes, tn_dtype dtype);
void cuda_tuner_close(cuda_tuner *t);

/* Whether the candidate is the fastest so far, by more than the clock is off. */
bool cuda_tuner_is_best(cuda_tuner *t, cuda_candidate_fn run, void *user);

/* Puts the work of one of several candidates into the queue's stream; false where it fails. */
typedef bool (*cuda_nth_candidate_fn)(void *user, int which);

/* The fastest of at most CUDA_TUNER_MOST candidates, which took ms[0 ... count - 1] by themselves,
 * below 0 where they failed: those that took not much longer than the fastest are timed anew, by
 * turns, so that whatever else the device and the host do is shared by all. The first of them wins
 * unless another is faster by more than the clock is off. -1 where none runs. `steady`: the times
 * of each agreed so well that the outcome is worth keeping. */
enum { CUDA_TUNER_MOST = 8 };
int cuda_tuner_decide(cuda_tuner *t, cuda_nth_candidate_fn run, void *user, const float *ms,
                      int count, bool *steady);

#endif /* BACKENDS_CUDA_TUNE_H */
