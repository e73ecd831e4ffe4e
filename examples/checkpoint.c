#include "checkpoint.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char crc_key[] = "crc32";

bool checkpoint_refuse(const char *path, const char *reason) {
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

/* --------------------------------------------------------------------- saving --- */

/* The texts of a file: its format, the numbers and the checksum. */
typedef struct texts {
  int count;
  tn_tensors_metadata pairs[CHECKPOINT_MAX_NUMBERS + 2];
  char digits[CHECKPOINT_MAX_NUMBERS + 1][24];
} texts;

static void add_number(texts *t, const char *key, uint64_t number) {
  char *digits = t->digits[t->count - 1];
  snprintf(digits, sizeof t->digits[0], "%" PRIu64, number);
  t->pairs[t->count++] = (tn_tensors_metadata){key, digits};
}

bool checkpoint_save(const char *path, const checkpoint_form *form, const uint64_t *numbers,
                     size_t count, const checkpoint_tensor *tensors) {
  texts t = {.count = 1, .pairs = {{"format", form->format}}};
  uLong crc = crc32_z(0, NULL, 0);
  const char **names = calloc(count, sizeof *names);
  const tn_tensor **values = calloc(count, sizeof *values);
  bool ok = (names && values) || checkpoint_refuse(path, "not enough memory");
  for (size_t i = 0; i < count && ok; i++) {
    names[i] = tensors[i].name;
    values[i] = tensors[i].tensor;
    ok = add_to_sum(values[i], &crc);
  }
  for (int i = 0; i < form->count; i++) add_number(&t, form->names[i], numbers[i]);
  add_number(&t, crc_key, crc);
  if (ok && tn_tensors_save(path, count, names, values, (size_t)t.count, t.pairs))
    ok = checkpoint_refuse(path, tn_last_error());
  free(names);
  free(values);
  return ok;
}

/* -------------------------------------------------------------------- loading --- */

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

static bool read_numbers(checkpoint *c, const checkpoint_form *form, uint64_t *numbers) {
  if (strcmp(text_of(c->file, "format"), form->format) != 0) {
    warnx("%s: no checkpoint of %s (its format is not %s)", c->path, form->program, form->format);
    return false;
  }
  bool ok = read_number(c->file, crc_key, &c->crc);
  for (int i = 0; i < form->count; i++) ok &= read_number(c->file, form->names[i], &numbers[i]);
  return ok || checkpoint_refuse(c->path, "where the run stands makes no sense");
}

bool checkpoint_open(checkpoint *c, const char *path, const checkpoint_form *form,
                     uint64_t *numbers) {
  *c = (checkpoint){.path = path};
  if (tn_tensors_open(path, &c->file)) {
    warnx("no checkpoint: %s", tn_last_error());
    return false;
  }
  bool ok = read_numbers(c, form, numbers);
  if (!ok) checkpoint_close(c);
  return ok;
}

void checkpoint_close(checkpoint *c) {
  tn_tensors_close(c->file);
  c->file = NULL;
}

/* The file's tensor of t's name; false after telling that it is of another network. */
static bool load_tensor(const checkpoint *c, const checkpoint_tensor *t, tn_tensor **loaded) {
  tn_tensors_entry e = {.struct_size = sizeof e};
  size_t index;
  bool same = tn_tensors_find(c->file, t->name, &index) == TN_OK &&
              tn_tensors_at(c->file, index, &e) == TN_OK && e.dtype == TN_F32 &&
              e.rank == tn_tensor_rank(t->tensor);
  for (int32_t i = 0; same && i < e.rank; i++) same = e.shape[i] == tn_tensor_shape(t->tensor)[i];
  if (!same) {
    warnx("%s: of another network: it has no tensor %s of the shape expected", c->path, t->name);
    return false;
  }
  return tn_tensors_load(c->file, index, tn_tensor_device(t->tensor), loaded) == TN_OK ||
         checkpoint_refuse(c->path, tn_last_error());
}

/* All of them, in the run's order; nothing is written yet. */
static bool load_tensors(const checkpoint *c, size_t count, const checkpoint_tensor *tensors,
                         tn_tensor **loaded) {
  uLong crc = crc32_z(0, NULL, 0);
  if (tn_tensors_count(c->file) != count)
    return checkpoint_refuse(c->path,
                             "of another network: it has more or fewer tensors than expected");
  for (size_t i = 0; i < count; i++)
    if (!load_tensor(c, &tensors[i], &loaded[i]) || !add_to_sum(loaded[i], &crc)) return false;
  return crc == c->crc || checkpoint_refuse(c->path, "damaged: the checksum does not match");
}

bool checkpoint_take(const checkpoint *c, size_t count, const checkpoint_tensor *tensors) {
  tn_tensor **loaded = calloc(count, sizeof *loaded);
  if (!loaded) return checkpoint_refuse(c->path, "not enough memory");
  bool ok = load_tensors(c, count, tensors, loaded);
  for (size_t i = 0; i < count && ok; i++) {
    tn_tensor *target = tensors[i].tensor;
    ok = tn_copy(NULL, loaded[i], &target) == TN_OK || checkpoint_refuse(c->path, tn_last_error());
  }
  for (size_t i = 0; i < count; i++) tn_tensor_release(loaded[i]);
  free(loaded);
  return ok;
}
