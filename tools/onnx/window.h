/* What windows go over, along up to three axes: read from the attributes of convolutions and
 * pooling. */
#ifndef TENON_TOOLS_ONNX_WINDOW_H
#define TENON_TOOLS_ONNX_WINDOW_H

#include "node.h"

typedef struct window {
  int rank;
  int64_t size[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} window;

/* Everything but the padding, of the node's first input; the kernel's sizes are the caller's. False
 * with c->cannot set where that cannot be. */
bool window_begin(onnx_node *c, window *w);
/* Padding from attribute pads or by the rules of auto_pad; true where all is well. */
bool take_padding(onnx_node *c, window *w);

#endif
