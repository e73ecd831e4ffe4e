/* What the process ends with; see verdict.c. */
#ifndef VALIDATE_VERDICT_H
#define VALIDATE_VERDICT_H

/* The process shall not end with success. Thread-safe. */
void verdict_fail(void);

#endif
