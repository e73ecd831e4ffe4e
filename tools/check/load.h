/* What shows only when a kernel runs more than once: many times in a row, and in several threads
 * at once. */
#ifndef TENON_CHECK_LOAD_H
#define TENON_CHECK_LOAD_H

#include "run_case.h"

typedef struct load_site {
  tn_device *device;
  tn_device *repeating; /* of a deterministic runtime, or NULL */
  tn_device *reference;
} load_site;

/* Whether it is small enough for what follows. */
bool load_fits(const op_case *c);

/* Makes the case's call some dozens of times by each of the kernels that take it: what the process
 * then has more of with every call, memory, descriptors or threads, the kernel leaves behind.
 * growth.c */
void growth_case(const op_case *c, const load_site *s, tally *t);

/* Makes the call in four threads at once, each with numbers of its own, invoked and prepared, on
 * the default stream and on others: results are those of the lone call. To the bit, where the
 * kernel promises the same bits every time. Of a typical case, which is small, the best kernel, of
 * others those behind it too. Leaves in `note` what is worth knowing and no failure, or "": that
 * the call is too slow to be tried so, or that signals made it fail. together.c */
void together_case(const op_case *c, const load_site *s, tally *t, char *note, size_t size);

/* The plugin whose kernels are the judge. */
void load_judge(const load_site *s, char *name, size_t size);
void load_complain(const load_site *s, const op_case *c, tally *t, const char *how,
                   const char *why);

#endif
