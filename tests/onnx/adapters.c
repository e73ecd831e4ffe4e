/* How ONNX's operators are expressed by Tenon's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_case.h"

/* Inputs in order, one output, no attributes. */
static tn_status plain(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  for (int i = 0; i < c->num_in; i++) call_in(&k, c->x[i]);
  return call_run(&k, c->y, 1);
}

/* ONNX's max, min, sum and mean take any number of inputs. */
static tn_status fold(node_case *c, const char *op) {
  tn_tensor *sum = NULL;
  tn_status status = TN_OK;
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
static tn_status with_factor(node_case *c, const char *op) {
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
static tn_status with_constant(node_case *c, const char *op) {
  char name[64], onnx[2][32];
  double is[2], otherwise[2];
  int n = sscanf(op, "%63s %31[^=]=%lf:%lf %31[^=]=%lf:%lf", name, onnx[0], &is[0], &otherwise[0],
                 onnx[1], &is[1], &otherwise[1]);
  for (int i = 0; i < (n - 1) / 3; i++)
    if (fabs(node_float(c, onnx[i], otherwise[i]) - is[i]) > 1e-5 * fabs(is[i]))
      return node_skip(c, "%s with another %s than %g", name, onnx[i], is[i]);
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  return call_run(&k, c->y, 1);
}

static tn_status mod(node_case *c, const char *op) {
  return plain(c, node_int(c, "fmod", 0) ? "fmod" : op);
}

static tn_status shift(node_case *c, const char *op) {
  (void)op;
  return plain(c, node_word(c, "direction", "LEFT") ? "left_shift" : "right_shift");
}

static tn_status power(node_case *c, const char *op) {
  if (c->in[0].dtype != c->in[1].dtype) return node_skip(c, "pow of two types");
  return plain(c, op);
}

static tn_status clip(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  if (c->num_in > 1 && c->in[1].present) call_set(&k, "min", 0, node_number(c, 1, 0));
  if (c->num_in > 2 && c->in[2].present) call_set(&k, "max", 0, node_number(c, 2, 0));
  return call_run(&k, c->y, 1);
}

static tn_status cast(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "dtype", 0, c->want[0].dtype);
  return call_run(&k, c->y, 1);
}

static tn_status is_infinite(node_case *c, const char *op) {
  if (!node_int(c, "detect_negative", 1) || !node_int(c, "detect_positive", 1))
    return node_skip(c, "isinf of one sign");
  return plain(c, op);
}

/* Axes are an attribute or the second input; "norm 1" sets attribute ord. */
static tn_status reduce(node_case *c, const char *op) {
  const int64_t *axes;
  char name[64];
  double ord = 0;
  int words = sscanf(op, "%63s %lf", name, &ord), count = node_ints(c, "axes", &axes);
  bool given = c->num_in > 1 && c->in[1].present;
  if (given) count = (int)c->in[1].elements;
  if (!count && node_int(c, "noop_with_empty_axes", 0)) {
    op_call copy = call_begin(c, "copy");
    call_in(&copy, c->x[0]);
    return call_run(&copy, c->y, 1);
  }
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  for (int i = 0; i < count; i++)
    call_set(&k, "axes", i, given ? (double)node_value(c, 1, i) : (double)axes[i]);
  call_set(&k, "keepdims", 0, (double)node_int(c, "keepdims", 1));
  if (words == 2) call_set(&k, "ord", 0, ord);
  return call_run(&k, c->y, 1);
}

static tn_status arg_reduce(node_case *c, const char *op) {
  if (node_int(c, "select_last_index", 0)) return node_skip(c, "the last of equal maxima");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", 0));
  call_set(&k, "keepdims", 0, (double)node_int(c, "keepdims", 1));
  return call_run(&k, c->y, 1);
}

static tn_status along_axis(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", -1));
  return call_run(&k, c->y, 1);
}

static tn_status scan(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_value(c, 1, 0));
  call_set(&k, "exclusive", 0, (double)node_int(c, "exclusive", 0));
  call_set(&k, "reverse", 0, (double)node_int(c, "reverse", 0));
  return call_run(&k, c->y, 1);
}

static tn_status topk(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "k", 0, (double)node_value(c, 1, 0));
  call_set(&k, "axis", 0, (double)node_int(c, "axis", -1));
  call_set(&k, "largest", 0, (double)node_int(c, "largest", 1));
  return call_run(&k, c->y, 2);
}

static tn_status transpose(node_case *c, const char *op) {
  const int64_t *perm;
  int32_t axes[16];
  int count = node_ints(c, "perm", &perm);
  for (int i = 0; i < c->in[0].rank; i++)
    axes[i] = count ? (int32_t)perm[i] : c->in[0].rank - 1 - i;
  tn_tensor *view = NULL;
  tn_status status = tn_tensor_permute(c->x[0], axes, &view);
  if (status != TN_OK) return status;
  op_call k = call_begin(c, op);
  call_in(&k, view);
  status = call_run(&k, c->y, 1);
  tn_tensor_release(view);
  return status;
}

/* Operators that only give the elements another shape. */
static tn_status reshape(node_case *c, const char *op) {
  (void)op;
  return tn_tensor_reshape(c->x[0], c->want[0].rank, c->want[0].shape, &c->y[0]);
}

static tn_status gemm(node_case *c, const char *op) {
  bool bias = c->num_in > 2 && c->in[2].present;
  if (node_float(c, "alpha", 1) != 1 || node_float(c, "beta", 1) != 1)
    return node_skip(c, "gemm with factors");
  if (bias && (c->in[2].rank != 1 || c->in[2].shape[0] != c->want[0].shape[1]))
    return node_skip(c, "gemm with a matrix as bias");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, bias ? c->x[2] : NULL);
  call_set(&k, "trans_a", 0, (double)node_int(c, "transA", 0));
  call_set(&k, "trans_b", 0, (double)node_int(c, "transB", 0));
  return call_run(&k, c->y, 1);
}

static tn_status matmul(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, NULL);
  return call_run(&k, c->y, 1);
}

/* Inputs in order, those that are missing included; one output, no attributes. */
static tn_status optional_inputs(node_case *c, const char *op) {
  op_call k = call_begin(c, op);
  for (uint32_t i = 0; k.op && i < k.op->num_args - 1; i++)
    call_in(&k, (int)i < c->num_in ? c->x[i] : NULL);
  return call_run(&k, c->y, 1);
}

#include "adapters_nn.inc"

static const struct {
  const char *onnx;
  node_adapter adapter;
  const char *op;
} table[] = {
    {"Abs", plain, "abs"},
    {"Acos", plain, "acos"},
    {"Acosh", plain, "acosh"},
    {"Add", plain, "add"},
    {"And", plain, "logical_and"},
    {"ArgMax", arg_reduce, "argmax"},
    {"ArgMin", arg_reduce, "argmin"},
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
    {"CumSum", scan, "cumsum"},
    {"Div", plain, "div"},
    {"Elu", with_factor, "elu alpha=alpha:1"},
    {"Equal", plain, "equal"},
    {"Erf", plain, "erf"},
    {"Exp", plain, "exp"},
    {"Flatten", reshape, NULL},
    {"Floor", plain, "floor"},
    {"Gemm", gemm, "matmul"},
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
    {"LogSoftmax", along_axis, "log_softmax"},
    {"MatMul", matmul, "matmul"},
    {"MatMulInteger", optional_inputs, "matmul_integer"},
    {"Max", fold, "maximum"},
    {"Min", fold, "minimum"},
    {"Mod", mod, "mod"},
    {"Mul", plain, "mul"},
    {"Neg", plain, "neg"},
    {"Not", plain, "logical_not"},
    {"Or", plain, "logical_or"},
    {"Pow", power, "pow"},
    {"Reciprocal", plain, "reciprocal"},
    {"ReduceL1", reduce, "norm 1"},
    {"ReduceL2", reduce, "norm 2"},
    {"ReduceLogSumExp", reduce, "logsumexp"},
    {"ReduceMax", reduce, "max"},
    {"ReduceMean", reduce, "mean"},
    {"ReduceMin", reduce, "min"},
    {"ReduceProd", reduce, "prod"},
    {"ReduceSum", reduce, "sum"},
    {"Relu", plain, "relu"},
    {"Reshape", reshape, NULL},
    {"Round", plain, "round"},
    {"Selu", with_constant, "selu alpha=1.67326:1.67326 gamma=1.0507:1.0507"},
    {"Sigmoid", plain, "sigmoid"},
    {"Sign", plain, "sign"},
    {"Sin", plain, "sin"},
    {"Sinh", plain, "sinh"},
    {"Softmax", along_axis, "softmax"},
    {"Softplus", plain, "softplus"},
    {"Sqrt", plain, "sqrt"},
    {"Squeeze", reshape, NULL},
    {"Sub", plain, "sub"},
    {"Sum", fold, "add"},
    {"Tan", plain, "tan"},
    {"Tanh", plain, "tanh"},
    {"TopK", topk, "topk"},
    {"Transpose", transpose, "copy"},
    {"Unsqueeze", reshape, NULL},
    {"Where", plain, "where"},
    {"Xor", plain, "logical_xor"},
    ADAPTERS_NN,
};

node_adapter node_adapter_find(const char *op_type, const char **op) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].onnx, op_type)) return *op = table[i].op, table[i].adapter;
  return NULL;
}
