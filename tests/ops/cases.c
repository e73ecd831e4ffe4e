/* Which family of cases serves which shape rule. A rule without one is a test's failure. */
#include "op_case.h"

typedef void (*family)(const tn_operator *op, const tn_dtype *types, case_sink sink);

static const family families[TN_SHAPE_RULES] = {
    [TN_SHAPE_GIVEN] = cases_elementwise,
    [TN_SHAPE_SAME] = cases_elementwise,
    [TN_SHAPE_BROADCAST] = cases_elementwise,
    [TN_SHAPE_UPDATE] = cases_elementwise,
    [TN_SHAPE_REDUCE] = cases_reduce,
    [TN_SHAPE_ARG_REDUCE] = cases_reduce,
    [TN_SHAPE_MATMUL] = cases_matmul,
    [TN_SHAPE_CONV2D] = cases_conv2d,
    [TN_SHAPE_CONV2D_GRAD_INPUT] = cases_conv2d,
    [TN_SHAPE_CONV2D_GRAD_WEIGHT] = cases_conv2d,
    [TN_SHAPE_POOL2D] = cases_pool2d,
    [TN_SHAPE_POOL2D_GRAD] = cases_pool2d,
    [TN_SHAPE_SOFTMAX] = cases_softmax,
    [TN_SHAPE_CLASS_LOSS] = cases_class_loss,
    [TN_SHAPE_CLASS_LOSS_GRAD] = cases_class_loss,
};

void cases_emit(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES && families[op->shape]) families[op->shape](op, types, sink);
}
