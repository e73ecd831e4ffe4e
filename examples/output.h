/*
 * Files that appear whole or not at all: written without a name, or under a temporary one
 * beside the target, and renamed when complete, so that a full disk or a crash leaves what was
 * there before. What a killed process has left under a temporary name is swept away by the next.
 * Devices and pipes (/dev/stdout) are written directly.
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
  bool nameless; /* until it is complete */
} output;

/* Whether path can be written, found out without changing it. path NULL: true. */
bool output_possible(const char *path);

/* Opens; then write to o->file and end with output_commit or output_discard. */
bool output_open(output *o, const char *path);

/* Completes the file: true once it stands under its name. Either way o is closed. */
bool output_commit(output *o);

/* The status to exit with: a failure where standard output could not be written. */
int output_finish(int status);

/* Forgets what was written. */
void output_discard(output *o);

#endif
