/*
 * Means over windows. An image, or some of its channels where there are few images, is a
 * piece; it lies dense and is taken as it lies. Maxima stay with our kernels: oneDNN's pass
 * over NaN, which shall win, and do not say where they were found in the tensor.
 */
#include <assert.h>
#include <string.h>

#include "onednn.h"
#include "plan.h"

enum { PIECES = 16, LANES = 16 };

/* A piece, and the key of its plan. */
typedef struct pool_shape {
  int64_t type, axes, c, with_padding, in[3], out[3], kernel[3], stride[3], padding[3];
} pool_shape;

typedef struct pool_call {
  const tn_kernel_args *args;
  pool_shape shape;
  int64_t pieces;
  size_t in_bytes, out_bytes; /* of a piece */
  plan *plan;
} pool_call;

/* The attributes are rows of numbers: kernel, stride, padding, a flag, ceil_mode. */
static_assert(offsetof(tn_avg_pool1d_attrs, ceil_mode) == 8 * 5, "behind the flag");
static_assert(offsetof(tn_avg_pool2d_attrs, ceil_mode) == 8 * 8, "behind the flag");
static_assert(offsetof(tn_avg_pool3d_attrs, ceil_mode) == 8 * 11, "behind the flag");

static int64_t count_of(const int64_t *size, int64_t axes) {
  int64_t n = 1;
  for (int64_t d = 0; d < axes; d++) n *= size[d];
  return n;
}

static bool read_shape(pool_call *call, const tn_kernel_args *args) {
  const int64_t *numbers = (const int64_t *)args->attrs + 1;
  const DLTensor *x = args->in[0], *y = args->out[0];
  memset(call, 0, sizeof *call);
  call->args = args;
  pool_shape *s = &call->shape;
  s->type = data_type_of(x->dtype);
  s->axes = x->ndim - 2;
  for (int64_t d = 0; d < s->axes; d++) {
    s->in[d] = x->shape[2 + d], s->out[d] = y->shape[2 + d];
    s->kernel[d] = numbers[d], s->stride[d] = numbers[s->axes + d];
    if (s->stride[d] == 0) s->stride[d] = s->kernel[d];
    s->padding[d] = numbers[2 * s->axes + d];
  }
  s->with_padding = *(const int32_t *)(const void *)(numbers + 3 * s->axes) != 0;
  const int64_t n = x->shape[0], c = x->shape[1], bytes = x->dtype.bits / 8;
  if (n * c * count_of(s->in, s->axes) * count_of(s->out, s->axes) == 0) return false;
  if (numbers[3 * s->axes + 1] != 0) return false;
  s->c = n >= PIECES ? c : divisor(c, max_of(LANES, c * n / PIECES));
  call->pieces = n * (c / s->c);
  call->in_bytes = (size_t)(s->c * count_of(s->in, s->axes) * bytes);
  call->out_bytes = (size_t)(s->c * count_of(s->out, s->axes) * bytes);
  return true;
}

static dnnl_status_t dense(const pool_shape *s, layout *l, const int64_t *size) {
  int64_t dims[5] = {1, s->c}, stride[5], apart = 1;
  for (int64_t d = 0; d < s->axes; d++) dims[2 + d] = size[d];
  for (int64_t d = s->axes + 1; d >= 0; d--) stride[d] = apart, apart *= dims[d];
  return layout_make(l, (int)s->axes + 2, dims, (dnnl_data_type_t)s->type, stride);
}

static dnnl_status_t build(dnnl_engine_t engine, plan *p, const void *ctx) {
  const pool_shape *s = ctx;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t strides = {0}, kernel = {0}, padding = {0};
  for (int64_t d = 0; d < s->axes; d++)
    strides[d] = s->stride[d], kernel[d] = s->kernel[d], padding[d] = s->padding[d];
  dnnl_status_t status = dense(s, &p->slots[SLOT_A].user, s->in);
  if (status == dnnl_success) status = dense(s, &p->slots[SLOT_Y].user, s->out);
  const pool_desc pool = {s->with_padding ? dnnl_pooling_avg_include_padding
                                          : dnnl_pooling_avg_exclude_padding,
                          layout_of(&p->slots[SLOT_A].user),
                          layout_of(&p->slots[SLOT_Y].user),
                          strides,
                          kernel,
                          padding};
  if (status == dnnl_success) status = plan_attr(&attr);
  if (status == dnnl_success) status = pool_describe(&desc, engine, &pool, attr);
  (void)dnnl_primitive_attr_destroy(attr);
  if (status == dnnl_success) status = plan_finish_main(p, desc, (dnnl_data_type_t)s->type, 0);
  if (status == dnnl_success)
    status = plan_finish_slot(engine, p, SLOT_A, dnnl_query_src_md, DNNL_ARG_SRC, false);
  if (status == dnnl_success)
    status = plan_finish_slot(engine, p, SLOT_Y, dnnl_query_dst_md, DNNL_ARG_DST, false);
  return status;
}

enum { KIND_POOL = 3 };
static_assert(sizeof(pool_shape) <= sizeof((plan_key *)0)->numbers, "a key holds the shape");

static plan *take(const pool_call *call) {
  plan_key key;
  memset(&key, 0, sizeof key);
  key.kind = KIND_POOL;
  memcpy(key.numbers, &call->shape, sizeof call->shape);
  return plan_take(call->args, &key, build, &call->shape);
}

static tn_status range(void *ctx, int64_t begin, int64_t end) {
  const pool_call *call = ctx;
  const char *x = call->args->in[0]->data;
  char *y = call->args->out[0]->data;
  runner r;
  tn_status status = runner_open(&r, call->args, call->plan, 0);
  if (status != TN_OK) return status;
  for (int64_t i = begin; i < end && status == TN_OK; i++) {
    status = runner_load(&r, SLOT_A, x + (size_t)i * call->in_bytes);
    if (status == TN_OK) status = runner_run(&r, y + (size_t)i * call->out_bytes);
  }
  runner_close(&r);
  return status;
}

static double work_of(const pool_call *call) {
  const pool_shape *s = &call->shape;
  return (double)call->pieces * (double)s->c * (double)count_of(s->out, s->axes) *
         (double)count_of(s->kernel, s->axes);
}

bool avg_pool_supports(const tn_kernel_args *args) {
  pool_call call;
  if (!read_shape(&call, args)) return false;
  if (!plans_take_all(args) && (work_of(&call) < 1e5 || !onednn_has_avx512())) return false;
  plan *p = take(&call);
  plan_give_back(args, p);
  return p != NULL;
}

tn_status avg_pool_run(const tn_kernel_args *args) {
  pool_call call;
  if (read_shape(&call, args)) call.plan = take(&call);
  if (!call.plan) return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to plan a pooling");
  const int64_t grain = 1 + (int64_t)(1e5 * (double)call.pieces / work_of(&call));
  tn_status status = args->host->parallel_for(args->host, call.pieces, grain, range, &call);
  plan_give_back(args, call.plan);
  return status;
}
