/*
 * The attributes of a case told by tensors, where its operator takes them so (TN_ATTR_TENSOR): the
 * attributes themselves are then something else, so that a kernel that reads them is found out.
 */
#ifndef TENON_CHECK_TOLD_H
#define TENON_CHECK_TOLD_H

#include "cases/op_case.h"
#include "tenon/tenon.h"

enum { TOLD_MOST = 8 }; /* attributes of that kind that one operator has */

typedef struct told {
  _Alignas(16) unsigned char attrs[256]; /* for the call */
  tn_tensor *tensor[TOLD_MOST];
  tn_tensor *skip; /* one of them, or NULL: whether the call does nothing */
  uint32_t count;
} told;

/* On failure there is nothing to free. */
tn_status told_make(const op_case *c, tn_device *device, told *t);
tn_status told_skip(const told *t, bool skip);
void told_free(told *t);

#endif
