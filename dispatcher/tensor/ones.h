/* The scalars of value 1 that stand for inputs which callers leave out (TN_ARG_OR_ONE). */
#ifndef TENON_DISPATCHER_TENSOR_ONES_H
#define TENON_DISPATCHER_TENSOR_ONES_H

#include "dispatcher/objects/tensor.h"

/* The device's scalar of value 1, which stays its own. pre: a type of tn_dtype. */
tn_status device_one(tn_device *device, tn_dtype dtype, const tn_tensor **one);
/* Gives them back. pre: no call is under way. */
void device_release_ones(tn_device *device);

#endif
