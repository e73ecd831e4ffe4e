/* The command line of train: parsed and checked as far as it can be by itself. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon/tenon.h"

typedef struct options {
  int64_t epochs, batch;
  int64_t steps; /* 0: as many as the epochs have */
  double lr;
  uint64_t seed;
  bool seed_given;
  bool eager;        /* a tape in place of a program */
  tn_dtype products; /* the type that steps compute them in; TN_DTYPE_NONE: float32 */
  bool json;
  const char *data;
  const char *save, *load, *plot, *losses; /* NULL where not wanted */
} options;

/* Fills o. Returns -1 to go on, or the status to exit with: 0 after --help, 2 after
 * a mistake, which is told on standard error. */
int options_parse(options *o, int argc, char **argv);

#endif
