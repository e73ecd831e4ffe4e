/* Sums, casts and factors, which the rules of several families use. */
#include "graph/gradient/parts.h"

#include "graph/gradient/expressions.h"

const tn_tensor *rule_cast(rule *r, const tn_tensor *x, tn_dtype dtype) {
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = dtype};
  return !x || tn_tensor_dtype(x) == dtype ? x : cast(x, &attrs);
}

tn_axes rule_axes(int32_t first, int32_t end) {
  tn_axes axes = {0};
  for (int32_t i = first; i < end; ++i) axes.axis[axes.count++] = i;
  return axes;
}

const tn_tensor *rule_sum_keepdims(rule *r, const tn_tensor *x, const tn_axes *axes) {
  const tn_sum_attrs attrs = {.struct_size = sizeof attrs, .keepdims = 1, .axes = *axes};
  return axes->count ? sum(x, &attrs) : x;
}

const tn_tensor *rule_mean_keepdims(rule *r, const tn_tensor *x, const tn_axes *axes) {
  const tn_mean_attrs attrs = {.struct_size = sizeof attrs, .keepdims = 1, .axes = *axes};
  return axes->count ? mean(x, &attrs) : x;
}

const tn_tensor *rule_sum_channels(rule *r, const tn_tensor *x) {
  if (!x) return NULL;
  tn_sum_attrs attrs = {.struct_size = sizeof attrs, .axes = rule_axes(0, tn_tensor_rank(x) - 1)};
  for (int32_t i = 1; i < attrs.axes.count; ++i) ++attrs.axes.axis[i]; /* 0, 2, 3, ... */
  return sum(x, &attrs);
}

const tn_tensor *rule_scale(rule *r, const tn_tensor *x, double factor) {
  return mul(x, num(x, factor));
}

const tn_tensor *rule_plus(rule *r, const tn_tensor *a, const tn_tensor *b) {
  return a && b ? add(a, b) : a ? a : b;
}
