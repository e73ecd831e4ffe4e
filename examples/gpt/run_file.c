#include "run_file.h"

enum { STEPS, SEED, LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, LENGTH, NUMBERS };
static const checkpoint_form form = {
    "gpt",
    "tenon gpt 1",
    NUMBERS,
    {"steps", "seed", "layers", "width", "heads", "context", "vocabulary", "length"}};

static void describe_size(const model_size *size, uint64_t n[NUMBERS]) {
  n[LAYERS] = (uint64_t)size->layers;
  n[WIDTH] = (uint64_t)size->width;
  n[HEADS] = (uint64_t)size->heads;
  n[CONTEXT] = (uint64_t)size->context;
  n[VOCABULARY] = (uint64_t)size->vocabulary;
}

bool run_file_save(const char *path, const trainer *t, uint64_t seed) {
  checkpoint_tensor state[TRAINER_MAX_TENSORS];
  uint64_t n[NUMBERS] = {(uint64_t)t->steps, seed};
  describe_size(t->size, n);
  n[LENGTH] = (uint64_t)t->recipe.length;
  trainer_state(t, state);
  return checkpoint_save(path, &form, n, 3 * (size_t)t->count, state);
}

static const model_size *find_size(const uint64_t n[NUMBERS]) {
  const model_size *size;
  for (size_t i = 0; (size = model_size_at(i)); i++) {
    uint64_t own[NUMBERS];
    bool same = true;
    describe_size(size, own);
    for (int j = LAYERS; j <= VOCABULARY; j++) same &= own[j] == n[j];
    if (same) break;
  }
  return size;
}

bool run_file_open(run_file *f, const char *path) {
  uint64_t n[NUMBERS];
  if (!checkpoint_open(&f->file, path, &form, n)) return false;
  f->size = find_size(n);
  f->seed = n[SEED];
  f->steps = (int64_t)n[STEPS];
  f->length = (int64_t)n[LENGTH];
  bool sensible = n[STEPS] < INT32_MAX && n[LENGTH] > 0 && n[LENGTH] <= n[CONTEXT];
  if (f->size && sensible) return true;
  run_file_close(f);
  return checkpoint_refuse(path, f->size ? "where the run stands makes no sense"
                                         : "of a model of another size");
}

bool run_file_take(const run_file *f, trainer *t) {
  checkpoint_tensor state[TRAINER_MAX_TENSORS];
  trainer_state(t, state);
  if (!checkpoint_take(&f->file, 3 * (size_t)t->count, state)) return false;
  return trainer_set_steps(t, f->steps) == TN_OK ||
         checkpoint_refuse(f->file.path, tn_last_error());
}

void run_file_close(run_file *f) { checkpoint_close(&f->file); }
