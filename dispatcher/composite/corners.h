/*
 * The elements of a tensor that are shown: all of them, or along each long axis those at its two
 * ends. Only those are read, whatever the tensor's size.
 */
#ifndef TENON_DISPATCHER_CORNERS_H
#define TENON_DISPATCHER_CORNERS_H

#include "tenon/tenon.h"

typedef struct corners {
  const tn_tensor *tensor;
  int64_t edge;              /* elements kept at each end of an axis that is cut */
  bool cut[TN_MAX_RANK];     /* whether the axis is longer than two ends */
  int64_t kept[TN_MAX_RANK]; /* elements of it that are here */
  int64_t count;             /* of all axes together */
  char *elements;            /* count of them, row-major; NULL where there are none */
} corners;

/* Reads them, behind the work of the stream that the tensor was made on, and waits for it.
 * threshold: the most elements that are kept whole. corners_free gives them back. */
tn_status corners_read(corners *c, const tn_tensor *tensor, int64_t threshold, int64_t edge);
void corners_free(corners *c);

#endif
