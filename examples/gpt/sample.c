#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"

/* ---------------------------------------------------------------------- UTF-8 --- */

/* Bytes of a character that is not complete yet. */
typedef struct utf8 {
  FILE *out;
  unsigned char held[4];
  int count, wanted;
} utf8;

/* Bytes of the character that `lead` begins; 0 where none begins so. */
static int utf8_length(unsigned char lead) {
  if (lead < 0x80) return lead >= ' ' && lead != 0x7f ? 1 : lead == '\n' || lead == '\t';
  return lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

/* Whether a byte goes on with what is held: neither too long a form nor a surrogate. */
static bool utf8_goes_on(const utf8 *u, unsigned char byte) {
  unsigned char least = 0x80, most = 0xbf;
  if (u->count == 1) {
    if (u->held[0] == 0xe0) least = 0xa0;
    if (u->held[0] == 0xed) most = 0x9f;
    if (u->held[0] == 0xf0) least = 0x90;
    if (u->held[0] == 0xf4) most = 0x8f;
  }
  return byte >= least && byte <= most;
}

static void utf8_end(utf8 *u) {
  if (u->count) fputc('?', u->out);
  u->count = 0;
}

static void utf8_put(utf8 *u, unsigned char byte) {
  if (u->count && !utf8_goes_on(u, byte)) utf8_end(u);
  if (!u->count) u->wanted = utf8_length(byte);
  if (!u->wanted) {
    fputc('?', u->out);
    return;
  }
  u->held[u->count++] = byte;
  if (u->count < u->wanted) return;
  fwrite(u->held, 1, (size_t)u->count, u->out);
  u->count = 0;
}

/* -------------------------------------------------------------------- drawing --- */

typedef struct candidate {
  int byte;
  double logit;
} candidate;

/* The likeliest first, and of two alike the smaller byte, on every machine. */
static int by_logit(const void *left, const void *right) {
  const candidate *a = left, *b = right;
  if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
  return a->byte - b->byte;
}

/* The logarithm of the sum of e^(logit / temperature) over the first `count`. */
static double log_sum(const candidate *c, int count, double temperature) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += exp((c[i].logit - c[0].logit) / temperature);
  return c[0].logit / temperature + log(sum);
}

/* The next byte, and the logarithm of what the model thinks is its probability. */
static int draw(const sampler *how, const float logits[BYTES], uint64_t *random, double *logprob) {
  candidate c[BYTES];
  int count = how->temperature > 0 ? (int)how->top_k : 1, chosen = 0;
  for (int i = 0; i < BYTES; i++) c[i] = (candidate){i, (double)logits[i]};
  qsort(c, BYTES, sizeof *c, by_logit);
  double u = (double)(random_next(random) >> 11) * 0x1p-53;
  if (count > 1) {
    double all = log_sum(c, count, how->temperature);
    while (chosen < count - 1 && (u -= exp(c[chosen].logit / how->temperature - all)) >= 0)
      chosen++;
  }
  *logprob = c[chosen].logit - log_sum(c, BYTES, 1);
  return c[chosen].byte;
}

/* ------------------------------------------------------------------- the model --- */

/* The text so far, as much of it as the model sees. */
typedef struct writer {
  tn_device *device;
  const model_size *size;
  tn_tensor *const *weights;
  int64_t context;
  model_cache cache;
  int64_t length; /* of tokens */
  int32_t tokens[MODEL_MAX_CONTEXT + 1], positions[MODEL_MAX_CONTEXT + 1];
} writer;

static tn_status begin(writer *w, const char *prompt) {
  size_t room = (size_t)w->context + 1;
  const char *text = *prompt ? prompt : "\n";
  size_t length = strlen(text), kept = length < room ? length : room / 2;
  for (size_t i = 0; i < room; i++) w->positions[i] = (int32_t)i;
  for (size_t i = 0; i < kept; i++) w->tokens[i] = (unsigned char)text[length - kept + i];
  w->length = (int64_t)kept;
  return model_cache_create(w->device, w->size, &w->cache);
}

/* Adds a byte, with a new context if this one is full. */
static void append(writer *w, int byte) {
  w->tokens[w->length++] = byte;
  if (w->length <= w->context) return;
  int64_t kept = (w->context + 1) / 2;
  memmove(w->tokens, w->tokens + w->length - kept, (size_t)kept * sizeof *w->tokens);
  w->length = kept;
  w->cache.length = 0;
}

/* The logits of the last of `count` rows. */
static tn_status read_last(const tn_tensor *all, int64_t count, float logits[BYTES]) {
  tn_tensor *row = NULL, *bytes = NULL;
  tn_status s = tn_tensor_slice(all, 0, count - 1, count, 1, &row);
  if (!s) s = tn_tensor_slice(row, 1, 0, BYTES, 1, &bytes);
  if (!s) s = tn_tensor_to_host(bytes, logits, BYTES * sizeof *logits);
  tn_tensor_release(row);
  tn_tensor_release(bytes);
  return s;
}

/* Looks at what the cache has not seen, or without one at everything. */
static tn_status expect_next(writer *w, bool cached, float logits[BYTES]) {
  tn_tensor *tokens = NULL, *positions = NULL, *all = NULL;
  int64_t seen = cached ? w->cache.length : 0, fresh = w->length - seen;
  tn_status s =
      tn_tensor_from_host(w->device, TN_I32, 2, (int64_t[]){1, fresh}, w->tokens + seen, &tokens);
  if (!s) s = tn_tensor_from_host(w->device, TN_I32, 1, &fresh, w->positions + seen, &positions);
  if (!s)
    s = model_forward(w->size, w->weights, tokens, positions, cached ? &w->cache : NULL, &all);
  if (!s) s = read_last(all, fresh, logits);
  tn_tensor_release(tokens);
  tn_tensor_release(positions);
  tn_tensor_release(all);
  return s;
}

static tn_status write_bytes(writer *w, const sampler *how, FILE *out) {
  utf8 text = {.out = out};
  uint64_t random = random_stream(how->seed, 0);
  tn_status s = TN_OK;
  for (const char *c = how->prompt; *c; c++) utf8_put(&text, (unsigned char)*c);
  for (int64_t i = 0; i < how->bytes && !s; i++) {
    float logits[BYTES];
    double logprob;
    s = expect_next(w, how->cache, logits);
    if (s) break;
    int byte = draw(how, logits, &random, &logprob);
    append(w, byte);
    utf8_put(&text, (unsigned char)byte);
    fflush(out);
    if (how->logprobs) fprintf(how->logprobs, "%.6f\n", logprob);
  }
  utf8_end(&text);
  fputc('\n', out);
  return s;
}

tn_status sample_text(tn_device *device, const model_size *size, tn_tensor *const weights[],
                      const sampler *how, FILE *out) {
  writer w = {.device = device, .size = size, .weights = weights, .context = how->context};
  tn_status s = begin(&w, how->prompt);
  if (!s) s = write_bytes(&w, how, out);
  model_cache_destroy(&w.cache);
  return s;
}
