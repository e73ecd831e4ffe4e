/*
 * Files that appear whole or not at all: written under a temporary name beside the
 * target and renamed when complete, so that a full disk or a crash leaves what was
 * there before. Devices and pipes (/dev/stdout) are written directly.
 *
 * Failures are told on standard error, with the file's name and the reason.
 */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct output {
  FILE *file;
  char target[PATH_MAX]; /* with symbolic links followed */
  char temporary[PATH_MAX + 32];
  bool direct;
} output;

/* Whether path can be written, found out without changing it. path NULL: true. */
bool output_possible(const char *path);

/* Opens; then write to o->file and end with output_commit or output_discard. */
bool output_open(output *o, const char *path);

/* Completes the file: true once it stands under its name. Either way o is closed. */
bool output_commit(output *o);

/* Forgets what was written. */
void output_discard(output *o);

#endif
