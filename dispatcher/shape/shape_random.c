/*
 * Shape rules of random operators: those that fill a tensor given, and draws by weights.
 */
#include <inttypes.h>

#include "dispatcher/shape/shape_rules.h"

/* Whether every value of randint fits y's type. */
static bool range_fits(const DLTensor *y, int64_t low, int64_t high) {
  int bits = y->dtype.bits;
  if (y->dtype.code == kDLUInt) return low >= 0 && high <= (int64_t)1 << bits;
  if (bits == 64) return true;
  return low >= -((int64_t)1 << (bits - 1)) && high <= (int64_t)1 << (bits - 1);
}

static tn_status check_randint(const shape_query *q) {
  const tn_randint_attrs *attrs = q->attrs;
  if (attrs->low >= attrs->high)
    return shape_refuse(q, "attrs->low must be less than attrs->high", NULL, NULL);
  if (!range_fits(q->inout[0], attrs->low, attrs->high))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_randint: y's element type does not hold %" PRId64 " to %" PRId64, attrs->low,
                attrs->high - 1);
  return TN_OK;
}

tn_status shape_rule_given_random(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *y = q->inout[0];
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], y);
  if (q->op->id == TN_OP_RANDINT) return check_randint(q);
  if (q->op->id == TN_OP_RANDPERM) {
    if (y->ndim != 1) return shape_refuse(q, "y must have one axis", y, NULL);
    if (y->shape[0] > INT32_MAX)
      return shape_refuse(q, "y must have less than 2^31 elements", y, NULL);
  }
  const tn_truncated_normal_attrs *normal = q->attrs;
  if (q->op->id == TN_OP_TRUNCATED_NORMAL && !(normal->low < normal->high))
    return shape_refuse(q, "attrs->low must be less than attrs->high", NULL, NULL);
  return TN_OK;
}

tn_status shape_rule_multinomial(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_multinomial_attrs *attrs = q->attrs;
  const DLTensor *weights = q->in[0];
  if (weights->ndim < 1) return shape_refuse(q, "weights need at least 1 axis", weights, NULL);
  int64_t n = weights->shape[weights->ndim - 1];
  if (n > INT32_MAX)
    return shape_refuse(q, "weights must be less than 2^31 in a row", weights, NULL);
  if (!attrs->replacement && attrs->samples > n)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_multinomial: %" PRId64 " samples of %" PRId64 " places need attrs->replacement",
                attrs->samples, n);
  shape_copy(out, weights);
  out->dim[out->rank - 1] = attrs->samples;
  (void)num_out;
  return TN_OK;
}
