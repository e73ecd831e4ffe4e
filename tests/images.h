/* Images of tests. */
#ifndef TENON_TESTS_IMAGES_H
#define TENON_TESTS_IMAGES_H

#include "support.h"
#include "tenon/ops.h"

/* A copy of an image [n, c, h, w] whose memory is [n, h, w, c]; the caller releases it. */
static inline tn_tensor *with_channels_last(const tn_tensor *x) {
  static const int32_t inwards[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
  tn_tensor *view = NULL, *dense = NULL, *last = NULL;
  ok(tn_tensor_permute(x, inwards, &view));
  ok(tn_copy(NULL, view, &dense));
  ok(tn_tensor_permute(dense, back, &last));
  tn_tensor_release(view);
  tn_tensor_release(dense);
  return last;
}

#endif
