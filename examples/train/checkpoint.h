/*
 * Keeps a training run in a file of named tensors (safetensors): parameters and moments, and as
 * its texts where the run stands and a CRC-32 of all elements.
 *
 * A file is taken as a whole or not at all: nothing is written to a tensor before checksum, names
 * and shapes are found right. Failures are told on standard error.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "model.h"

/* Where a run stands in its data. */
typedef struct run_position {
  int64_t epoch;    /* completed */
  int64_t position; /* images of the next epoch that were used already */
  int64_t images;   /* in an epoch */
} run_position;

bool checkpoint_save(const char *path, const model *m, const run_position *at);

/* Loads into a model that was created. */
bool checkpoint_load(const char *path, model *m, run_position *at);

#endif
