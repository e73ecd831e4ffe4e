/* A case at work: what run_case.c and long_call.c share. */
#ifndef TENON_CHECK_WORK_H
#define TENON_CHECK_WORK_H

#include "compare.h"
#include "placed.h"
#include "run_case.h"

/* Arguments are indexed as in the schema. */
typedef struct work {
  const op_case *c;
  tn_device *device;
  uint32_t num_in, num_out;
  bool host; /* the device's memory is the host's: the reference kernels serve it too */
  void *values[CASE_ARGS];   /* drawn inputs and in-out arguments, in the case's types */
  output want[CASE_ARGS];    /* the reference's outputs, in-out arguments among them */
  placed at[CASE_ARGS];      /* on the device */
  int32_t shares[CASE_ARGS]; /* output i is input shares[i], or -1 */
  uint32_t rank;             /* of the kernel, among those that take the call */
  bool ran;                  /* that kernel was one to be checked, and ran */
  char how[160];             /* "made", or with the kernel's name */
} work;

/* With as many inputs and outputs as the schema has, and the case's attributes. */
tn_call work_call(const work *w, const tn_tensor *const *in, tn_tensor **out);
/* Prepares the call by the kernel at w->rank and, unless that is the first, runs it. w->ran says
 * whether it did; the name of the kernel stands in w->how. */
tn_status work_call_ranked(work *w, const tn_call *call, const char *how, tally *t);
void work_complain(const work *w, tally *t, const char *arg, const char *why);

/* long_call.c: an elementwise case many times over, in calls of many elements, by every kernel
 * that is to be checked. What the reference gave for the case is right for each of its copies. */
void long_calls(work *w, tally *t);

#endif
