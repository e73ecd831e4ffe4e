/* What the files that make views share. */
#ifndef TENON_DISPATCHER_VIEW_H
#define TENON_DISPATCHER_VIEW_H

#include "dispatcher/objects/tensor.h"

/* Refuses a NULL result pointer and what tensor_check refuses. */
tn_status view_check(const char *function, const tn_tensor *x, tn_tensor **view);
/* Moves the view's first element by `elements`. */
void view_advance(tn_tensor *t, int64_t elements);

#endif
