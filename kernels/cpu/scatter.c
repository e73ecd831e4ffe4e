/*
 * scatter_add, scatter_max, index_add. Each column takes its updates in order, so that
 * sums come out the same whatever the number of threads. 16-bit floats are summed in
 * float and rounded once.
 */
#include <string.h>

#include "along.h"
#include "half.h"

static along scatter_of(const tn_kernel_args *args) {
  const int64_t axis = ((const tn_gather_attrs *)args->attrs)->axis;
  along a = along_of(args, args->in[0], args->in[1], args->out[0], axis);
  a.from = args->in[0]->data;
  a.to = args->out[0]->data;
  return a;
}

#define BODY "scatter.inc"
#include "stamp_float.inc"
#include "stamp_int.inc"
