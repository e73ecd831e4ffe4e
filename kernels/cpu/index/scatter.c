/*
 * scatter_add, _mul, _min and _max, index_add, and scatter_nd with each of these. Each column takes
 * its updates in order, so that sums come out the same whatever the number of threads. 16-bit
 * floats are summed in float and rounded once, float32 in double where many updates may meet: each
 * sum in float32 rounds by up to 6e-8 of itself, which after some 16 of one direction is more than
 * the bound of 1e-6. With fewer updates than places that is left to chance, and nothing is done for
 * places that get none; of 16 bits, those are not widened where updates are few. Where whole rows
 * go to one place, sums of a wider type go place by place.
 */
#include <string.h>

#include "kernels/cpu/base/along.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/index/scatter_deal.h"
#include "kernels/cpu/index/scatter_rows.h"
#include "kernels/cpu/index/slices.h"

enum { FEW = 16 }; /* updates of one place whose sum keeps the bound in any type */

/* Whether a column's places are so much more than its updates that these look for their own. */
static inline bool touches_few(const along *a, const column *c) {
  return c->end - c->begin < a->n / 4;
}

static along scatter_of(const tn_kernel_args *args) {
  const int64_t axis = ((const tn_gather_attrs *)args->attrs)->axis;
  along a = along_of(args, args->in[0], args->in[1], args->out[0], axis);
  a.from = args->in[0]->data;
  a.to = args->out[0]->data;
  return a;
}

/* y as rows by their number, in a y of [n, block]. */
static along slices_along(const tn_kernel_args *args, const slices *s) {
  along a = {.host = args->host, .index = s->rows, .wide = true, .shared = true};
  a.rank = 2;
  a.n = a.places = s->n;
  a.step = a.part = a.last = s->block;
  a.count = a.all = s->count;
  a.inner = a.splits = 1;
  a.size[0] = s->count;
  a.size[1] = a.stride[0] = s->block;
  a.stride[1] = 1;
  along_fit(&a, args->out[0]->dtype.bits / 8, args->out[0]->dtype.bits / 8);
  a.from = args->in[0]->data;
  a.to = args->out[0]->data;
  return a;
}

#define BODY "kernels/cpu/index/scatter.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
