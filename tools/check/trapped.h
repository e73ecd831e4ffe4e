/* Tensors in memory of their own, between two pages that trap. */
#ifndef TENON_CHECK_TRAPPED_H
#define TENON_CHECK_TRAPPED_H

#include "tenon/tenon.h"

/* Makes a row-major tensor whose last element ends where a page begins that nobody may
 * touch, or every fourth time, whose first element begins where such a page ends. The
 * device must be the runtime's default device and its memory the host's. */
tn_status trapped_make(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       tn_tensor **tensor);

#endif
