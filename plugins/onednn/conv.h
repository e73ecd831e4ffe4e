/* What a convolution is to the plugin, and which are oneDNN's. */
#ifndef ONEDNN_CONV_H
#define ONEDNN_CONV_H

#include <string.h>

#include "onednn.h"

enum { PLAIN, CHANNELS_LAST };

/* A call by the forward operator's names, and the key of its plan. c and k count all
 * channels; `parts` are the pieces that the written channels are cut into. */
typedef struct conv_shape {
  int64_t role, type, axes, n, g, c, k, images, parts, bias;
  int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  int64_t lies[3]; /* PLAIN or CHANNELS_LAST: x, w, y */
} conv_shape;

static inline int64_t count_of(const int64_t *size, int64_t axes) {
  int64_t n = 1;
  for (int64_t d = 0; d < axes; d++) n *= size[d];
  return n;
}

static inline double work_of(const conv_shape *s) {
  return (double)(s->n * s->k) * (double)(s->c / s->g) * (double)count_of(s->out, s->axes) *
         (double)count_of(s->window, s->axes);
}

static inline bool has_activation(uint32_t op) {
  return op == TN_OP_CONV1D || op == TN_OP_CONV2D || op == TN_OP_CONV3D;
}

/* Behind the groups; none where the host is older than that. */
static inline int64_t activation_at(const void *attrs, int axes) {
  const size_t end = sizeof(int64_t) * (3 * (size_t)axes + 3);
  uint32_t size;
  memcpy(&size, attrs, sizeof size);
  return size < end ? TN_ACTIVATION_NONE : ((const int64_t *)attrs)[3 * axes + 2];
}

/* conv_choice.c: where the kernels were measured to be faster than ours; docs/onednn.md has the
 * figures. */
bool conv_is_faster(const conv_shape *s);
/* What oneDNN gets wrong, to be left to ours however fast it is. */
bool conv_is_wrong(const conv_shape *s);

#endif
