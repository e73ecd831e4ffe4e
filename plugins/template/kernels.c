/*
 * The kernels' host side: functions that turn a call into a launch. The dispatcher has checked
 * shapes, types and aliasing; nothing is checked again. A function returns when the work is in
 * the queue, not when it is done.
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

static tn_status launch(const tn_kernel_args *args, const void *params, size_t bytes) {
  const sim_row *row = args->kernel->user;
  return sim_check(args->host, chip_launch(args->queue, row->program, params, bytes),
                   args->kernel->name);
}

/* -------------------------------------------------------------------- views --- */

/* The DLTensor, its shape and its strides are gone when the call returns: all is copied. */
static sim_view view_of(const DLTensor *t) {
  sim_view v = {.data = (chip_address)(uintptr_t)t->data + t->byte_offset,
                .dtype = tn_dtype_of(t->dtype),
                .rank = t->ndim};
  for (int32_t i = 0; i < t->ndim; ++i) {
    v.shape[i] = t->shape[i];
    v.strides[i] = t->strides[i];
  }
  return v;
}

/* Takes an axis off a view. */
static void drop_axis(sim_view *v, int32_t axis) {
  size_t behind = (size_t)(v->rank - axis - 1);
  memmove(v->shape + axis, v->shape + axis + 1, behind * sizeof *v->shape);
  memmove(v->strides + axis, v->strides + axis + 1, behind * sizeof *v->strides);
  v->rank--;
}

static void append_axis(sim_view *v, int64_t size, int64_t stride) {
  v->shape[v->rank] = size;
  v->strides[v->rank++] = stride;
}

/* ------------------------------------------------------------------ kernels --- */

tn_status sim_run_map(const tn_kernel_args *args) {
  sim_map_params p = {.y = view_of(args->out[0]), .a = view_of(args->in[0])};
  p.b = args->num_in > 1 ? view_of(args->in[1]) : p.a;
  return launch(args, &p, sizeof p);
}

static double saturate(double value, double low, double high) {
  return value != value ? 0 : value < low ? low : value > high ? high : trunc(value);
}

/* The value as it lies in memory. Types of which the chip computes nothing can be filled and
 * copied too, as bytes; binary16 would want a conversion, and its row leaves it out. */
static uint64_t element_of(tn_dtype dtype, double value) {
  uint64_t element = 0;
  float narrow = (float)value;
  switch (dtype) {
  case TN_BOOL:
    return value != 0;
  case TN_U8:
    return (uint64_t)saturate(value, 0, UINT8_MAX);
  case TN_I8:
    return (uint64_t)(int64_t)saturate(value, INT8_MIN, INT8_MAX);
  case TN_I16:
    return (uint64_t)(int64_t)saturate(value, INT16_MIN, INT16_MAX);
  case TN_I32:
    return (uint64_t)(int64_t)saturate(value, INT32_MIN, INT32_MAX);
  case TN_I64: /* the greatest double is one too large */
    return value >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)saturate(value, -0x1p63, 0x1p63);
  case TN_F32:
    return memcpy(&element, &narrow, sizeof narrow), element;
  default:
    return memcpy(&element, &value, sizeof value), element;
  }
}

tn_status sim_run_fill(const tn_kernel_args *args) {
  const tn_fill_attrs *attrs = args->attrs;
  sim_fill_params p = {.y = view_of(args->out[0])};
  p.element = element_of(p.y.dtype, attrs->value);
  return launch(args, &p, sizeof p);
}

/* The axes that stay, in order, then those that go. Hosts of before passed on axes that are counted
 * from the end. */
tn_status sim_run_sum(const tn_kernel_args *args) {
  const tn_sum_attrs *attrs = args->attrs;
  sim_view x = view_of(args->in[0]);
  uint32_t reduced = attrs->axes.count ? 0 : ~0u;
  for (int32_t i = 0; i < attrs->axes.count; ++i)
    reduced |= 1u << (attrs->axes.axis[i] < 0 ? attrs->axes.axis[i] + x.rank : attrs->axes.axis[i]);
  sim_sum_params p = {.y = view_of(args->out[0]), .x = x, .count = 1};
  p.x.rank = 0;
  for (int32_t i = 0; i < x.rank; ++i)
    if (!(reduced >> i & 1)) append_axis(&p.x, x.shape[i], x.strides[i]);
  for (int32_t i = 0; i < x.rank; ++i)
    if (reduced >> i & 1) {
      append_axis(&p.x, x.shape[i], x.strides[i]);
      p.count *= x.shape[i];
    }
  return launch(args, &p, sizeof p);
}

static int32_t softmax_axis(const tn_kernel_args *args) {
  const tn_softmax_attrs *attrs = args->attrs;
  return (int32_t)(attrs->axis < 0 ? attrs->axis + args->in[0]->ndim : attrs->axis);
}

tn_status sim_softmax_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)args->in[0]->shape[softmax_axis(args)] * sizeof(double);
  return TN_OK;
}

tn_status sim_run_softmax(const tn_kernel_args *args) {
  int32_t axis = softmax_axis(args);
  sim_softmax_params p = {.y = view_of(args->out[0]), .x = view_of(args->in[0])};
  p.scratch = (chip_address)(uintptr_t)args->workspace;
  p.size = p.x.shape[axis];
  p.x_stride = p.x.strides[axis];
  p.y_stride = p.y.strides[axis];
  drop_axis(&p.x, axis);
  drop_axis(&p.y, axis);
  return launch(args, &p, sizeof p);
}

bool sim_matmul_supports(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  return args->out[0]->ndim < TN_MAX_RANK &&
         (attrs->activation == TN_ACTIVATION_NONE || attrs->activation == TN_ACTIVATION_RELU);
}

/* An operand's view as [batch of y..., i, j, k], with stride 0 where it is repeated. */
static sim_view expand_operand(const DLTensor *t, const sim_view *y, bool transposed, bool left) {
  sim_view v = view_of(t), out = {.data = v.data, .dtype = v.dtype};
  int32_t row = v.rank - 2 + transposed, column = v.rank - 1 - transposed;
  int32_t kept = left ? row : column, summed = left ? column : row;
  for (int32_t i = 0; i < y->rank - 2; ++i) {
    int32_t from = i - (y->rank - v.rank);
    append_axis(&out, y->shape[i], from >= 0 && v.shape[from] > 1 ? v.strides[from] : 0);
  }
  append_axis(&out, y->shape[y->rank - 2], left ? v.strides[kept] : 0);
  append_axis(&out, y->shape[y->rank - 1], left ? 0 : v.strides[kept]);
  append_axis(&out, v.shape[summed], v.strides[summed]);
  return out;
}

tn_status sim_run_matmul(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  sim_matmul_params p = {.y = view_of(args->out[0])};
  p.a = expand_operand(args->in[0], &p.y, attrs->trans_a != 0, true);
  p.b = expand_operand(args->in[1], &p.y, attrs->trans_b != 0, false);
  p.relu = attrs->activation == TN_ACTIVATION_RELU;
  p.has_bias = args->in[2] != NULL; /* optional inputs that are not there are NULL */
  if (p.has_bias) {
    sim_view bias = view_of(args->in[2]);
    p.bias = p.y;
    p.bias.data = bias.data;
    memset(p.bias.strides, 0, sizeof p.bias.strides);
    p.bias.strides[p.y.rank - 1] = bias.strides[0];
  }
  return launch(args, &p, sizeof p);
}
