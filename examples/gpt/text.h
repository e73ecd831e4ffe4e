/*
 * A text as bytes, and the batches that are drawn from it. The first nine tenths are learnt
 * from, the last tenth is held out.
 *
 * Which windows a step gets follows from the seed and the step's number alone, so that a run that
 * goes on from a checkpoint sees what it would have seen.
 *
 * Failures are told on standard error with the file, the reason and the remedy.
 */
#ifndef GPT_TEXT_H
#define GPT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct text {
  const char *path; /* borrowed, or the file found for the default */
  uint8_t *bytes;
  int64_t count, learnt; /* the first `learnt` of `count` are learnt from */
  char found[256];
} text;

/* path: NULL for the default text. context: the longest window that will be asked for, without
 * the byte that follows it. */
bool text_load(text *t, const char *path, int64_t context);
void text_free(text *t);

/* `batch` windows of `length` bytes, one after the other, and for each byte the one that follows
 * it in the text. */
typedef struct windows {
  int64_t batch, length;
  int32_t *tokens, *targets; /* [batch * length] each */
} windows;

/* Windows for a training step, drawn at random. */
void text_draw(const text *t, uint64_t seed, uint64_t step, const windows *w);
/* The windows of batch `index` of the text held out, spread over it evenly; `batches` cover it. */
void text_held_out(const text *t, int64_t index, int64_t batches, const windows *w);

#endif
