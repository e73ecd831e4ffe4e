/* Which bytes a strided tensor covers, and whether two of them share one. */
#ifndef VALIDATE_EXTENT_H
#define VALIDATE_EXTENT_H

#include <tenon/plugin.h>

/* Runs of `run` bytes that begin at lo plus any whole numbers below size[i] times
 * stride[i]. Strides are positive and rise. */
typedef struct extent {
  const void *base; /* the memory's handle where there are no addresses, else NULL */
  int64_t lo, hi;   /* the first byte and the one behind the last; equal: no element */
  int64_t run;
  int32_t rank;
  int64_t size[TN_MAX_RANK], stride[TN_MAX_RANK];
} extent;

/* opaque: the tensor's data is a handle, not an address. */
extent extent_of(const DLTensor *t, bool opaque);
/* Every byte from the first to the last belongs to it. */
bool extent_is_dense(const extent *e);
bool extents_are_equal(const extent *a, const extent *b);
/* a has all bytes of b, as far as that is easily told. */
bool extent_covers(const extent *a, const extent *b);

typedef enum overlap { OVERLAP_NO, OVERLAP_YES, OVERLAP_UNDECIDED } overlap;
/* Exact but for strides so many and so odd that the search is given up. */
overlap extents_overlap(const extent *a, const extent *b);

#endif
