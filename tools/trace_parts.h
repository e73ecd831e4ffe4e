/* The files that the processes of one `tenon trace` write, each its own, and what becomes of
 * them. */
#ifndef TENON_TOOLS_TRACE_PARTS_H
#define TENON_TOOLS_TRACE_PARTS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct trace_parts {
  char wanted[PATH_MAX]; /* absolute: where the trace goes; "" for a name with a process in it */
  char folder[PATH_MAX]; /* where the parts lie meanwhile; "": they are written straight there */
} trace_parts;

/* Makes the folder, beside the file. file: NULL for tenon-trace-PID.json. False with errno. */
bool parts_open(trace_parts *p, const char *file);
/* What TENON_TRACE_FILE shall be. False where it is too long. */
bool parts_variable(const trace_parts *p, char *value, size_t size);
/* Puts the parts together, says where the trace is, and takes the folder away. child: the process
 * that was run. Returns how many processes' traces there are, or -1 where they could not be
 * put together, which is said. */
int parts_gather(const trace_parts *p, pid_t child);
/* The program was not run. */
void parts_drop(const trace_parts *p);

#endif
