/* ONNX's elementwise operators and conversions. */
#include "adapters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Inputs in order, one output, no attributes. */
static tn_status plain(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  for (int i = 0; i < c->num_in; i++) call_in(&k, c->x[i]);
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

/* Some operators are built with constants that ONNX leaves open:
 * "name attribute=ours:ONNX's default". */
static tn_status with_constant(onnx_node *c, const char *op) {
  char name[64], onnx[2][32];
  double is[2], otherwise[2];
  int n = sscanf(op, "%63s %31[^=]=%lf:%lf %31[^=]=%lf:%lf", name, onnx[0], &is[0], &otherwise[0],
                 onnx[1], &is[1], &otherwise[1]);
  for (int i = 0; i < (n - 1) / 3; i++)
    if (fabs(node_float(c, onnx[i], otherwise[i]) - is[i]) > 1e-5 * fabs(is[i]))
      return node_cannot(c, "%s with another %s than %g", name, onnx[i], is[i]);
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  return call_run(&k, c->y, 1);
}

static tn_status mod(onnx_node *c, const char *op) {
  return plain(c, node_int(c, "fmod", 0) ? "fmod" : op);
}

static tn_status shift(onnx_node *c, const char *op) {
  (void)op;
  return plain(c, node_word(c, "direction", "LEFT") ? "left_shift" : "right_shift");
}

static tn_status power(onnx_node *c, const char *op) {
  if (c->in[0].dtype != c->in[1].dtype) return node_cannot(c, "pow of two types");
  return plain(c, op);
}

static tn_status clip(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  if (node_has(c, "min")) call_set(&k, "min", 0, node_float(c, "min", 0));
  if (node_has(c, "max")) call_set(&k, "max", 0, node_float(c, "max", 0));
  if (c->num_in > 1 && c->in[1].present) call_set(&k, "min", 0, node_number(c, 1, 0));
  if (c->num_in > 2 && c->in[2].present) call_set(&k, "max", 0, node_number(c, 2, 0));
  return call_run(&k, c->y, 1);
}

/* Cast names the type, CastLike has a tensor of it. */
static tn_status cast(onnx_node *c, const char *op) {
  tn_dtype to = c->num_in > 1 ? c->in[1].dtype : onnx_dtype((int32_t)node_int(c, "to", 0));
  if (!to) return node_cannot(c, "a conversion to a type that Tenon lacks");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "dtype", 0, to);
  return call_run(&k, c->y, 1);
}

static tn_status is_infinite(onnx_node *c, const char *op) {
  if (!node_int(c, "detect_negative", 1) || !node_int(c, "detect_positive", 1))
    return node_cannot(c, "isinf of one sign");
  return plain(c, op);
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
    {"Greater", plain, "greater"},
    {"GreaterOrEqual", plain, "greater_equal"},
    {"HardSigmoid", with_constant, "hardsigmoid alpha=0.16666667:0.2 beta=0.5:0.5"},
    {"HardSwish", plain, "hardswish"},
    {"Identity", plain, "copy"},
    {"IsInf", is_infinite, "isinf"},
    {"IsNaN", plain, "isnan"},
    {"LeakyRelu", with_factor, "leaky_relu alpha=slope:0.01"},
    {"Less", plain, "less"},
    {"LessOrEqual", plain, "less_equal"},
    {"Log", plain, "log"},
    {"Max", fold, "maximum"},
    {"Min", fold, "minimum"},
    {"Mod", mod, "mod"},
    {"Mul", plain, "mul"},
    {"Neg", plain, "neg"},
    {"Not", plain, "logical_not"},
    {"Or", plain, "logical_or"},
    {"Pow", power, "pow"},
    {"Reciprocal", plain, "reciprocal"},
    {"Relu", plain, "relu"},
    {"Round", plain, "round"},
    {"Selu", with_constant, "selu alpha=1.67326:1.67326 gamma=1.0507:1.0507"},
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
