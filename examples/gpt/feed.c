#include "feed.h"

tn_status feed_create(feed *f, tn_device *device, const text *t, int64_t batch, int64_t length) {
  const int64_t tokens[] = {FEED_STEPS, batch, length}, targets[] = {FEED_STEPS, batch * length};
  const size_t bytes = (size_t)(FEED_STEPS * batch * length) * sizeof(int32_t);
  void *staged_tokens = NULL, *staged_targets = NULL;
  *f = (feed){.device = device, .text = t, .batch = batch, .length = length};
  tn_status s = tn_pinned_alloc(device, bytes, &staged_tokens);
  if (!s) s = tn_pinned_alloc(device, bytes, &staged_targets);
  f->staged_tokens = staged_tokens;
  f->staged_targets = staged_targets;
  if (!s) s = tn_tensor_empty(device, TN_I32, 3, tokens, &f->tokens);
  return s ? s : tn_tensor_empty(device, TN_I32, 2, targets, &f->targets);
}

void feed_destroy(feed *f) {
  if (!f->device) return;
  tn_tensor_release(f->tokens);
  tn_tensor_release(f->targets);
  tn_pinned_free(f->device, f->staged_tokens);
  tn_pinned_free(f->device, f->staged_targets);
  *f = (feed){0};
}

static windows staged_batch(const feed *f, int64_t index) {
  int64_t at = index * f->batch * f->length;
  return (windows){f->batch, f->length, f->staged_tokens + at, f->staged_targets + at};
}

static tn_status upload(feed *f) {
  size_t bytes = tn_tensor_bytes(f->tokens);
  tn_status s = tn_tensor_write(NULL, f->tokens, f->staged_tokens, bytes);
  return s ? s : tn_tensor_write(NULL, f->targets, f->staged_targets, bytes);
}

tn_status feed_steps(feed *f, uint64_t seed, int64_t step) {
  for (int64_t i = 0; i < FEED_STEPS; i++) {
    windows w = staged_batch(f, i);
    text_draw(f->text, seed, (uint64_t)(step + i), &w);
  }
  return upload(f);
}

tn_status feed_held_out(feed *f, int64_t batches) {
  for (int64_t i = 0; i < FEED_STEPS; i++) {
    windows w = staged_batch(f, i);
    text_held_out(f->text, i % batches, batches, &w);
  }
  return upload(f);
}

tn_status feed_batch(const feed *f, int64_t index, tn_tensor **tokens, tn_tensor **targets) {
  tn_status s = tn_tensor_select(f->tokens, 0, index, tokens);
  if (!s) s = tn_tensor_select(f->targets, 0, index, targets);
  return s;
}
