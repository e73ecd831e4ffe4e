/*
 * What a process that checks writes to standard output and error: nothing, since all that it has
 * to say it says in shared memory. So what comes there is a kernel's, or a slot's, and is kept in
 * a file of the worker's until somebody asks.
 */
#ifndef TENON_CHECK_OUTPUT_H
#define TENON_CHECK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "tenon/base.h"

/* In the process that watches: a file for one worker, -1 where there can be none; and its end: what
 * nobody took, of a process that died as a rule, goes to standard error. */
int output_open(void);
void output_pass_on(int file);

/* In the worker: from here on its output goes to the file. */
void output_keep(int file);
/* Whether there was output since the last time, in words: its beginning, as one line. */
bool output_found(char *text, size_t size);

/* Where reports are written by the process itself: what plugins print between the two goes to
 * standard error, so that a report is one that programs can read. output_back takes what
 * output_aside gave. */
int output_aside(void);
void output_back(int out);

/* Lines of a runtime's log: they go where standard error went. For tn_runtime_options.log. */
void output_log(void *user, tn_log_level level, const char *line);

#endif
