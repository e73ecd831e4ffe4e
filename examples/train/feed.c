#include "feed.h"

#include <string.h>

#include "../random.h"

/* Fisher and Yates. The bias of the remainder is below 2^-40 for a million items. */
static void shuffle(uint32_t *order, int64_t count, uint64_t seed, uint64_t epoch) {
  uint64_t state = random_stream(seed, epoch);
  for (int64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (int64_t i = count - 1; i > 0; i--) {
    int64_t j = (int64_t)(random_next(&state) % (uint64_t)(i + 1));
    uint32_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

/* Item i of the device's copy becomes item order[i] of the set. */
static tn_status upload(feed *f) {
  for (int64_t i = 0; i < f->count; i++) {
    int64_t from = f->order[i];
    memcpy(f->staged_images + i * IDX_PIXELS, f->set->images + from * IDX_PIXELS, IDX_PIXELS);
    f->staged_labels[i] = f->set->labels[from];
  }
  tn_status s = tn_tensor_write(NULL, f->images, f->staged_images, tn_tensor_bytes(f->images));
  if (!s) s = tn_tensor_write(NULL, f->labels, f->staged_labels, tn_tensor_bytes(f->labels));
  return s;
}

static tn_status allocate_staging(feed *f) {
  void *images = NULL, *labels = NULL, *order = NULL;
  size_t count = (size_t)f->count;
  tn_status s = tn_pinned_alloc(f->device, count * IDX_PIXELS, &images);
  if (!s) s = tn_pinned_alloc(f->device, count * sizeof *f->staged_labels, &labels);
  if (!s) s = tn_pinned_alloc(f->device, count * sizeof *f->order, &order);
  f->staged_images = images;
  f->staged_labels = labels;
  f->order = order;
  return s;
}

tn_status feed_create(feed *f, tn_device *device, const idx_set *set) {
  const int64_t shape[] = {set->count, 1, IDX_SIDE, IDX_SIDE};
  *f = (feed){.set = set, .count = set->count, .device = device};
  tn_status s = allocate_staging(f);
  if (!s) s = tn_tensor_empty(device, TN_U8, 4, shape, &f->images);
  if (!s) s = tn_tensor_empty(device, TN_I64, 1, shape, &f->labels);
  if (s) return s;
  for (int64_t i = 0; i < f->count; i++) f->order[i] = (uint32_t)i;
  return upload(f);
}

void feed_destroy(feed *f) {
  if (!f->device) return;
  tn_tensor_release(f->images);
  tn_tensor_release(f->labels);
  tn_pinned_free(f->device, f->staged_images);
  tn_pinned_free(f->device, f->staged_labels);
  tn_pinned_free(f->device, f->order);
  *f = (feed){0};
}

tn_status feed_shuffle(feed *f, uint64_t seed, uint64_t epoch) {
  shuffle(f->order, f->count, seed, epoch);
  return upload(f);
}

tn_status feed_slice(const feed *f, int64_t begin, int64_t size, tn_tensor **images,
                     tn_tensor **labels) {
  tn_status status = tn_tensor_slice(f->images, 0, begin, begin + size, 1, images);
  if (status) return status;
  status = tn_tensor_slice(f->labels, 0, begin, begin + size, 1, labels);
  if (status) tn_tensor_release(*images), *images = NULL;
  return status;
}
