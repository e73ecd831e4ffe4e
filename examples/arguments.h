/*
 * Values of options: each function reads `text`, which was given to --name, into *value. False
 * after telling on standard error what was expected.
 */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

bool argument_integer(const char *name, const char *text, int64_t least, int64_t most,
                      int64_t *value);
/* Any number of 64 bits. */
bool argument_seed(const char *name, const char *text, uint64_t *value);
/* A finite number above 0. */
bool argument_positive(const char *name, const char *text, double *value);
/* A finite number, 0 or more. */
bool argument_not_negative(const char *name, const char *text, double *value);
bool argument_path(const char *name, const char *text, const char **value);

#endif
