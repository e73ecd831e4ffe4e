/*
 * Chains of nodes that are one operator, as exporters of old opsets wrote them. What the chain
 * computes is kept to a rounding; at -infinity, where it multiplies by 0, the operator gives 0.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold.h"

/* Whether input `in` is one constant number, to float32's digits. `scalar`: of rank 0. */
static bool is_number(const folding *f, const plan_node *n, size_t in, double number, bool scalar) {
  onnx_tensor t;
  return fold_constant(f, n, in, &t) && t.elements == 1 && t.rank <= !scalar &&
         fabs(onnx_tensor_number(&t, 0) - number) <= 1e-7 * number;
}

static bool is_clip(const folding *f, const plan_node *n) {
  onnx_node c;
  if (!fold_is_op(n, "Clip")) return false;
  if (n->opset >= 11)
    return n->node->n_input == 3 && is_number(f, n, 1, 0, true) && is_number(f, n, 2, 6, true);
  node_begin(&c, n->node, f->m->runtime, f->m->device);
  return node_float(&c, "min", 1) == 0 && node_float(&c, "max", 0) == 6;
}

static bool reads(const plan_node *n, size_t in, uint32_t slot) {
  return in < n->node->n_input && !n->in[in].up && n->in[in].slot == slot;
}

/* A number of rank 1 makes a tensor of rank 0 one of rank 1: what convolutions make is larger. */
static bool has_axes(const folding *f, uint32_t slot) {
  int64_t maker = f->maker[slot];
  return maker != NO_NODE && (fold_is_op(&f->g->nodes[maker], "Conv") ||
                              fold_is_op(&f->g->nodes[maker], "BatchNormalization"));
}

/* The nodes of x clip(x + 3, 0, 6) / 6 behind its first; x is that one's input `in`. */
static bool chain_of(const folding *f, plan_node *add, size_t in, plan_node *chain[3]) {
  uint32_t x = add->in[in].slot;
  if (add->in[in].up || x == NO_SLOT) return false;
  bool scalar = !has_axes(f, x);
  if (!is_number(f, add, !in, 3, scalar)) return false;
  plan_node *clip = fold_reader(f, add->out[0]);
  if (!clip || !is_clip(f, clip) || !reads(clip, 0, add->out[0])) return false;
  plan_node *mul = fold_reader(f, clip->out[0]);
  if (!mul || !fold_is_op(mul, "Mul") || mul->opset < 7) return false;
  if (!reads(mul, 0, x) && !reads(mul, 1, x)) return false;
  plan_node *div = fold_reader(f, mul->out[0]);
  if (!div || div->opset < 7 || !reads(div, 0, mul->out[0])) return false;
  if (!(fold_is_op(div, "Div") && is_number(f, div, 1, 6, scalar)) &&
      !(fold_is_op(div, "Mul") && is_number(f, div, 1, 1.0 / 6, scalar)))
    return false;
  chain[0] = clip, chain[1] = mul, chain[2] = div;
  return div->out[0] != NO_SLOT;
}

bool fold_hardswish(const folding *f, int64_t at) {
  plan_node *add = &f->g->nodes[at], *chain[3];
  if (!fold_is_op(add, "Add") || add->opset < 7 || add->node->n_input != 2) return true;
  if (add->node->n_output != 1) return true;
  size_t in = chain_of(f, add, 0, chain) ? 0 : 1;
  if (in && !chain_of(f, add, 1, chain)) return true;
  Onnx__Node *node = f->nodes[at];
  char *type = strdup("HardSwish");
  if (!type) return false;
  free(node->op_type);
  node->op_type = type;
  add->in[0] = add->in[in];
  if (in) {
    char *name = node->input[0];
    node->input[0] = node->input[1], node->input[1] = name;
  }
  free(node->input[1]);
  node->n_input = 1;
  add->opset = 14;
  add->out[0] = chain[2]->out[0];
  f->maker[add->out[0]] = at;
  f->g->uses[add->in[0].slot]--;
  for (int i = 0; i < 3; i++) chain[i]->kind = PLAN_JOINED, chain[i]->out[0] = NO_SLOT;
  f->m->num_joined += 3;
  return true;
}
