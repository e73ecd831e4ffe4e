/*
 * What nodes cost, as bytes that could be moved in the time: memory read and written, and what is
 * computed, by how a processor's arithmetic compares to its memory. Good to a factor of two or so,
 * which is enough to tell a product from a bias.
 */
#include "graph/passes/schedule.h"
#include "tenon/ops.h"

/* How dear a call is whatever it does, in host memory and elsewhere: a launch takes as long as
 * moving megabytes. */
enum { CALL_BYTES = 16 << 10, LAUNCH_BYTES = 2 << 20 };

static uint64_t elements(const record_value *v) {
  uint64_t count = 1;
  for (int32_t i = 0; i < v->rank; ++i) count *= (uint64_t)v->shape[i];
  return count;
}

static const record_value *value_of(const record *r, uint32_t value) {
  return value == TN_GRAPH_NONE ? NULL : &r->values[value];
}

static const record_value *result(const record *r, const record_node *n) {
  return n->num_out ? value_of(r, n->out[0]) : NULL;
}

static const record_value *operand(const record *r, const record_node *n, uint32_t i) {
  return i < record_inputs(n) ? value_of(r, n->in[i]) : NULL;
}

static uint64_t bytes_moved(const record *r, const record_node *n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i)
    if (n->in[i] != TN_GRAPH_NONE) bytes += record_bytes(&r->values[n->in[i]]);
  for (uint32_t i = 0; i < n->num_out; ++i)
    if (n->out[i] != TN_GRAPH_NONE) bytes += record_bytes(&r->values[n->out[i]]);
  return bytes;
}

/* Multiplications and additions behind each element of `of`: the weight's, but for its first axis.
 */
static uint64_t window_work(const record_value *of, const record_value *weight) {
  if (!of || !weight || weight->rank < 2 || !weight->shape[0]) return 0;
  return 2 * elements(of) * (elements(weight) / (uint64_t)weight->shape[0]);
}

static uint64_t matmul_work(const record *r, const record_node *n) {
  const record_value *a = operand(r, n, 0), *y = result(r, n);
  if (!a || !y || a->rank < 1) return 0;
  bool turned = n->op->id == TN_OP_MATMUL && ((const tn_matmul_attrs *)n->attrs)->trans_a;
  return 2 * elements(y) * (uint64_t)a->shape[a->rank - (turned && a->rank > 1 ? 2 : 1)];
}

/* Scores and their sums over the values; of the gradient five products in place of two. */
static uint64_t attention_work(const record *r, const record_node *n, uint32_t first,
                               uint64_t times) {
  const record_value *q = operand(r, n, first), *k = operand(r, n, first + 1);
  return q && k && k->rank > 1 ? times * elements(q) * (uint64_t)k->shape[k->rank - 2] : 0;
}

static uint64_t product_work(const record *r, const record_node *n) {
  switch (n->op->shape) {
  case TN_SHAPE_MATMUL:
  case TN_SHAPE_MATMUL_INTEGER:
    return matmul_work(r, n);
  case TN_SHAPE_CONV2D:
  case TN_SHAPE_CONV2D_ADD:
  case TN_SHAPE_CONV:
    return window_work(result(r, n), operand(r, n, 1));
  case TN_SHAPE_CONV2D_GRAD_INPUT:
  case TN_SHAPE_CONV_GRAD_INPUT:
  case TN_SHAPE_CONV_TRANSPOSE:
    return window_work(operand(r, n, 0), operand(r, n, 1));
  case TN_SHAPE_CONV2D_GRAD_WEIGHT:
  case TN_SHAPE_CONV_GRAD_WEIGHT:
    return window_work(operand(r, n, 0), result(r, n));
  case TN_SHAPE_ATTENTION:
    return attention_work(r, n, 0, 4);
  case TN_SHAPE_ATTENTION_GRAD:
    return attention_work(r, n, 1, 10);
  default:
    return 0;
  }
}

/* Elementwise functions whose kernels evaluate a series for each element. */
static bool is_steep(const record_node *n) {
  switch (n->op->id) {
  case TN_OP_ADD:
  case TN_OP_SUB:
  case TN_OP_MUL:
  case TN_OP_DIV:
  case TN_OP_NEG:
  case TN_OP_ABS:
  case TN_OP_SQUARE:
  case TN_OP_SQRT:
  case TN_OP_MAXIMUM:
  case TN_OP_MINIMUM:
  case TN_OP_CLAMP:
  case TN_OP_WHERE:
  case TN_OP_RELU:
  case TN_OP_RELU_GRAD:
  case TN_OP_LEAKY_RELU:
  case TN_OP_CAST:
  case TN_OP_COPY:
    return false;
  default:
    return n->op->flags & TN_OPERATOR_ELEMENTWISE;
  }
}

/* Operations of products in the time of a byte. A processor's cores do some; accelerators ten in
 * float32, and by their matrix units a hundred and more in 16 bits: an H200 multiplies 600e12 times
 * a second in bfloat16 and 50e12 times in float32, and moves 4.2e12 bytes. */
static uint64_t work_per_byte(const record *r, const record_node *n, const tn_device *device) {
  const record_value *y = result(r, n);
  if (device->host_memory) return 6;
  return y && tn_dtype_size(y->dtype) <= 2 ? 128 : 12;
}

uint64_t call_cost(const tn_device *device) {
  return device->host_memory ? CALL_BYTES : LAUNCH_BYTES;
}

uint64_t node_cost(const record *r, const record_node *n, const tn_device *device) {
  const uint64_t steep = device->host_memory ? 12 : 1;
  uint64_t bytes = bytes_moved(r, n);
  if (is_steep(n)) bytes *= steep;
  return call_cost(device) + bytes + product_work(r, n) / work_per_byte(r, n, device);
}

bool node_is_repeatable(const record_node *n) {
  if (n->num_inout || n->op->flags & TN_OPERATOR_DATA_DEPENDENT) return false;
  if (n->op->flags & TN_OPERATOR_ELEMENTWISE) return true;
  switch (n->op->shape) {
  case TN_SHAPE_SAME:
  case TN_SHAPE_BROADCAST:
  case TN_SHAPE_MATMUL:
  case TN_SHAPE_MATMUL_INTEGER:
  case TN_SHAPE_CONV2D:
  case TN_SHAPE_CONV2D_ADD:
  case TN_SHAPE_CONV:
  case TN_SHAPE_POOL2D:
  case TN_SHAPE_POOL:
  case TN_SHAPE_ADAPTIVE_POOL:
  case TN_SHAPE_LAYER_NORM:
  case TN_SHAPE_GROUP_NORM:
  case TN_SHAPE_SOFTMAX:
  case TN_SHAPE_PAD:
  case TN_SHAPE_TILE:
  case TN_SHAPE_REPEAT:
  case TN_SHAPE_FLIP:
  case TN_SHAPE_ROLL:
  case TN_SHAPE_GATHER:
  case TN_SHAPE_TAKE_ALONG_AXIS:
  case TN_SHAPE_EMBEDDING:
  case TN_SHAPE_ROPE:
  case TN_SHAPE_CONCAT:
  case TN_SHAPE_STACK:
  case TN_SHAPE_TRIANGLE:
    return true;
  default:
    return false;
  }
}
