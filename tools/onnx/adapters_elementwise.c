/* ONNX's elementwise operators and conversions. */
#include "adapters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Before opset 7 the second of two inputs could begin at an axis of the first. */
static tn_tensor *aligned(onnx_node *c) {
  int64_t shape[TN_MAX_RANK], axis = node_int(c, "axis", -1);
  const onnx_tensor *b = &c->in[1];
  int32_t rank = c->in[0].rank;
  if (c->opset >= 7 || axis < 0 || axis + b->rank > rank) return c->x[1];
  for (int32_t i = 0; i < rank - (int32_t)axis; i++) shape[i] = i < b->rank ? b->shape[i] : 1;
  return node_reshape(c, c->x[1], rank - (int32_t)axis, shape);
}

/* Inputs in order, one output, no attributes. */
static tn_status plain(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  for (int i = 0; i < c->num_in; i++) {
    if (!node_needs(c, i)) return TN_OK;
    call_in(&k, i == 1 && c->num_in == 2 ? aligned(c) : c->x[i]);
  }
  return call_run(&k, c->y, 1);
}

/* ONNX's max, min, sum and mean take any number of inputs. */
static tn_status fold(onnx_node *c, const char *op) {
  tn_tensor *sum = NULL;
  tn_status status = TN_OK;
  for (int i = 0; i < c->num_in; i++)
    if (!node_needs(c, i)) return TN_OK;
  if (c->num_in == 1) op = "copy";
  for (int i = c->num_in > 1; i < c->num_in && status == TN_OK; i++) {
    tn_tensor *next = NULL;
    op_call k = call_begin(c, op);
    call_in(&k, c->num_in == 1 ? c->x[0] : i == 1 ? c->x[0] : sum);
    if (c->num_in > 1) call_in(&k, c->x[i]);
    status = call_run(&k, &next, 1);
    tn_tensor_release(sum);
    sum = next;
  }
  c->y[0] = sum;
  return status;
}

static tn_status mean_of_all(onnx_node *c, const char *op) {
  tn_status status = fold(c, op);
  if (status != TN_OK || *c->cannot) return status;
  tn_tensor *sum = node_keep(c, c->y[0]);
  c->y[0] = NULL;
  return node_give(c, 0, node_do(c, "mul", sum, node_constant(c, c->in[0].dtype, 1.0 / c->num_in)));
}

/* Attributes alpha and beta, where the operator has them under the names in `op`:
 * "name alpha=slope:0.01". */
static tn_status with_factor(onnx_node *c, const char *op) {
  char name[64], onnx[32], ours[32];
  double otherwise;
  if (sscanf(op, "%63s %31[^=]=%31[^:]:%lf", name, onnx, ours, &otherwise) != 4) abort();
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  call_set(&k, ours, 0, node_float(c, onnx, otherwise));
  return call_run(&k, c->y, 1);
}

/* The operator as it is has 1/6 and 1/2. */
static tn_status hard_sigmoid(onnx_node *c, const char *op) {
  double alpha = node_float(c, "alpha", 0.2), beta = node_float(c, "beta", 0.5);
  if (fabs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5) return plain(c, op);
  tn_tensor *y = node_do(c, "mul", c->x[0], node_constant(c, c->in[0].dtype, alpha));
  op_call k = call_begin(c, "clamp");
  call_in(&k, node_do(c, "add", y, node_constant(c, c->in[0].dtype, beta)));
  call_set(&k, "min", 0, 0);
  call_set(&k, "max", 0, 1);
  return node_give(c, 0, node_made(&k));
}

static tn_status selu(onnx_node *c, const char *op) {
  double alpha = node_float(c, "alpha", 1.67326319217681884765625);
  double gamma = node_float(c, "gamma", 1.05070102214813232421875);
  if (fabs(alpha - 1.67326319) < 1e-5 && fabs(gamma - 1.05070102) < 1e-5) return plain(c, op);
  op_call k = call_begin(c, "elu");
  call_in(&k, c->x[0]);
  call_set(&k, "alpha", 0, alpha);
  return node_give(c, 0, node_do(c, "mul", node_made(&k), node_constant(c, c->in[0].dtype, gamma)));
}

static tn_status gelu(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "tanh", 0, node_word(c, "approximate", "tanh"));
  return call_run(&k, c->y, 1);
}

static tn_status mod(onnx_node *c, const char *op) {
  return plain(c, node_int(c, "fmod", 0) ? "fmod" : op);
}

static tn_status shift(onnx_node *c, const char *op) {
  (void)op;
  return plain(c, node_word(c, "direction", "LEFT") ? "left_shift" : "right_shift");
}

/* The result has the base's type. */
static tn_status power(onnx_node *c, const char *op) {
  tn_dtype base = c->in[0].dtype, exponent = c->in[1].dtype;
  if (!node_needs(c, 1)) return TN_OK;
  if (node_known(c, 1) && c->in[1].elements == 1 && c->in[1].rank <= c->in[0].rank &&
      node_number(c, 1, 0) == 2)
    return node_give(c, 0, node_do(c, "mul", c->x[0], c->x[0]));
  if (base == exponent) return plain(c, op);
  bool is_float = TN_SET(base) & TN_SET_FLOAT;
  tn_dtype in = is_float ? base : TN_F64;
  tn_tensor *y = node_do(c, op, node_cast(c, c->x[0], in), node_cast(c, c->x[1], in));
  return node_give(c, 0, node_cast(c, y, base));
}

/* Bounds that are known are attributes of the call, others tensors. */
static tn_status clip(onnx_node *c, const char *op) {
  bool known = true;
  for (int i = 1; i < 3; i++) known = known && (!node_given(c, i) || node_known(c, i));
  if (known && c->in[0].dtype != TN_I64) {
    op_call k = call_begin(c, op);
    call_in(&k, c->x[0]);
    if (node_has(c, "min")) call_set(&k, "min", 0, node_float(c, "min", 0));
    if (node_has(c, "max")) call_set(&k, "max", 0, node_float(c, "max", 0));
    if (node_given(c, 1)) call_set(&k, "min", 0, node_number(c, 1, 0));
    if (node_given(c, 2)) call_set(&k, "max", 0, node_number(c, 2, 0));
    return call_run(&k, c->y, 1);
  }
  tn_tensor *y = c->x[0];
  if (node_given(c, 1)) y = node_do(c, "maximum", y, c->x[1]);
  if (node_given(c, 2)) y = node_do(c, "minimum", y, c->x[2]);
  return node_give(c, 0, y);
}

/* Cast names the type, CastLike has a tensor of it. */
static tn_status cast(onnx_node *c, const char *op) {
  tn_dtype to = c->num_in > 1 ? c->in[1].dtype : onnx_dtype((int32_t)node_int(c, "to", 0));
  if (!to) return node_cannot(c, "a conversion to a type that Tenon lacks");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "dtype", 0, to);
  call_set(&k, "overflow", 0, !node_int(c, "saturate", 1));
  return call_run(&k, c->y, 1);
}

static tn_status is_infinite(onnx_node *c, const char *op) {
  bool negative = node_int(c, "detect_negative", 1), positive = node_int(c, "detect_positive", 1);
  if (negative && positive) return plain(c, op);
  double bound = negative ? -(double)INFINITY : (double)INFINITY;
  if (!negative && !positive)
    return node_give(c, 0, node_filled(c, TN_BOOL, c->in[0].rank, c->in[0].shape, 0));
  return node_give(c, 0, node_do(c, "equal", c->x[0], node_constant(c, c->in[0].dtype, bound)));
}

const adapter_row adapters_elementwise[] = {
    {"Abs", plain, "abs"},
    {"Acos", plain, "acos"},
    {"Acosh", plain, "acosh"},
    {"Add", plain, "add"},
    {"And", plain, "logical_and"},
    {"Asin", plain, "asin"},
    {"Asinh", plain, "asinh"},
    {"Atan", plain, "atan"},
    {"Atanh", plain, "atanh"},
    {"BitShift", shift, NULL},
    {"BitwiseAnd", plain, "bitwise_and", 18},
    {"BitwiseNot", plain, "bitwise_not", 18},
    {"BitwiseOr", plain, "bitwise_or", 18},
    {"BitwiseXor", plain, "bitwise_xor", 18},
    {"Cast", cast, "cast"},
    {"CastLike", cast, "cast"},
    {"Ceil", plain, "ceil"},
    {"Clip", clip, "clamp"},
    {"Cos", plain, "cos"},
    {"Cosh", plain, "cosh"},
    {"Div", plain, "div"},
    {"Elu", with_factor, "elu alpha=alpha:1"},
    {"Equal", plain, "equal"},
    {"Erf", plain, "erf"},
    {"Exp", plain, "exp"},
    {"Floor", plain, "floor"},
    {"Gelu", gelu, "gelu", 20},
    {"Greater", plain, "greater"},
    {"GreaterOrEqual", plain, "greater_equal"},
    {"HardSigmoid", hard_sigmoid, "hardsigmoid"},
    {"HardSwish", plain, "hardswish"},
    {"Identity", plain, "copy"},
    {"IsInf", is_infinite, "isinf"},
    {"IsNaN", plain, "isnan"},
    {"LeakyRelu", with_factor, "leaky_relu alpha=slope:0.01"},
    {"Less", plain, "less"},
    {"LessOrEqual", plain, "less_equal"},
    {"Log", plain, "log"},
    {"Max", fold, "maximum"},
    {"Mean", mean_of_all, "add"},
    {"Min", fold, "minimum"},
    {"Mish", plain, "mish", 18},
    {"Mod", mod, "mod"},
    {"Mul", plain, "mul"},
    {"Neg", plain, "neg"},
    {"Not", plain, "logical_not"},
    {"Or", plain, "logical_or"},
    {"Pow", power, "pow"},
    {"Reciprocal", plain, "reciprocal"},
    {"Relu", plain, "relu"},
    {"Round", plain, "round"},
    {"Selu", selu, "selu"},
    {"Sigmoid", plain, "sigmoid"},
    {"Sign", plain, "sign"},
    {"Sin", plain, "sin"},
    {"Sinh", plain, "sinh"},
    {"Softplus", plain, "softplus"},
    {"Sqrt", plain, "sqrt"},
    {"Sub", plain, "sub"},
    {"Sum", fold, "add"},
    {"Tan", plain, "tan"},
    {"Tanh", plain, "tanh"},
    {"Where", plain, "where"},
    {"Xor", plain, "logical_xor"},
    {0},
};
