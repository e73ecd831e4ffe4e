/* A training run in a checkpoint: parameters and moments, and where the run stands. Failures are
 * told on standard error. */
#ifndef TRAIN_RUN_FILE_H
#define TRAIN_RUN_FILE_H

#include "model.h"

/* Where a run stands in its data. */
typedef struct run_position {
  int64_t epoch;    /* completed */
  int64_t position; /* images of the next epoch that were used already */
  int64_t images;   /* in an epoch */
} run_position;

bool run_file_save(const char *path, const model *m, const run_position *at);

/* Loads into a model that was created; one that fails leaves it as it was. */
bool run_file_load(const char *path, model *m, run_position *at);

#endif
