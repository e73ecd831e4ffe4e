/* The two faces of `tenon info`. */
#ifndef TENON_TOOLS_INFO_H
#define TENON_TOOLS_INFO_H

#include "survey.h"

/* What is asked for, as globs; NULL for all. device: an identifier or a type. */
typedef struct info_filter {
  const char *op, *device, *plugin;
} info_filter;

/* Leaves out the rest; false where nothing is left. info_filter.c */
bool info_keep(const info_filter *f, survey *s);

/* verbose: which kernel serves every operator in every element type. */
void info_print_text(const survey *s, bool verbose);
/* What runs natively where, from the plugins' kernels alone: all of it, and the page
 * docs/support.md with what does not. */
int info_print_support(tn_runtime *runtime);
int info_print_missing(tn_runtime *runtime);
void info_print_json(const survey *s, bool verbose);

#endif
