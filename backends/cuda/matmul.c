/*
 * Matrix products by cuBLASLt. cuBLASLt thinks in columns, so the row-major product
 * y = a b is asked for as y' = b' a': the left operand is b, the right one a, and the
 * bias, one value per column of y, is one per row of y', which is its bias epilogue.
 * Its other epilogues take NaN for 0 and approximate, so activations are a pass of our own
 * unless the host asked for fast mathematics.
 */
#include <string.h>

#include "backends/cuda/product.h"
#include "kernels/cuda/base/layout.h"

enum { most_alignment = 16 };

/* A call: the product, and the batch axes that remain around it (operands y, a, b). */
typedef struct product_call {
  product product;
  cuda_shape outer;
} product_call;

/* ---------------------------------------------------------------- geometry --- */

/* Whether a rows-by-columns matrix of these strides has unit stride along an axis and
 * no overlap along the other. */
static bool matrix_of(operand *o, int64_t rows, int64_t columns, int64_t row_stride,
                      int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    *o = (operand){.ld = rows == 1 ? columns : row_stride, .trans = 0};
    return true;
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
    *o = (operand){.ld = columns == 1 ? rows : column_stride, .trans = 1};
    return true;
  }
  return false;
}

static int64_t stride_of(const DLTensor *t, int from_last) {
  return t->strides[t->ndim - from_last];
}

/* Batch stride of an operand for axis d of y's batch; 0 where it broadcasts. */
static int64_t batch_stride(const DLTensor *t, const DLTensor *y, int d) {
  int axis = d - (y->ndim - t->ndim);
  return axis < 0 || t->shape[axis] == 1 ? 0 : t->strides[axis];
}

static void batch_of(cuda_shape *s, const DLTensor *y, const DLTensor *a, const DLTensor *b) {
  if (y->ndim == 2) { /* the commonest, and on the way of every call */
    s->rank = 1;
    s->size[0] = 1;
    for (int k = 0; k < 3; k++) s->stride[k][0] = 1;
    return;
  }
  s->rank = y->ndim - 2;
  for (int d = 0; d < s->rank; d++) {
    s->size[d] = y->shape[d];
    s->stride[0][d] = y->strides[d];
    s->stride[1][d] = batch_stride(a, y, d);
    s->stride[2][d] = batch_stride(b, y, d);
  }
  cuda_shape_simplify(s, 3, true);
}

/* Takes the innermost batch axis into the product: as more rows where b is the same
 * for all of it and rows follow on, else as cuBLASLt's batch. */
static void take_batch(product_call *call) {
  product *p = &call->product;
  int last = call->outer.rank - 1;
  int64_t size = call->outer.size[last], y = call->outer.stride[0][last],
          a = call->outer.stride[1][last], b = call->outer.stride[2][last];
  p->batch = 1;
  if (size == 1) return;
  call->outer.size[last] = 1;
  if (b == 0 && !p->a.trans && p->m == 1 && a >= p->k && y >= p->n) {
    p->a.ld = a;
    p->y.ld = y;
    p->m = size;
  } else if (b == 0 && !p->a.trans && a == p->m * p->a.ld && y == p->m * p->y.ld) {
    p->m *= size;
  } else {
    p->batch = size;
    p->y.step = y;
    p->a.step = a;
    p->b.step = b;
  }
}

static int32_t alignment_of(const DLTensor *t, const cuda_shape *outer, int k) {
  uint64_t bits = (uint64_t)(uintptr_t)t->data | most_alignment;
  for (int d = 0; outer && d < outer->rank; d++) {
    if (outer->size[d] > 1) bits |= (uint64_t)outer->stride[k][d] * (t->dtype.bits / 8);
  }
  return (int32_t)(bits & -bits);
}

/* What a fast product's epilogue may compute, TN_ACTIVATION_NONE for nothing. */
static int32_t fused_activation(const tn_kernel_args *args) {
  int64_t activation = ((const tn_matmul_attrs *)args->attrs)->activation;
  bool has = activation == TN_ACTIVATION_RELU || activation == TN_ACTIVATION_GELU_TANH;
  bool fast = args->host->math == TN_MATH_FAST && cuda_dtype(args->out[0]) != TN_F64;
  return has && fast ? (int32_t)activation : TN_ACTIVATION_NONE;
}

/* False where cuBLASLt cannot walk an operand; contiguous ones it always can. */
static bool describe(product_call *call, const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *bias = args->in[2], *y = args->out[0];
  const tn_matmul_attrs *attrs = args->attrs;
  product *p = &call->product;
  memset(p, 0, sizeof *p); /* its padding is part of a plan's key */
  int ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
  p->dtype = cuda_dtype(y);
  p->math = p->dtype == TN_F32 ? (int32_t)args->host->math : 0;
  p->fused = fused_activation(args);
  p->m = y->shape[y->ndim - 2];
  p->n = y->shape[y->ndim - 1];
  p->k = a->shape[a->ndim - (ta ? 2 : 1)];
  if (!matrix_of(&p->a, p->m, p->k, stride_of(a, ta ? 1 : 2), stride_of(a, ta ? 2 : 1)) ||
      !matrix_of(&p->b, p->k, p->n, stride_of(b, tb ? 1 : 2), stride_of(b, tb ? 2 : 1)) ||
      !matrix_of(&p->y, p->m, p->n, stride_of(y, 2), stride_of(y, 1)) || p->y.trans) {
    return false;
  }
  batch_of(&call->outer, y, a, b);
  take_batch(call);
  p->y.align = alignment_of(y, &call->outer, 0);
  p->a.align = alignment_of(a, &call->outer, 1);
  p->b.align = alignment_of(b, &call->outer, 2);
  if (bias) {
    p->has_bias = 1;
    p->bias.align = alignment_of(bias, NULL, 0);
    if (bias->shape[0] > 1 && bias->strides[0] != 1) return false;
  }
  return true;
}

static bool is_empty(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *y = args->out[0];
  const tn_matmul_attrs *attrs = args->attrs;
  return cuda_size(y, 0, y->ndim) == 0 || a->shape[a->ndim - (attrs->trans_a ? 2 : 1)] == 0;
}

bool cuda_matmul_supports(const tn_kernel_args *args) {
  product_call call;
  return !is_empty(args) && describe(&call, args);
}

/* ----------------------------------------------------------------- running --- */

/* y = bias in every row, or 0. */
static tn_status fill_with_bias(const tn_kernel_args *args) {
  const DLTensor *bias = args->in[2];
  tn_kernel_args sub = *args;
  if (!bias) {
    tn_fill_attrs zero = TN_FILL_DEFAULTS;
    sub.attrs = &zero;
    return cuda_run_fill(&sub);
  }
  int64_t strides[TN_MAX_RANK] = {0};
  strides[args->out[0]->ndim - 1] = bias->strides[0];
  DLTensor expanded = *bias;
  expanded.ndim = args->out[0]->ndim;
  expanded.shape = args->out[0]->shape;
  expanded.strides = strides;
  const DLTensor *in[] = {&expanded};
  sub.in = in;
  sub.num_in = 1;
  sub.attrs = NULL;
  return cuda_run_copy(&sub);
}

/* Every product of the batch axes that remain, in row-major order. */
static tn_status multiply_all(const tn_kernel_args *args, const product_plan *plan,
                              const cuda_shape *outer) {
  size_t bytes = args->out[0]->dtype.bits / 8;
  const DLTensor *tensors[] = {args->out[0], args->in[0], args->in[1]};
  int64_t count = cuda_shape_count(outer);
  for (int64_t i = 0; i < count; i++) {
    unsigned char *at[3];
    for (int k = 0; k < 3; k++) {
      int64_t rest = i, offset = 0;
      for (int d = outer->rank - 1; d >= 0; d--) {
        offset += rest % outer->size[d] * outer->stride[k][d];
        rest /= outer->size[d];
      }
      at[k] = (unsigned char *)tensors[k]->data + offset * (int64_t)bytes;
    }
    tn_status status =
        cuda_product_run(args->queue, plan, plan->adds_bias, at[0], at[1], at[2], args->workspace);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

tn_status cuda_matmul_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  product_call call;
  product_plan *plan = NULL;
  *bytes = 0;
  if (is_empty(args)) return TN_OK;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  if (!describe(&call, args)) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: operands are not contiguous");
  }
  const void *bias = args->in[2] ? args->in[2]->data : NULL;
  pthread_mutex_lock(&queue->lock);
  status = cuda_product_plan(queue, &call.product, bias, &plan);
  if (status == TN_OK) *bytes = plan->workspace_bytes;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* Applies what the epilogue has not: y = activation(y). */
static tn_status activate(const tn_kernel_args *args) {
  int64_t activation = ((const tn_matmul_attrs *)args->attrs)->activation;
  tn_gelu_attrs gelu = TN_GELU_DEFAULTS;
  const DLTensor *in[] = {args->out[0]};
  tn_kernel_args sub = *args;
  if (activation == TN_ACTIVATION_NONE) return TN_OK;
  sub.in = in;
  sub.num_in = 1;
  sub.attrs = activation == TN_ACTIVATION_RELU ? NULL : &gelu;
  gelu.tanh = activation == TN_ACTIVATION_GELU_TANH;
  return activation == TN_ACTIVATION_RELU ? cuda_run_relu(&sub) : cuda_run_gelu(&sub);
}

static tn_status run_planned(const tn_kernel_args *args, const product_call *call) {
  const void *bias = args->in[2] ? args->in[2]->data : NULL;
  product_plan *plan = NULL;
  tn_status status = cuda_product_plan(args->queue, &call->product, bias, &plan);
  if (status != TN_OK) return status;
  if (plan->workspace_bytes > args->workspace_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, plan->workspace_bytes);
  }
  if (bias && plan->adds_bias) status = fill_with_bias(args);
  if (status == TN_OK && bias && !plan->adds_bias)
    status = cuda_product_set_bias(args->host, plan, bias);
  if (status == TN_OK) status = multiply_all(args, plan, &call->outer);
  return status == TN_OK && !plan->fused ? activate(args) : status;
}

tn_status cuda_run_matmul(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  product_call call;
  if (is_empty(args)) {
    tn_status filled = fill_with_bias(args);
    return filled == TN_OK ? activate(args) : filled;
  }
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  if (!describe(&call, args)) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: operands are not contiguous");
  }
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &call);
  pthread_mutex_unlock(&queue->lock);
  return status;
}
