/* The files that a trace writes to. */
#ifndef TRACE_PLACE_H
#define TRACE_PLACE_H

#include "tenon/plugin.h"

/* Opens the file that TENON_TRACE_FILE names ("%p" in it being the number of the process), else
 * tenon-trace-PID.json in the working folder. Where that is being written by another trace, or
 * this process has written it before, "-2", "-3" and so on comes before the extension. A pipe's
 * reader is waited for, for two seconds. path: what it became. */
tn_status place_open(const tn_host *host, char *path, size_t size, int *file);
/* Opens a file to append to; -1 with errno. A pipe likewise. */
int place_open_stream(const char *path);
/* How many traces this process has begun. */
unsigned place_count(void);

#endif
