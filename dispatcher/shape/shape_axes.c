/*
 * Which attributes of the rules are axes: what the rules themselves give to shape_axis. A test
 * calls every operator that has such an attribute (tests/test_axes.c), so that no rule is
 * forgotten here.
 */
#include "dispatcher/shape/shape_rules.h"

#define AXIS(attrs) offsetof(attrs, axis), false, false
#define AXIS_OF_OUTPUT(attrs) offsetof(attrs, axis), false, true
#define AXES(attrs) offsetof(attrs, axes), true, false

/* Operators of one rule share its attributes' layout: each entry names one of them. */
const shape_axes axes_of_rules[TN_SHAPE_RULES] = {
    [TN_SHAPE_REDUCE] = {AXES(tn_sum_attrs)},
    [TN_SHAPE_ARG_REDUCE] = {AXIS(tn_argmax_attrs)},
    [TN_SHAPE_NORM] = {AXES(tn_norm_attrs)},
    [TN_SHAPE_SCAN] = {AXIS(tn_cumsum_attrs)},
    [TN_SHAPE_SOFTMAX] = {AXIS(tn_softmax_attrs)},
    [TN_SHAPE_LAYER_NORM] = {AXIS(tn_layer_norm_attrs)},
    [TN_SHAPE_LAYER_NORM_GRAD] = {AXIS(tn_layer_norm_grad_attrs)},
    [TN_SHAPE_REPEAT] = {AXIS(tn_repeat_attrs)},
    [TN_SHAPE_FLIP] = {AXES(tn_flip_attrs)},
    [TN_SHAPE_ROLL] = {AXES(tn_roll_attrs)},
    [TN_SHAPE_GATHER] = {AXIS(tn_gather_attrs)},
    [TN_SHAPE_TAKE_ALONG_AXIS] = {AXIS(tn_gather_attrs)},
    [TN_SHAPE_SCATTER] = {AXIS_OF_OUTPUT(tn_gather_attrs)},
    [TN_SHAPE_INDEX_ADD] = {AXIS_OF_OUTPUT(tn_gather_attrs)},
    [TN_SHAPE_ONE_HOT] = {AXIS_OF_OUTPUT(tn_one_hot_attrs)},
    [TN_SHAPE_SORT] = {AXIS(tn_sort_attrs)},
    [TN_SHAPE_TOPK] = {AXIS(tn_topk_attrs)},
    [TN_SHAPE_CONCAT] = {AXIS(tn_concat_attrs)},
    [TN_SHAPE_QUANTIZE_LINEAR] = {AXIS(tn_quantize_linear_attrs)},
    [TN_SHAPE_STACK] = {AXIS_OF_OUTPUT(tn_stack_attrs)},
    [TN_SHAPE_RESAMPLE] = {AXIS(tn_resample_attrs)},
    [TN_SHAPE_RESAMPLE_GRAD] = {AXIS(tn_resample_grad_attrs)},
};
