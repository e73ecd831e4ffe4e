/*
 * Reads images and labels from gzipped IDX files, the form in which MNIST and
 * Fashion-MNIST are published: a big-endian header, then bytes.
 *
 * A set that was loaded is sound: as many labels as images, each label below
 * IDX_CLASSES, files neither truncated nor longer than their headers say. Anything
 * else is told on standard error with the file, what was expected and the remedy.
 */
#ifndef TRAIN_IDX_H
#define TRAIN_IDX_H

#include <stdbool.h>
#include <stdint.h>

enum { IDX_SIDE = 28, IDX_PIXELS = IDX_SIDE * IDX_SIDE, IDX_CLASSES = 10 };

typedef struct idx_set {
  int64_t count;
  uint8_t *images; /* [count, 28, 28] */
  uint8_t *labels; /* [count] */
} idx_set;

/* split: "train" or "t10k", as files are named. Release with idx_free. */
bool idx_load(const char *folder, const char *split, idx_set *set);
void idx_free(idx_set *set);

#endif
