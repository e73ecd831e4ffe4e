/* Rearranging, padding, repeating and joining: cl/move.cl, cl/pad_grad.cl. */
#include <assert.h>

#include "rows.h"
#include "sources.h"

/* As in cl/move.cl. */
enum { PAD = 0, TILE = 1, REPEAT = 2, FLIP = 3, ROLL = 4 };

/* arrangement_t of cl/move.cl. */
typedef struct arrangement {
  cl_int kind, mode, rank, reserved;
  cl_long count;
  cl_long x_size[TN_MAX_RANK], x_stride[TN_MAX_RANK], y_size[TN_MAX_RANK], step[TN_MAX_RANK];
} arrangement;

static_assert(sizeof(arrangement) == 16 + 8 + 4 * 8 * TN_MAX_RANK, "no padding");

/* Elements of one size are moved alike. */
static tn_dtype by_bytes(const DLTensor *t) {
  static const tn_dtype types[] = {[1] = TN_U8, [2] = TN_I16, [4] = TN_I32, [8] = TN_I64};
  return types[t->dtype.bits / 8];
}

static int axis_index(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function,
                       tn_dtype moved, tn_dtype number) {
  const ocl_key key = {
      .source = &ocl_source_move, .function = function, .types = {(uint8_t)moved, (uint8_t)number}};
  return ocl_begin(launch, args, &key);
}

/* ------------------------------------------------------------- arrangements --- */

/* x's axes stand last among y's; those before have size 1. */
static arrangement arrangement_of(const tn_kernel_args *args, int kind) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  arrangement a = {.kind = kind, .rank = y->ndim, .count = (cl_long)ocl_count(y)};
  const int added = y->ndim - x->ndim;
  cl_long stride = 1;
  for (int axis = y->ndim - 1; axis >= 0; axis--) {
    a.y_size[axis] = y->shape[axis];
    a.x_size[axis] = axis < added ? 1 : x->shape[axis - added];
    a.x_stride[axis] = stride;
    stride *= a.x_size[axis];
  }
  return a;
}

/* `type` is that of the number put where nothing is read. */
static tn_status arrange(const tn_kernel_args *args, const arrangement *a, tn_dtype type,
                         double otherwise) {
  ocl_launch launch;
  if (a->count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "arrange", by_bytes(args->in[0]), type);
  if (status) return status;
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_number(&launch, type, otherwise);
  ocl_arg(&launch, a, sizeof *a);
  return ocl_run(&launch, (uint64_t)a->count);
}

tn_status ocl_run_pad(const tn_kernel_args *args) {
  const tn_pad_attrs *attrs = args->attrs;
  arrangement a = arrangement_of(args, PAD);
  a.mode = (cl_int)attrs->mode;
  for (int i = 0; i < attrs->before.count; i++) a.step[i] = attrs->before.dim[i];
  return arrange(args, &a, ocl_dtype(args->out[0]), attrs->value);
}

tn_status ocl_run_tile(const tn_kernel_args *args) {
  const arrangement a = arrangement_of(args, TILE);
  return arrange(args, &a, by_bytes(args->out[0]), 0);
}

tn_status ocl_run_repeat(const tn_kernel_args *args) {
  const tn_repeat_attrs *attrs = args->attrs;
  arrangement a = arrangement_of(args, REPEAT);
  for (int i = 0; i < a.rank; i++) a.step[i] = 1;
  a.step[axis_index(attrs->axis, a.rank)] = attrs->repeats;
  return arrange(args, &a, by_bytes(args->out[0]), 0);
}

tn_status ocl_run_flip(const tn_kernel_args *args) {
  const tn_axes *axes = &((const tn_flip_attrs *)args->attrs)->axes;
  arrangement a = arrangement_of(args, FLIP);
  for (int i = 0; i < a.rank; i++) a.step[i] = axes->count == 0;
  for (int i = 0; i < axes->count; i++) a.step[axis_index(axes->axis[i], a.rank)] = 1;
  return arrange(args, &a, by_bytes(args->out[0]), 0);
}

tn_status ocl_run_roll(const tn_kernel_args *args) {
  const tn_roll_attrs *attrs = args->attrs;
  arrangement a = arrangement_of(args, ROLL);
  for (int i = 0; i < attrs->shifts.count; i++) {
    const int axis = attrs->axes.count ? axis_index(attrs->axes.axis[i], a.rank) : i;
    const int64_t n = a.x_size[axis], shift = n ? attrs->shifts.dim[i] % n : 0;
    a.step[axis] = shift < 0 ? shift + n : shift;
  }
  return arrange(args, &a, by_bytes(args->out[0]), 0);
}

/* padding_t of cl/pad_grad.cl. */
typedef struct padding_shape {
  cl_int mode, rank;
  cl_long count;
  cl_long size[TN_MAX_RANK], padded[TN_MAX_RANK], stride[TN_MAX_RANK], before[TN_MAX_RANK];
} padding_shape;

static_assert(sizeof(padding_shape) == 16 + 4 * 8 * TN_MAX_RANK, "no padding of its own");

tn_status ocl_run_pad_grad(const tn_kernel_args *args) {
  const tn_pad_grad_attrs *attrs = args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  padding_shape p = {.mode = (cl_int)attrs->mode, .rank = dx->ndim};
  ocl_launch launch;
  const ocl_key key = {
      .source = &ocl_source_pad_grad, .function = "pad_grad", .types = {(uint8_t)ocl_dtype(dx)}};
  cl_long stride = 1;
  p.count = (cl_long)ocl_count(dx);
  if (p.count == 0) return TN_OK;
  for (int axis = dx->ndim - 1; axis >= 0; stride *= dy->shape[axis--]) {
    p.size[axis] = dx->shape[axis];
    p.padded[axis] = dy->shape[axis];
    p.stride[axis] = stride;
    p.before[axis] = axis < attrs->before.count ? attrs->before.dim[axis] : 0;
  }
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, dy);
  ocl_arg_tensor(&launch, dx);
  ocl_arg(&launch, &p, sizeof p);
  return ocl_run(&launch, (uint64_t)p.count);
}

/* ------------------------------------------------------------------ joining --- */

/* Each input becomes `length` neighbours of every y_gap elements of y. */
static tn_status join(const tn_kernel_args *args, int axis, bool is_new) {
  const DLTensor *y = args->out[0];
  const int64_t after = ocl_size(y, axis + 1, y->ndim), gap = y->shape[axis] * after;
  int64_t first = 0;
  tn_status status = TN_OK;
  for (int i = 0; i < args->num_in && !status; i++) {
    ocl_launch launch;
    const DLTensor *x = args->in[i];
    const int64_t count = (int64_t)ocl_count(x), length = (is_new ? 1 : x->shape[axis]) * after;
    if (count == 0) continue;
    status = begin(&launch, args, "join", by_bytes(x), by_bytes(x));
    if (status) return status;
    ocl_arg_tensor(&launch, x);
    ocl_arg_tensor(&launch, y);
    ocl_arg_long(&launch, count);
    ocl_arg_long(&launch, length);
    ocl_arg_long(&launch, gap);
    ocl_arg_long(&launch, first);
    status = ocl_run(&launch, (uint64_t)count);
    first += length;
  }
  return status;
}

tn_status ocl_run_concat(const tn_kernel_args *args) {
  const tn_concat_attrs *attrs = args->attrs;
  return join(args, axis_index(attrs->axis, args->out[0]->ndim), false);
}

tn_status ocl_run_stack(const tn_kernel_args *args) {
  const tn_stack_attrs *attrs = args->attrs;
  return join(args, axis_index(attrs->axis, args->out[0]->ndim), true);
}

/* ---------------------------------------------------------------- triangles --- */

static tn_status triangle(const tn_kernel_args *args, int64_t diagonal, bool upper) {
  ocl_launch launch;
  const DLTensor *x = args->in[0];
  const uint64_t count = ocl_count(x);
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "triangle", by_bytes(x), by_bytes(x));
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_long(&launch, (cl_long)count);
  ocl_arg_long(&launch, x->shape[x->ndim - 2]);
  ocl_arg_long(&launch, x->shape[x->ndim - 1]);
  ocl_arg_long(&launch, diagonal);
  ocl_arg_int(&launch, upper);
  return ocl_run(&launch, count);
}

tn_status ocl_run_tril(const tn_kernel_args *args) {
  return triangle(args, ((const tn_tril_attrs *)args->attrs)->diagonal, false);
}

tn_status ocl_run_triu(const tn_kernel_args *args) {
  return triangle(args, ((const tn_triu_attrs *)args->attrs)->diagonal, true);
}
