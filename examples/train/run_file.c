#include "run_file.h"

#include "../checkpoint.h"

enum { STEPS, EPOCH, POSITION, IMAGES, SEED, RANDOM_OFFSET, NUMBERS };
static const checkpoint_form form = {
    "train",
    "tenon train 2",
    NUMBERS,
    {"steps", "epoch", "position", "images", "seed", "random_offset"}};

bool run_file_save(const char *path, const model *m, const run_position *at) {
  checkpoint_tensor state[MODEL_STATE_TENSORS];
  uint64_t random_offset = 0;
  (void)tn_generator_get_state(m->generator, NULL, &random_offset);
  model_state(m, state);
  const uint64_t n[NUMBERS] = {(uint64_t)m->steps,
                               (uint64_t)at->epoch,
                               (uint64_t)at->position,
                               (uint64_t)at->images,
                               m->seed,
                               random_offset};
  return checkpoint_save(path, &form, n, MODEL_STATE_TENSORS, state);
}

static bool sensible(const char *path, const uint64_t n[NUMBERS]) {
  if (n[STEPS] < INT64_MAX && n[EPOCH] < INT64_MAX && n[POSITION] <= n[IMAGES] &&
      n[IMAGES] < INT64_MAX)
    return true;
  return checkpoint_refuse(path, "where the run stands makes no sense");
}

bool run_file_load(const char *path, model *m, run_position *at) {
  uint64_t n[NUMBERS];
  checkpoint file;
  checkpoint_tensor state[MODEL_STATE_TENSORS];
  if (!checkpoint_open(&file, path, &form, n)) return false;
  model_state(m, state);
  bool ok = sensible(path, n) && checkpoint_take(&file, MODEL_STATE_TENSORS, state);
  checkpoint_close(&file);
  if (!ok) return false;
  if (model_go_on(m, (int64_t)n[STEPS], n[SEED], n[RANDOM_OFFSET]))
    return checkpoint_refuse(path, tn_last_error());
  *at = (run_position){(int64_t)n[EPOCH], (int64_t)n[POSITION], (int64_t)n[IMAGES]};
  return true;
}
