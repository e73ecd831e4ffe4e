/* A run in a checkpoint: weights and moments, the model's size, seed, steps taken and the length of
 * windows. Failures are told on standard error. */
#ifndef GPT_RUN_FILE_H
#define GPT_RUN_FILE_H

#include "trainer.h"

typedef struct run_file {
  checkpoint file;
  const model_size *size;
  uint64_t seed;
  int64_t steps;
  int64_t length; /* of the windows that the model was trained on */
} run_file;

bool run_file_save(const char *path, const trainer *t, uint64_t seed);

/* Reads which model the file is of; close it where this succeeds. */
bool run_file_open(run_file *f, const char *path);
/* Loads into a trainer of that size; one that fails leaves it as it was. */
bool run_file_take(const run_file *f, trainer *t);
void run_file_close(run_file *f);

#endif
