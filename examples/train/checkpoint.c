#include "checkpoint.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FORMAT "tenon train 2"

static bool refuse(const char *path, const char *reason) {
  warnx("%s: %s", path, reason);
  return false;
}

/* Goes on with the checksum over a tensor's elements. */
static bool add_to_sum(const tn_tensor *t, uLong *crc) {
  size_t bytes = tn_tensor_bytes(t);
  void *values = malloc(bytes);
  bool ok = values && tn_tensor_to_host(t, values, bytes) == TN_OK;
  if (ok) *crc = crc32_z(*crc, values, bytes);
  if (!ok) warnx("checkpoint: %s", values ? tn_last_error() : "not enough memory");
  free(values);
  return ok;
}

/* ------------------------------------------------------------- a run's numbers --- */

/* The texts of a file. */
enum { STEPS, EPOCH, POSITION, IMAGES, SEED, RANDOM_OFFSET, CRC, NUMBERS };
static const char *const number_names[NUMBERS] = {"steps", "epoch",         "position", "images",
                                                  "seed",  "random_offset", "crc32"};

/* The text of a key, "" if the file has none. */
static const char *text_of(const tn_tensors *file, const char *key) {
  tn_tensors_metadata pair;
  for (size_t i = 0; tn_tensors_metadata_at(file, i, &pair) == TN_OK; i++)
    if (strcmp(pair.key, key) == 0) return pair.value;
  return "";
}

static bool read_number(const tn_tensors *file, const char *key, uint64_t *n) {
  const char *text = text_of(file, key);
  char *end;
  errno = 0;
  *n = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

static bool read_numbers(const char *path, const tn_tensors *file, uint64_t numbers[NUMBERS]) {
  if (strcmp(text_of(file, "format"), FORMAT) != 0)
    return refuse(path, "no checkpoint of train (its format is not " FORMAT ")");
  bool ok = true;
  for (int i = 0; i < NUMBERS; i++) ok &= read_number(file, number_names[i], &numbers[i]);
  if (ok && numbers[STEPS] < INT64_MAX && numbers[EPOCH] < INT64_MAX &&
      numbers[POSITION] <= numbers[IMAGES] && numbers[IMAGES] < INT64_MAX)
    return true;
  return refuse(path, "where the run stands makes no sense");
}

/* --------------------------------------------------------------------- saving --- */

bool checkpoint_save(const char *path, const model *m, const run_position *at) {
  model_tensor state[MODEL_STATE_TENSORS];
  const char *names[MODEL_STATE_TENSORS];
  const tn_tensor *tensors[MODEL_STATE_TENSORS];
  tn_tensors_metadata pairs[NUMBERS + 1] = {{"format", FORMAT}};
  char texts[NUMBERS][24];
  uint64_t random_offset = 0;
  uLong crc = crc32_z(0, NULL, 0);
  (void)tn_generator_get_state(m->generator, NULL, &random_offset);
  model_state(m, state);
  for (int i = 0; i < MODEL_STATE_TENSORS; i++) {
    names[i] = state[i].name;
    tensors[i] = state[i].tensor;
    if (!add_to_sum(tensors[i], &crc)) return false;
  }
  const uint64_t numbers[NUMBERS] = {(uint64_t)m->steps,
                                     (uint64_t)at->epoch,
                                     (uint64_t)at->position,
                                     (uint64_t)at->images,
                                     m->seed,
                                     random_offset,
                                     crc};
  for (int i = 0; i < NUMBERS; i++) {
    snprintf(texts[i], sizeof texts[i], "%" PRIu64, numbers[i]);
    pairs[i + 1] = (tn_tensors_metadata){number_names[i], texts[i]};
  }
  return tn_tensors_save(path, MODEL_STATE_TENSORS, names, tensors, NUMBERS + 1, pairs) == TN_OK ||
         refuse(path, tn_last_error());
}

/* -------------------------------------------------------------------- loading --- */

/* The file's tensor of t's name; false after telling that it is of another network. */
static bool load_tensor(const char *path, const tn_tensors *file, const model_tensor *t,
                        tn_tensor **loaded) {
  tn_tensors_entry e = {.struct_size = sizeof e};
  size_t index;
  bool same = tn_tensors_find(file, t->name, &index) == TN_OK &&
              tn_tensors_at(file, index, &e) == TN_OK && e.dtype == TN_F32 &&
              e.rank == tn_tensor_rank(t->tensor);
  for (int32_t i = 0; same && i < e.rank; i++) same = e.shape[i] == tn_tensor_shape(t->tensor)[i];
  if (!same) {
    warnx("%s: of another network: it has no tensor %s of the shape expected", path, t->name);
    return false;
  }
  return tn_tensors_load(file, index, tn_tensor_device(t->tensor), loaded) == TN_OK ||
         refuse(path, tn_last_error());
}

/* All of them, in the state's order; nothing is written to the model. */
static bool load_tensors(const char *path, const tn_tensors *file, const model_tensor *state,
                         uint64_t wanted, tn_tensor **loaded) {
  uLong crc = crc32_z(0, NULL, 0);
  if (tn_tensors_count(file) != MODEL_STATE_TENSORS)
    return refuse(path, "of another network: it has more or fewer tensors than expected");
  for (int i = 0; i < MODEL_STATE_TENSORS; i++)
    if (!load_tensor(path, file, &state[i], &loaded[i]) || !add_to_sum(loaded[i], &crc))
      return false;
  return crc == wanted || refuse(path, "damaged: the checksum does not match");
}

static bool load_from(const char *path, const tn_tensors *file, model *m, run_position *at) {
  uint64_t n[NUMBERS];
  model_tensor state[MODEL_STATE_TENSORS];
  tn_tensor *loaded[MODEL_STATE_TENSORS] = {NULL};
  model_state(m, state);
  bool ok = read_numbers(path, file, n) && load_tensors(path, file, state, n[CRC], loaded);
  for (int i = 0; i < MODEL_STATE_TENSORS && ok; i++)
    ok = tn_copy(NULL, loaded[i], &state[i].tensor) == TN_OK || refuse(path, tn_last_error());
  for (int i = 0; i < MODEL_STATE_TENSORS; i++) tn_tensor_release(loaded[i]);
  if (!ok) return false;
  if (tn_generator_set_state(m->generator, n[SEED], n[RANDOM_OFFSET]))
    return refuse(path, tn_last_error());
  m->steps = (int64_t)n[STEPS];
  *at = (run_position){(int64_t)n[EPOCH], (int64_t)n[POSITION], (int64_t)n[IMAGES]};
  m->seed = n[SEED];
  return true;
}

bool checkpoint_load(const char *path, model *m, run_position *at) {
  tn_tensors *file;
  if (tn_tensors_open(path, &file)) {
    warnx("no checkpoint: %s", tn_last_error());
    return false;
  }
  bool ok = load_from(path, file, m, at);
  tn_tensors_close(file);
  return ok;
}
