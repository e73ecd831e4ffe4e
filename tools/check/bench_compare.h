/* Figures of tenon bench, kept to be compared: this run's, and those of a file that a run with
 * --json left. */
#ifndef TENON_CHECK_BENCH_COMPARE_H
#define TENON_CHECK_BENCH_COMPARE_H

#include <stdbool.h>
#include <stdio.h>

#include "bench.h"

/* The texts are the figure's own. */
typedef struct figure {
  const char *device, *op, *dtype, *what, *kernel;
  timing us;
  size_t place; /* among those of the same call, in the order in which they came */
} figure;

typedef struct figures {
  figure *list;
  size_t count, capacity;
} figures;

/* What a comparison looks at; a glob that is NULL is everything. */
typedef struct comparison {
  const char *op, *dtype, *only; /* only: of calls as they are printed */
  double threshold;              /* 0.1: a tenth slower or faster counts */
} comparison;

/* Copies the figure's texts. False without memory. */
bool figures_add(figures *f, const figure *added);
/* Rows of a file; what is wrong with it goes to standard error, and false comes back. */
bool figures_read(const char *path, figures *f);
void figures_free(figures *f);

/* Prints what became slower and faster and what is missing. EXIT_OK, EXIT_FAILED where something
 * became slower, EXIT_NOTHING where the two have no call in common. Sorts both. */
int figures_compare(figures *was, figures *is, const comparison *c, FILE *out);

#endif
