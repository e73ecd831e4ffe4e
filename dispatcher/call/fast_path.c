/*
 * The fast path: an elementwise operator on row-major tensors of one shape and type on
 * one device, by a kernel that takes every such call. Its conditions are those under
 * which plan.c would accept the call and change nothing about it, so it only saves time:
 * a call that meets them costs a few dozen comparisons and the kernel.
 *
 * Keep it so: whatever is unusual, wrong or NULL goes the general way, where messages are.
 */
#include "dispatcher/call/fast_path.h"

#include <stdint.h>
#include <string.h>

#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"

/* All of it in both functions below, of which one must cost as little as can be. */
#define INLINE inline __attribute__((always_inline))

static INLINE bool same_shape(const tn_tensor *a, const tn_tensor *b) {
  if (a->dl.ndim != b->dl.ndim) return false;
  for (int32_t i = 0; i < a->dl.ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* An output that the caller gave: its memory is no input's, or exactly an input's. */
static INLINE bool may_write(const tn_tensor *y, const tn_tensor *const *in, uint32_t num_in) {
  if (y->read_only || !y->contiguous) return false;
  for (uint32_t i = 0; i < num_in; ++i) {
    bool apart = y->storage != in[i]->storage && y->storage->block && in[i]->storage->block;
    bool same = y->dl.data == in[i]->dl.data && y->dl.byte_offset == in[i]->dl.byte_offset &&
                tn_dtype_size((tn_dtype)y->dtype) == tn_dtype_size((tn_dtype)in[i]->dtype);
    if (!apart && !same) return false;
  }
  return true;
}

static INLINE bool attrs_are_whole(const op_entry *op, const void *attrs) {
  uint32_t size;
  if (op->row.attrs_size == 0 || !attrs) return true;
  memcpy(&size, attrs, sizeof size);
  return size == op->row.attrs_size;
}

/* Inputs are there, on x's device, of its type and shape, in memory of the stream. */
static INLINE bool inputs_match(const tn_call *call, const tn_tensor *x, const tn_stream *stream,
                                bool check_stream) {
  for (uint32_t i = 0; i < call->num_in; ++i) {
    const tn_tensor *t = call->in[i];
    if (!t || t->device != x->device || t->dtype != x->dtype || !t->contiguous || !same_shape(t, x))
      return false;
    if (check_stream && (!t->storage->block || t->storage->block->cache != stream->cache))
      return false;
  }
  return true;
}

static INLINE tn_status run(const tn_call *call, tn_device *device, const tn_stream *stream,
                            const op_entry *op, const cell *c, tn_tensor *y) {
  const DLTensor *in[TN_MAX_ARGS];
  DLTensor *out[1] = {&y->dl};
  for (uint32_t i = 0; i < call->num_in; ++i) in[i] = &call->in[i]->dl;
  tn_kernel_args args; /* what lies behind its size is not set */
  args.struct_size = ARGS_SIZE_UNKEPT;
  args.num_in = call->num_in;
  args.num_out = 1;
  args.in = in;
  args.out = out;
  args.attrs = call->attrs ? call->attrs : op->defaults;
  args.host = &device->runtime->host;
  args.kernel = &c->kernel->row;
  args.device = device->handle;
  args.queue = stream->queue;
  args.native_stream = stream->native;
  args.workspace = NULL;
  args.workspace_bytes = args.workspace_offset = 0;
  tn_status status = c->run(&args);
  return __builtin_expect(status, 0) ? kernel_status(device, c, status) : TN_OK;
}

static INLINE bool serve(const tn_call *call, bool is_recorded, tn_status *status) {
  if (!call || call->struct_size < CALL_SIZE_1 || call->num_in == 0 || call->num_out != 1 ||
      call->num_in > TN_MAX_ARGS || call->skip_out || !call->in || !call->out)
    return false;
  const tn_tensor *x = call->in[0];
  if (!x) return false;
  tn_device *device = x->device;
  const op_entry *op = registry_op(&device->runtime->registry, call->op);
  if (!op) return false;
  if (!op->fast_path) return !is_recorded && fast_product_invoke(call, op, status);
  if (op->num_in != call->num_in || !(op->row.types[0] >> x->dtype & 1) ||
      !(is_recorded ? device_is_fine(device) : device_is_ordinary(device)))
    return false;
  tn_stream *stream = call->stream ? call->stream : device->default_stream;
  bool check_stream = !device->synchronous;
  if (stream->device != device || !inputs_match(call, x, stream, check_stream) ||
      !attrs_are_whole(op, call->attrs))
    return false;
  const cell *c = registry_cells(device->table, call->op, (tn_dtype)x->dtype);
  if (!c || !c->fast_path) return false;
  uint8_t type = op->arg[op->num_in].type;
  tn_dtype dtype = (tn_dtype)(TN_TYPE_IS_FIXED(type) ? TN_TYPE_OPERAND(type) : x->dtype);
  tn_tensor *y = call->out[0];
  bool made = !y;
  if (made) {
    if (tensor_make(device, stream, dtype, x->dl.ndim, x->shape, x->elements, &y)) return false;
  } else if (y->device != device || y->dtype != dtype || !same_shape(y, x) ||
             !may_write(y, call->in, call->num_in) ||
             (check_stream && (!y->storage->block || y->storage->block->cache != stream->cache))) {
    return false;
  }
  tn_status result = run(call, device, stream, op, c, y);
  if (__builtin_expect(!result, 1)) {
    call->out[0] = y;
  } else {
    fail_prefix("tn_%s: kernel %s: ", op->row.name, c->kernel->row.name);
    if (made) tn_tensor_release(y);
  }
  *status = result;
  return true;
}

bool fast_path_invoke(const tn_call *call, tn_status *status) { return serve(call, false, status); }

__attribute__((cold)) tn_status invoke_recorded(const tn_call *call) {
  tn_status status;
  return serve(call, true, &status) ? status : tn_invoke(call);
}
