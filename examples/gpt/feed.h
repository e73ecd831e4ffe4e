/*
 * Batches on their way to the device: those of some steps are drawn together and uploaded at
 * once, and a batch is a view of them.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef GPT_FEED_H
#define GPT_FEED_H

#include "tenon/tenon.h"
#include "text.h"

enum { FEED_STEPS = 16 };

typedef struct feed {
  tn_device *device;
  const text *text; /* borrowed */
  int64_t batch, length;
  tn_tensor *tokens, *targets;             /* i32, FEED_STEPS batches each */
  int32_t *staged_tokens, *staged_targets; /* pinned host memory */
} feed;

/* On failure f may be destroyed all the same. */
tn_status feed_create(feed *f, tn_device *device, const text *t, int64_t batch, int64_t length);
void feed_destroy(feed *f);

/* Draws and uploads the batches of FEED_STEPS steps from `step` on, or `held_out` ones. The upload
 * before must have ended: synchronise between two calls. */
tn_status feed_steps(feed *f, uint64_t seed, int64_t step);
tn_status feed_held_out(feed *f, int64_t batches);

/* Views of batch `index` of those uploaded, to be released: i32 [batch, length] and
 * [batch * length]. */
tn_status feed_batch(const feed *f, int64_t index, tn_tensor **tokens, tn_tensor **targets);

#endif
