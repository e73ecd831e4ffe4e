/* What became of a program, in a line for people. */
#ifndef EXAMPLES_PROGRAM_LINE_H
#define EXAMPLES_PROGRAM_LINE_H

#include <stdio.h>

#include "tenon/graph.h"

/* Nothing where program is NULL or has hardly run. */
void program_line(FILE *out, const char *name, tn_program *program);

#endif
