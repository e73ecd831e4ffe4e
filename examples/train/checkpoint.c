#include "checkpoint.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../output.h"

static const char magic[8] = {'t', 'n', 'T', 'R', 'A', 'I', 'N', '\n'};
enum { VERSION = 1, STATE_WORDS = 6 };

/* The network's state takes 14 MB; a file far larger is something else. */
enum { LARGEST_FILE = 1 << 26 };

static bool refuse(const char *path, const char *reason) {
  warnx("%s: %s", path, reason);
  return false;
}

/* ------------------------------------------------------------------ writing --- */

typedef struct writer {
  FILE *file;
  uLong crc;
} writer;

static void put(writer *w, const void *data, size_t bytes) {
  w->crc = crc32_z(w->crc, data, bytes);
  fwrite(data, 1, bytes, w->file);
}

static void put_number(writer *w, uint64_t n, int bytes) {
  uint8_t little[8];
  for (int i = 0; i < bytes; i++) little[i] = (uint8_t)(n >> 8 * i);
  put(w, little, (size_t)bytes);
}

static void put_floats(writer *w, const float *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    put_number(w, bits, 4);
  }
}

static bool put_tensor(writer *w, const model_tensor *t) {
  int32_t rank = tn_tensor_rank(t->tensor);
  size_t bytes = tn_tensor_bytes(t->tensor);
  float *values = malloc(bytes);
  if (!values || tn_tensor_to_host(t->tensor, values, bytes)) {
    warnx("cannot save %s: %s", t->name, values ? tn_last_error() : "not enough memory");
    free(values);
    return false;
  }
  put_number(w, strlen(t->name), 4);
  put(w, t->name, strlen(t->name));
  put_number(w, (uint64_t)rank, 4);
  for (int i = 0; i < rank; i++) put_number(w, (uint64_t)tn_tensor_shape(t->tensor)[i], 8);
  put_floats(w, values, tn_tensor_elements(t->tensor));
  free(values);
  return true;
}

static void put_header(writer *w, const model *m, const run_position *at) {
  uint64_t random_offset = 0;
  (void)tn_generator_get_state(m->generator, NULL, &random_offset);
  const uint64_t state[STATE_WORDS] = {(uint64_t)m->steps,
                                       (uint64_t)at->epoch,
                                       (uint64_t)at->position,
                                       (uint64_t)at->images,
                                       m->seed,
                                       random_offset};
  put(w, magic, sizeof magic);
  put_number(w, VERSION, 4);
  put_number(w, MODEL_STATE_TENSORS, 4);
  for (int i = 0; i < STATE_WORDS; i++) put_number(w, state[i], 8);
}

bool checkpoint_save(const char *path, const model *m, const run_position *at) {
  output o;
  model_tensor tensors[MODEL_STATE_TENSORS];
  bool ok = true;
  if (!output_open(&o, path)) return false;
  writer w = {.file = o.file, .crc = crc32_z(0, NULL, 0)};
  put_header(&w, m, at);
  model_state(m, tensors);
  for (int i = 0; i < MODEL_STATE_TENSORS && ok; i++) ok = put_tensor(&w, &tensors[i]);
  put_number(&w, w.crc, 4);
  if (ok) return output_commit(&o);
  output_discard(&o);
  return false;
}

/* ------------------------------------------------------------------ reading --- */

/* The rest of a file in memory. */
typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

static bool take(bytes *b, size_t count, const uint8_t **data) {
  if (count > b->left) return false;
  *data = b->at;
  b->at += count;
  b->left -= count;
  return true;
}

static uint64_t number_at(const uint8_t *p, int size) {
  uint64_t n = 0;
  for (int i = 0; i < size; i++) n |= (uint64_t)p[i] << 8 * i;
  return n;
}

static bool take_number(bytes *b, int size, uint64_t *n) {
  const uint8_t *p;
  if (!take(b, (size_t)size, &p)) return false;
  *n = number_at(p, size);
  return true;
}

/* The whole file, to be freed; NULL after telling why not. */
static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = malloc(LARGEST_FILE + 1);
  const char *reason = NULL;
  if (!file || !data) {
    reason = file ? "not enough memory" : strerror(errno);
  } else {
    *size = fread(data, 1, LARGEST_FILE + 1, file);
    if (ferror(file))
      reason = strerror(errno);
    else if (*size > LARGEST_FILE)
      reason = "too large for a checkpoint of this network";
  }
  if (file) fclose(file);
  if (!reason) return data;
  refuse(path, reason);
  free(data);
  return NULL;
}

/* Checks magic, version and checksum; leaves in b what stands between. */
static bool open_envelope(const char *path, bytes *b) {
  const uint8_t *head;
  if (!take(b, sizeof magic, &head) || memcmp(head, magic, sizeof magic) != 0)
    return refuse(path, "no checkpoint of train (it does not begin with tnTRAIN)");
  uint64_t version;
  if (!take_number(b, 4, &version)) return refuse(path, "truncated");
  if (version != VERSION) {
    warnx("%s: format version %llu; this program reads version %d", path,
          (unsigned long long)version, VERSION);
    return false;
  }
  if (b->left < 4) return refuse(path, "truncated");
  b->left -= 4;
  uLong crc = crc32_z(crc32_z(0, NULL, 0), head, (size_t)(b->at + b->left - head));
  if (crc != number_at(b->at + b->left, 4))
    return refuse(path, "damaged or truncated: the checksum does not match");
  return true;
}

/* Reads the header; *at and the model's counters are set only by the caller. */
static bool take_header(const char *path, bytes *b, uint64_t state[STATE_WORDS]) {
  uint64_t tensors;
  bool ok = take_number(b, 4, &tensors);
  for (int i = 0; i < STATE_WORDS && ok; i++) ok = take_number(b, 8, &state[i]);
  if (!ok) return refuse(path, "truncated header");
  if (tensors == MODEL_STATE_TENSORS && state[0] < INT64_MAX && state[1] < INT64_MAX &&
      state[2] <= state[3] && state[3] < INT64_MAX)
    return true;
  return refuse(path, "the header makes no sense");
}

/* Whether the next name and shape are those of t; *data points to the elements. */
static bool take_tensor(bytes *b, const model_tensor *t, const uint8_t **data) {
  uint64_t length, rank, size;
  const uint8_t *name;
  if (!take_number(b, 4, &length) || length != strlen(t->name)) return false;
  if (!take(b, length, &name) || memcmp(name, t->name, length) != 0) return false;
  if (!take_number(b, 4, &rank) || rank != (uint64_t)tn_tensor_rank(t->tensor)) return false;
  for (uint64_t i = 0; i < rank; i++)
    if (!take_number(b, 8, &size) || size != (uint64_t)tn_tensor_shape(t->tensor)[i]) return false;
  return take(b, tn_tensor_bytes(t->tensor), data);
}

static bool write_tensor(const model_tensor *t, const uint8_t *data) {
  int64_t count = tn_tensor_elements(t->tensor);
  float *values = malloc((size_t)count * sizeof *values);
  if (!values) return refuse(t->name, "not enough memory");
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = (uint32_t)number_at(data + 4 * i, 4);
    memcpy(&values[i], &bits, sizeof bits);
  }
  tn_status s = tn_tensor_write(NULL, t->tensor, values, (size_t)count * sizeof *values);
  free(values);
  return s ? refuse(t->name, tn_last_error()) : true;
}

static bool load_from(const char *path, bytes b, model *m, run_position *at) {
  uint64_t state[STATE_WORDS];
  model_tensor tensors[MODEL_STATE_TENSORS];
  const uint8_t *data[MODEL_STATE_TENSORS];
  if (!open_envelope(path, &b) || !take_header(path, &b, state)) return false;
  model_state(m, tensors);
  for (int i = 0; i < MODEL_STATE_TENSORS; i++)
    if (!take_tensor(&b, &tensors[i], &data[i])) {
      warnx("%s: of another network: its tensor %d is not %s of the shape expected", path, i,
            tensors[i].name);
      return false;
    }
  if (b.left) return refuse(path, "of another network: it has more than expected");
  for (int i = 0; i < MODEL_STATE_TENSORS; i++)
    if (!write_tensor(&tensors[i], data[i])) return false;
  m->steps = (int64_t)state[0];
  *at = (run_position){(int64_t)state[1], (int64_t)state[2], (int64_t)state[3]};
  m->seed = state[4];
  if (tn_generator_set_state(m->generator, m->seed, state[5])) return refuse(path, tn_last_error());
  return true;
}

bool checkpoint_load(const char *path, model *m, run_position *at) {
  size_t size = 0;
  uint8_t *data = read_file(path, &size);
  if (!data) return false;
  bool ok = load_from(path, (bytes){data, size}, m, at);
  free(data);
  return ok;
}
