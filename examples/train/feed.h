/*
 * One split of the data on the device, as bytes: what an epoch reads is uploaded
 * once, and a batch is a view of it.
 *
 * Functions return TN_OK or leave the reason in tn_last_error().
 */
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H

#include "idx.h"
#include "tenon/tenon.h"

typedef struct feed {
  const idx_set *set; /* borrowed */
  int64_t count;
  tn_tensor *images; /* u8 [count, 1, 28, 28] */
  tn_tensor *labels; /* i64 [count] */
  tn_device *device;
  /* Pinned host memory in which an epoch is put in order. */
  uint8_t *staged_images;
  int64_t *staged_labels;
  uint32_t *order;
} feed;

/* The set in its own order. The set must outlive the feed. On failure f may be destroyed
 * all the same. */
tn_status feed_create(feed *f, tn_device *device, const idx_set *set);
void feed_destroy(feed *f);

/* Puts the set in an order that depends on seed and epoch alone, not on the device.
 * The upload of the order before must have ended: synchronise between two calls. */
tn_status feed_shuffle(feed *f, uint64_t seed, uint64_t epoch);

/* Views of `size` items from `begin` on, to be released. */
tn_status feed_slice(const feed *f, int64_t begin, int64_t size, tn_tensor **images,
                     tn_tensor **labels);

#endif
