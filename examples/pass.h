/*
 * A forward pass under way: the tensors that it makes, until it ends, and its first failure, after
 * which nothing is called any more and results are NULL. With it a layer is a line:
 *
 *     tn_tensor **y = pass_result(p);
 *     if (!p->status) p->status = tn_relu(NULL, x, y);
 *     return *y;
 */
#ifndef EXAMPLES_PASS_H
#define EXAMPLES_PASS_H

#include "tenon/tenon.h"

enum { PASS_TENSORS = 512 };

typedef struct pass {
  tn_status status;
  int made;
  tn_tensor *tensors[PASS_TENSORS];
} pass;

/* Where the next tensor goes; pre: a pass makes at most PASS_TENSORS. */
static inline tn_tensor **pass_result(pass *p) { return &p->tensors[p->made++]; }

/* Releases what the pass made, and gives its status. */
static inline tn_status pass_end(pass *p) {
  for (int i = 0; i < p->made; i++) tn_tensor_release(p->tensors[i]);
  p->made = 0;
  return p->status;
}

#endif
