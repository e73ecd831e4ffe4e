/* What became of a program, in a line for people. */
#ifndef EXAMPLES_PROGRAM_LINE_H
#define EXAMPLES_PROGRAM_LINE_H

#include <stdio.h>

#include "tenon/graph.h"

/* What is told of several programs of one kind: that of which there were the most runs. Zero it
 * first. */
typedef struct program_story {
  tn_program_info info;
  char reason[256]; /* why runs went call by call */
} program_story;

/* Before a program is destroyed, or its line is written. NULL is no program. */
void program_remember(program_story *story, tn_program *program);
/* Nothing where there was hardly a run. */
void program_line(FILE *out, const char *name, const program_story *story);

#endif
