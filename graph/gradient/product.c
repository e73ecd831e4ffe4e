/* Rules of matrix products. */
#include "dispatcher/objects/tensor.h"
#include "graph/gradient/expressions.h"

/* The gradient by what the activation was applied to. gelu's needs that, which is computed again.
 */
static const tn_tensor *before_activation(rule *r, const tn_matmul_attrs *attrs) {
  const tn_tensor *dy = r->out_gradient[0];
  if (attrs->activation == TN_ACTIVATION_NONE) return dy;
  if (attrs->activation == TN_ACTIVATION_RELU) return relu_grad(dy, r->out[0]);
  tn_matmul_attrs plain = *attrs;
  plain.activation = TN_ACTIVATION_NONE;
  const tn_gelu_grad_attrs gelu = {sizeof gelu, attrs->activation == TN_ACTIVATION_GELU_TANH};
  return gelu_grad(dy, matmul(r->in[0], r->in[1], r->in[2], &plain), &gelu);
}

static const tn_tensor *product(rule *r, const tn_tensor *a, bool trans_a, const tn_tensor *b,
                                bool trans_b) {
  const tn_matmul_attrs attrs = {sizeof attrs, trans_a, trans_b, 0};
  return matmul(a, b, NULL, &attrs);
}

/* All but the last axis as one. */
static const tn_tensor *rows_of(rule *r, const tn_tensor *x) {
  if (!x) return NULL;
  int64_t columns = x->shape[x->dl.ndim - 1],
          size[2] = {columns ? x->elements / columns : 0, columns};
  for (int32_t i = 0; !columns && i < x->dl.ndim - 1; ++i)
    size[0] = (i ? size[0] : 1) * x->shape[i];
  return rule_reshape(r, x, 2, size);
}

/* One matrix for a batch: its gradient is one product over all rows, not a sum of products. */
static bool is_shared(const rule *r, bool trans_a) {
  return r->in_shape[1].rank == 2 && r->in_shape[0].rank > 2 && !trans_a;
}

void gradient_matmul(rule *r) {
  const tn_matmul_attrs *attrs = r->attrs;
  bool ta = attrs->trans_a, tb = attrs->trans_b;
  const tn_tensor *a = r->in[0], *b = r->in[1], *dy = before_activation(r, attrs);
  if (rule_wants(r, 0))
    rule_give(r, 0, ta ? product(r, b, tb, dy, true) : product(r, dy, false, b, !tb));
  if (rule_wants(r, 1)) {
    if (is_shared(r, ta)) a = rows_of(r, a);
    const tn_tensor *d = is_shared(r, ta) ? rows_of(r, dy) : dy;
    rule_give(r, 1, tb ? product(r, d, true, a, ta) : product(r, a, !ta, d, false));
  }
  if (r->in[2] && rule_wants(r, 2)) rule_give(r, 2, dy);
}
