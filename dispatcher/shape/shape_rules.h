/* Shared by the files of shape rules. */
#ifndef TENON_DISPATCHER_SHAPE_RULES_H
#define TENON_DISPATCHER_SHAPE_RULES_H

#include "dispatcher/shape/shape.h"

/* Fails with "tn_<op>: <what>: <shape of a> and <shape of b>"; a and b may be NULL. */
tn_status shape_refuse(const shape_query *q, const char *what, const DLTensor *a,
                       const DLTensor *b);

/* Normalises an axis that may count from the end. */
bool shape_axis(int64_t axis, int32_t rank, int32_t *out);

void shape_copy(extents *out, const DLTensor *x);
bool shape_same(const DLTensor *a, const DLTensor *b);

/* Broadcasts s with x's shape; false leaves s as it was. */
bool shape_broadcast(extents *s, const DLTensor *x);

/* How many spatial axes a window's operator has: as many as its first attribute numbers. */
int shape_spatial(const shape_query *q);

/* The numbers of attribute `attr`, an i64, pair or triple. */
const int64_t *shape_numbers(const shape_query *q, uint32_t attr);

/* Fails unless a, and b if there is one, have `rank` axes. */
tn_status shape_need_rank(const shape_query *q, int32_t rank, const DLTensor *a, const DLTensor *b);

/* [..., m, n], where the batch axes of the first two inputs, all but the last two, broadcast. */
tn_status shape_product(const shape_query *q, const DLTensor *a, const DLTensor *b, int64_t m,
                        int64_t n, extents *out);

/* Whether every size is 1, as in a tensor of rank 0. */
bool shape_is_one(const DLTensor *t);

/* The windows that fit along one axis: false if none or on overflow. */
bool shape_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                   int64_t *count);

/* One per row of shapes.def: fills out[0..num_out-1]. */
#define SHAPE(number, name, ...)                                                                   \
  tn_status shape_rule_##name(const shape_query *q, extents *out, uint32_t num_out);
#include "shapes.def"

#endif
