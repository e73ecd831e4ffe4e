/* The two faces of `tenon info`. */
#ifndef TENON_TOOLS_INFO_H
#define TENON_TOOLS_INFO_H

#include "survey.h"

/* verbose: which kernel serves every operator in every element type. */
void info_print_text(const survey *s, bool verbose);
/* The page docs/support.md: what runs natively where, from the plugins' kernels alone. */
int info_print_support(tn_runtime *runtime);
void info_print_json(const survey *s, bool verbose);

#endif
