/*
 * Values of options: each function reads `text`, which was given to --name, into *value. False
 * after telling on standard error what was expected.
 */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon/tenon.h"

bool argument_integer(const char *name, const char *text, int64_t least, int64_t most,
                      int64_t *value);
/* Any number of 64 bits. */
bool argument_seed(const char *name, const char *text, uint64_t *value);
/* A finite number above 0. */
bool argument_positive(const char *name, const char *text, double *value);
/* A finite number, 0 or more. */
bool argument_not_negative(const char *name, const char *text, double *value);
/* What steps compute in, "bf16" or "f16". The text may be left out, or stand behind a blank, where
 * getopt does not take it for the option's: `next` is the argument there, and *taken says whether
 * it was. */
bool argument_precision(const char *name, const char *text, const char *next, tn_dtype *value,
                        bool *taken);
bool argument_path(const char *name, const char *text, const char **value);

#endif
