/*
 * Tells how far a long task is: a bar redrawn in place on a terminal, at most ten times
 * a second; elsewhere a plain line for every tenth.
 */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
  FILE *out;
  bool terminal, unicode;
  char label[48];
  const char *unit; /* "images" */
  int64_t first, done, total;
  double began_s, drawn_s;
} progress;

/* Seconds on a clock that never jumps. */
double progress_now(void);

/* A line that begins with `label`; `first` of `total` units, which are told as `unit`, are done
 * already. */
void progress_begin(progress *p, FILE *out, const char *label, const char *unit, int64_t first,
                    int64_t total);

/* Whether, with `done` units, it is time to draw again. */
bool progress_due(const progress *p, int64_t done);
void progress_draw(progress *p, int64_t done, double loss);

/* Takes the bar off the terminal. */
void progress_end(progress *p);

#endif
