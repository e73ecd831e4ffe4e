/*
 * scatter_add, scatter_max, index_add. Each column takes its updates in order, so that
 * sums come out the same whatever the number of threads. 16-bit floats are summed in
 * float and rounded once, float32 in double where many updates may meet: each sum in float32
 * rounds by up to 6e-8 of itself, which after some 16 of one direction is more than the bound of
 * 1e-6. With fewer updates than places that is left to chance, and nothing is done for places that
 * get none.
 */
#include <string.h>

#include "kernels/cpu/base/along.h"
#include "kernels/cpu/base/half.h"

enum { FEW = 16 }; /* updates of one place whose sum keeps the bound in any type */

static along scatter_of(const tn_kernel_args *args) {
  const int64_t axis = ((const tn_gather_attrs *)args->attrs)->axis;
  along a = along_of(args, args->in[0], args->in[1], args->out[0], axis);
  a.from = args->in[0]->data;
  a.to = args->out[0]->data;
  return a;
}

#define BODY "kernels/cpu/index/scatter.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
