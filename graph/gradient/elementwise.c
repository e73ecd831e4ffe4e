/* Rules of elementwise operators that are no single expression. */
#include "graph/gradient/expressions.h"

/* Where a wins it gets dy, where both are equal each gets half, in which neither is NaN. */
static void larger_or_smaller(rule *r, const tn_tensor *a, const tn_tensor *b,
                              const tn_tensor *(*wins)(rule *, const tn_tensor *,
                                                       const tn_tensor *)) {
  const tn_tensor *dy = r->out_gradient[0], *zero = num(dy, 0);
  const tn_tensor *half = where(equal(a, b), mul(dy, num(dy, 0.5)), zero);
  if (rule_wants(r, 0)) rule_give(r, 0, where(wins(r, a, b), dy, half));
  if (rule_wants(r, 1)) rule_give(r, 1, where(wins(r, b, a), dy, half));
}

void gradient_maximum(rule *r) { larger_or_smaller(r, r->in[0], r->in[1], expr_greater); }

void gradient_minimum(rule *r) { larger_or_smaller(r, r->in[0], r->in[1], expr_less); }

/* b a^(b - 1) and y ln a, without the NaN of 0 times infinity. */
void gradient_pow(rule *r) {
  const tn_tensor *a = r->in[0], *b = r->in[1], *y = r->out[0], *dy = r->out_gradient[0];
  const tn_tensor *zero = num(dy, 0);
  if (rule_wants(r, 0)) {
    const tn_tensor *slope = mul(b, pow(a, sub(b, num(dy, 1))));
    rule_give(r, 0, where(equal(b, zero), zero, mul(dy, slope)));
  }
  if (rule_wants(r, 1)) {
    const tn_tensor *flat = logical_and(equal(a, zero), greater_equal(b, zero));
    rule_give(r, 1, where(flat, zero, mul(dy, mul(y, log(a)))));
  }
}
