/*
 * The fast path of products: matmul of two row-major matrices, without bias or activation, on a
 * device that computes in the caller, where a small product costs less than to validate its call.
 * As in fast_path.c its conditions are those under which plan.c would accept the call and change
 * nothing about it; whatever is unusual, wrong or NULL goes the general way.
 */
#include <string.h>

#include "dispatcher/call/fast_path.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"

static bool is_matrix(const tn_tensor *t, const tn_tensor *like) {
  return t && t->device == like->device && t->dtype == like->dtype && t->dl.ndim == 2 &&
         t->contiguous;
}

/* Extents m and n of the product; false where operands do not go together. */
static bool product_shape(const tn_matmul_attrs *attrs, const tn_tensor *a, const tn_tensor *b,
                          int64_t shape[2]) {
  const int ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
  shape[0] = a->shape[ta];
  shape[1] = b->shape[!tb];
  return a->shape[!ta] == b->shape[tb] && attrs->activation == TN_ACTIVATION_NONE;
}

/* Memory of its own, of the product's shape. */
static bool may_write(const tn_tensor *y, const tn_tensor *a, const tn_tensor *b,
                      const int64_t shape[2]) {
  if (!is_matrix(y, a) || y->read_only || y->shape[0] != shape[0] || y->shape[1] != shape[1])
    return false;
  return y->storage->block && a->storage->block && b->storage->block && y->storage != a->storage &&
         y->storage != b->storage;
}

/* The first kernel that takes the call, if it does so as it is. */
static const cell *cell_of(tn_kernel_args *args, const tn_device *device, const tn_call *call,
                           uint8_t dtype) {
  const cell *c = registry_cells(device->table, call->op, (tn_dtype)dtype);
  for (; c && c->whole; c = atomic_load_explicit(&c->next, memory_order_acquire)) {
    args->kernel = &c->kernel->row;
    if (c->direct || c->kernel->row.supports(args)) return c;
  }
  return NULL;
}

/* An ordinary device that computes in the caller, and two row-major matrices in its memory. */
static bool is_plain(const tn_call *call, const op_entry *op) {
  const tn_tensor *a = call->in[0];
  const tn_device *device = a->device;
  return op->row.id == TN_OP_MATMUL && call->num_in == op->num_in && !call->in[2] &&
         device->synchronous && device_is_ordinary(device) && is_matrix(a, a) &&
         is_matrix(call->in[1], a) && op->row.types[0] >> a->dtype & 1;
}

static void set_args(tn_kernel_args *args, const tn_stream *stream, const void *attrs) {
  args->struct_size = ARGS_SIZE_UNKEPT; /* what lies behind is not set */
  args->num_in = 3;
  args->num_out = 1;
  args->attrs = attrs;
  args->host = &stream->device->runtime->host;
  args->device = stream->device->handle;
  args->queue = stream_queue(stream);
  args->native_stream = stream->native;
  args->workspace = NULL;
  args->workspace_bytes = args->workspace_offset = 0;
}

/* The given output, or a new one. */
static bool take_output(const tn_call *call, tn_stream *stream, const int64_t shape[2],
                        tn_tensor **y) {
  const tn_tensor *a = call->in[0];
  const tn_dtype dtype = (tn_dtype)a->dtype;
  int64_t elements;
  *y = call->out[0];
  if (*y) return may_write(*y, a, call->in[1], shape);
  return shape_elements(2, shape, tn_dtype_size(dtype), &elements) &&
         !tensor_make(a->device, stream, dtype, 2, shape, elements, y);
}

bool fast_product_invoke(const tn_call *call, const op_entry *op, tn_status *status) {
  if (!is_plain(call, op)) return false;
  const tn_tensor *a = call->in[0], *b = call->in[1];
  tn_device *device = a->device;
  tn_stream *stream = call->stream ? call->stream : device->default_stream;
  const tn_matmul_attrs *attrs = call->attrs ? call->attrs : op->defaults;
  int64_t shape[2];
  tn_tensor *y;
  if (stream->device != device || attrs->struct_size != op->row.attrs_size ||
      !product_shape(attrs, a, b, shape) || !take_output(call, stream, shape, &y))
    return false;
  const bool made = !call->out[0];
  const DLTensor *in[] = {&a->dl, &b->dl, NULL};
  DLTensor *out[] = {&y->dl};
  tn_kernel_args args;
  set_args(&args, stream, attrs);
  args.in = in;
  args.out = out;
  const cell *c = cell_of(&args, device, call, a->dtype);
  if (c) {
    args.queue = stream->queue;
    *status = c->run(&args);
    if (__builtin_expect(!*status, 1)) {
      call->out[0] = y;
      return true;
    }
    *status = kernel_status(device, c, *status);
    fail_prefix("tn_%s: kernel %s: ", op->row.name, c->kernel->row.name);
  }
  if (made) tn_tensor_release(y);
  return c != NULL;
}
