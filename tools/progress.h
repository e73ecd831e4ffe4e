/* Where a long command is: one line on standard error, where that is a terminal, which is erased
 * before anything else is written and at the end. */
#ifndef TENON_TOOLS_PROGRESS_H
#define TENON_TOOLS_PROGRESS_H

#include <stdbool.h>

/* on: false where nobody wants to see it. Before this nothing is shown. */
void progress_begin(bool on);
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Erases the line. */
void progress_clear(void);

#endif
