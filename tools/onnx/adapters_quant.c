/* ONNX's products by letters and of any operands, quantisation, and what is computed of quantised
 * numbers. */
#include "adapters.h"
#include "window.h"

#include <string.h>

/* --- products --- */

/* Operands of a product as matrices; a vector is a row of a or a column of b. */
typedef struct operands {
  tn_tensor *a, *b;
  bool row, column;
} operands;

static bool take_operands(onnx_node *c, int a, int b, operands *to) {
  if (!node_needs(c, a) || !node_needs(c, b)) return false;
  *to = (operands){c->x[a], c->x[b], c->in[a].rank == 1, c->in[b].rank == 1};
  if (c->in[a].rank < 1 || c->in[b].rank < 1)
    return node_cannot(c, "a product with a scalar"), false;
  if (to->row) to->a = node_reshape(c, to->a, 2, (const int64_t[]){1, c->in[a].shape[0]});
  if (to->column) to->b = node_reshape(c, to->b, 2, (const int64_t[]){c->in[b].shape[0], 1});
  return to->a && to->b;
}

/* The product without the axes that vectors were given. */
static tn_status give_product(onnx_node *c, const operands *o, tn_tensor *y) {
  int64_t shape[TN_MAX_RANK];
  int32_t rank = 0;
  if (!y || (!o->row && !o->column)) return node_give(c, 0, y);
  for (int32_t i = 0; i < tn_tensor_rank(y); i++) {
    const bool dropped =
        (o->row && i == tn_tensor_rank(y) - 2) || (o->column && i == tn_tensor_rank(y) - 1);
    if (!dropped) shape[rank++] = tn_tensor_shape(y)[i];
  }
  return node_give(c, 0, node_reshape(c, y, rank, shape));
}

static tn_tensor *product(onnx_node *c, const operands *o) {
  if (!(TN_SET(tn_tensor_dtype(o->a)) & TN_SET_FLOAT)) return node_do(c, "matmul_int", o->a, o->b);
  op_call k = call_begin(c, "matmul");
  call_in(&k, o->a);
  call_in(&k, o->b);
  call_in(&k, NULL);
  return node_made(&k);
}

static tn_status matmul(onnx_node *c, const char *op) {
  operands o;
  (void)op;
  return take_operands(c, 0, 1, &o) ? give_product(c, &o, product(c, &o)) : c->status;
}

static tn_status einsum(onnx_node *c, const char *op) {
  const Onnx__Attribute *equation = node_attribute(c, "equation");
  char text[512];
  (void)op;
  if (!equation || equation->s.len >= sizeof text)
    return node_cannot(c, "an equation of more than %zu letters, or none", sizeof text - 1);
  for (int i = 0; i < c->num_in; i++)
    if (!node_needs(c, i)) return TN_OK;
  memcpy(text, equation->s.data, equation->s.len);
  text[equation->s.len] = 0;
  return tn_einsum(c->stream, text, (const tn_tensor *const *)c->x, (size_t)c->num_in, &c->y[0]);
}

/* --- to integers and back --- */

static bool is_one(const onnx_node *c, int in) { return c->in[in].elements == 1; }

/* Where scales differ: one for all needs no axis. */
static void set_place(op_call *k, int scale) {
  onnx_node *c = k->c;
  const int64_t block = node_int(c, "block_size", 0);
  if (is_one(c, scale) && !block) return;
  call_set(k, "axis", 0, node_axis(c, node_int(c, "axis", 1), c->in[0].rank));
  call_set(k, "block", 0, (double)block);
}

/* The type that zero point or attribute say, else that of unsigned bytes. */
static tn_dtype quantised_type(onnx_node *c) {
  const int64_t number = node_int(c, "output_dtype", 0);
  const tn_dtype said = number ? onnx_dtype((int32_t)number) : TN_U8;
  const tn_dtype type = node_given(c, 2) ? c->in[2].dtype : said;
  if (!(TN_SET(type) & TN_SET_QUANT))
    node_cannot(c, "quantised numbers of a type other than u8, i8, i16 and 8-bit floats");
  return type;
}

/* What a quotient of both is computed in: the wider type, of the two 16-bit ones float32, and of
 * whole numbers float64, which holds them. */
static tn_dtype quotient_type(tn_dtype x, tn_dtype scale) {
  if (x == scale && TN_SET(x) & TN_SET_FLOAT) return x;
  if (!(TN_SET(x) & TN_SET_FLOAT) || x == TN_F64 || scale == TN_F64) return TN_F64;
  return TN_F32;
}

static tn_status quantize(onnx_node *c, const char *op) {
  if (!node_needs(c, 1)) return TN_OK;
  const tn_dtype type = quotient_type(c->in[0].dtype, c->in[1].dtype), to = quantised_type(c);
  op_call k = call_begin(c, op);
  call_in(&k, node_cast(c, c->x[0], type));
  call_in(&k, node_cast(c, c->x[1], type));
  call_in(&k, node_given(c, 2) ? c->x[2] : NULL);
  call_set(&k, "dtype", 0, to);
  call_set(&k, "overflow", 0, !node_int(c, "saturate", 1));
  set_place(&k, 1);
  return node_give(c, 0, node_made(&k));
}

static tn_status dequantize(onnx_node *c, const char *op) {
  if (!node_needs(c, 1)) return TN_OK;
  if (!(TN_SET(c->in[0].dtype) & TN_SET_DEQUANT))
    return node_cannot(c, "quantised numbers of a type other than u8, i8, i16, i32 and 8-bit "
                          "floats");
  op_call k = call_begin(c, op);
  for (int i = 0; i < 3; i++) call_in(&k, node_given(c, i) ? c->x[i] : NULL);
  set_place(&k, 1);
  return node_give(c, 0, node_made(&k));
}

static tn_status dynamic_quantize(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  return call_run(&k, c->y, 3);
}

/* --- products of quantised numbers --- */

/* Whether numbers of the rows of a or columns of b are as the operators have them: one, or a
 * vector. */
static bool is_simple(const onnx_node *c, int in) {
  return !node_given(c, in) || is_one(c, in) || c->in[in].rank == 1;
}

/* Numbers to be broadcast along a matrix: those of rows stand on its last axis but one. */
static tn_tensor *spread(onnx_node *c, int in, bool rows) {
  if (is_one(c, in)) return node_reshape(c, c->x[in], 0, NULL);
  if (!rows || c->in[in].rank != 1) return c->x[in];
  return node_reshape(c, c->x[in], 2, (const int64_t[]){c->in[in].shape[0], 1});
}

/* The differences from zero points, in 32 bits. */
static tn_tensor *centred(onnx_node *c, tn_tensor *x, int zero, bool rows) {
  x = node_cast(c, x, TN_I32);
  if (!node_given(c, zero)) return x;
  return node_do(c, "sub", x, node_cast(c, spread(c, zero, rows), TN_I32));
}

/* Where zero points differ from matrix to matrix. */
static tn_tensor *product_of_differences(onnx_node *c, const operands *o, int a_zero, int b_zero) {
  tn_tensor *a = centred(c, o->a, a_zero, true), *b = centred(c, o->b, b_zero, false);
  return b ? node_do(c, "matmul_int", a, b) : NULL;
}

static tn_status matmul_integer(onnx_node *c, const char *op) {
  operands o;
  if (!take_operands(c, 0, 1, &o)) return c->status;
  if (!is_simple(c, 2) || !is_simple(c, 3))
    return give_product(c, &o, product_of_differences(c, &o, 2, 3));
  const bool one = (!node_given(c, 2) || is_one(c, 2)) && (!node_given(c, 3) || is_one(c, 3));
  op_call k = call_begin(c, one ? op : "matmul_zero_points");
  call_in(&k, o.a);
  call_in(&k, o.b);
  for (int i = 2; i < 4; i++) call_in(&k, node_given(c, i) ? c->x[i] : NULL);
  return give_product(c, &o, node_made(&k));
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

static bool needs_all(onnx_node *c) {
  for (int i = A; i <= Y_ZERO; i++)
    if (!node_needs(c, i)) return false;
  return true;
}

/* The same by steps, as qlinear_matmul's maths has them: what is scaled is rounded by
 * quantize_linear with a scale of 1. */
static tn_status qlinear_by_steps(onnx_node *c, const operands *o) {
  tn_tensor *a = node_cast(c, spread(c, A_SCALE, true), TN_F32);
  tn_tensor *b = node_cast(c, spread(c, B_SCALE, false), TN_F32);
  tn_tensor *y = node_cast(c, spread(c, Y_SCALE, true), TN_F32);
  tn_tensor *sums = node_cast(c, product_of_differences(c, o, A_ZERO, B_ZERO), TN_F32);
  tn_tensor *scale = a && b && y ? node_do(c, "div", node_do(c, "mul", a, b), y) : NULL;
  if (!is_one(c, Y_ZERO)) return node_cannot(c, "zero points of a product that are several");
  if (!scale) return c->status;
  op_call k = call_begin(c, "quantize_linear");
  call_in(&k, node_do(c, "mul", sums, scale));
  call_in(&k, node_constant(c, TN_F32, 1));
  call_in(&k, c->x[Y_ZERO]);
  call_set(&k, "dtype", 0, c->in[Y_ZERO].dtype);
  return give_product(c, o, node_made(&k));
}

static tn_status qlinear_matmul(onnx_node *c, const char *op) {
  operands o;
  bool simple = true;
  if (!needs_all(c) || !take_operands(c, A, B, &o)) return c->status;
  for (int i = A_SCALE; i <= B_ZERO; i++) simple = simple && (i == B || is_simple(c, i));
  if (!simple || !is_one(c, Y_SCALE)) return qlinear_by_steps(c, &o);
  op_call k = call_begin(c, op);
  for (int i = A; i <= Y_ZERO; i++) {
    const bool scale = i == A_SCALE || i == B_SCALE || i == Y_SCALE;
    call_in(&k, i == A ? o.a : i == B ? o.b : scale ? node_cast(c, c->x[i], TN_F32) : c->x[i]);
  }
  return give_product(c, &o, node_made(&k));
}

/* --- convolutions of them --- */

static void set_all(op_call *k, const char *name, int first, int rank, const int64_t *numbers) {
  for (int i = 0; i < rank; i++) call_set(k, name, first + i, (double)numbers[i]);
}

/* The windows of a convolution whose weights are input `weight`. */
static bool take_windows(onnx_node *c, int weight, window *w) {
  if (!node_needs(c, weight) || !window_begin(c, w)) return false;
  if (c->in[weight].rank != c->in[0].rank)
    return node_cannot(c, "a kernel of %d axes for %d", c->in[weight].rank, c->in[0].rank), false;
  for (int i = 0; i < w->rank; i++) w->kernel[i] = c->in[weight].shape[i + 2];
  return take_padding(c, w);
}

static tn_status convolve(op_call *k, const window *w) {
  onnx_node *c = k->c;
  set_all(k, "stride", 0, w->rank, w->stride);
  set_all(k, "padding", 0, w->rank, w->before);
  set_all(k, "padding", w->rank, w->rank, w->after);
  set_all(k, "dilation", 0, w->rank, w->dilation);
  call_set(k, "groups", 0, (double)node_int(c, "group", 1));
  return node_give(c, 0, node_made(k));
}

static tn_status conv_integer(onnx_node *c, const char *op) {
  window w = {0};
  if (!take_windows(c, 1, &w)) return c->status;
  op_call k = call_begin(c, op);
  for (int i = 0; i < 4; i++) call_in(&k, node_given(c, i) ? c->x[i] : NULL);
  return convolve(&k, &w);
}

static tn_status qlinear_conv(onnx_node *c, const char *op) {
  window w = {0};
  if (!needs_all(c) || !take_windows(c, B, &w)) return c->status;
  op_call k = call_begin(c, op);
  for (int i = A; i <= BIAS; i++) call_in(&k, node_given(c, i) ? c->x[i] : NULL);
  return convolve(&k, &w);
}

const adapter_row adapters_quant[] = {
    {"ConvInteger", conv_integer, "conv_integer"},
    {"DequantizeLinear", dequantize, "dequantize_linear"},
    {"DynamicQuantizeLinear", dynamic_quantize, "dynamic_quantize_linear"},
    {"Einsum", einsum, ""},
    {"MatMul", matmul, "matmul"},
    {"MatMulInteger", matmul_integer, "matmul_integer"},
    {"QLinearConv", qlinear_conv, "qlinear_conv"},
    {"QLinearMatMul", qlinear_matmul, "qlinear_matmul"},
    {"QuantizeLinear", quantize, "quantize_linear"},
    {0},
};
