/*
 * Products of 8-bit floats by cuBLASLt. Devices from compute capability 8.9 on multiply them as
 * they are, both operands with k along their rows, where all sizes are multiples of 16; elsewhere,
 * and for two E5M2, operands become bfloat16, which holds them exactly. Operands that do not lie so
 * are copied into the workspace. One scale a side goes into the product; scales of rows and
 * columns, and outputs that cuBLASLt cannot write, are steps behind it, from sums in float32.
 */
#include <string.h>

#include "backends/cuda/product.h"
#include "kernels/cuda/base/layout.h"

enum { STEP = 16, ALIGNMENT = 256 };

/* An operand: for each of the batch's items, `vectors` rows of a or columns of b. */
typedef struct f8_operand {
  int64_t vectors, ld, step; /* in elements; step 0: all items share it */
  size_t at;                 /* where in the workspace, unless in_place */
  bool in_place;
} f8_operand;

typedef struct f8_call {
  product key;
  tn_dtype packed; /* of operands in the workspace */
  int64_t items, m, n, k;
  f8_operand a, b;
  bool direct; /* the product writes y itself */
  size_t sums, bytes;
} f8_call;

/* --- what there is to do --- */

static bool is_one(const DLTensor *t) { return !t || cuda_size(t, 0, t->ndim) == 1; }

/* Scales that cuBLASLt takes: one for either operand, or none; it has no products with one alone.
 */
static bool are_taken(const tn_kernel_args *args) {
  const DLTensor *a = args->in[2], *b = args->in[3];
  return (a != NULL) == (b != NULL) && is_one(a) && is_one(b);
}

static bool has_units(const tn_kernel_args *args) {
  const cuda_info *info = args->device;
  int major = 0, minor = 0;
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, info->ordinal);
  (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, info->ordinal);
  return 10 * major + minor >= 89;
}

static bool is_native(const tn_kernel_args *args, const f8_call *c) {
  const bool both_e5m2 =
      cuda_dtype(args->in[0]) == TN_F8_E5M2 && cuda_dtype(args->in[1]) == TN_F8_E5M2;
  return !both_e5m2 && c->m % STEP == 0 && c->n % STEP == 0 && c->k % STEP == 0 && has_units(args);
}

static size_t reserve(f8_call *c, int64_t elements, tn_dtype dtype) {
  const size_t at = c->bytes;
  c->bytes += ((size_t)elements * tn_dtype_size(dtype) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return at;
}

/* Whether a matrix that is alone lies as the units want it. `vector` and `along` count axes from
 * the last one, 1. */
static bool lies_right(const f8_call *c, const DLTensor *t, int vector, int along) {
  const int64_t ld = t->strides[t->ndim - vector];
  return c->packed == cuda_dtype(t) && c->items == 1 && t->strides[t->ndim - along] == 1 &&
         ld >= c->k && ld % STEP == 0 && (uintptr_t)t->data % STEP == 0;
}

static f8_operand operand_of(f8_call *c, const DLTensor *t, int64_t vectors, int vector,
                             int along) {
  f8_operand o = {.vectors = vectors, .ld = c->k, .step = vectors * c->k};
  o.in_place = lies_right(c, t, vector, along);
  if (o.in_place)
    o.ld = t->strides[t->ndim - vector];
  else
    o.at = reserve(c, c->items * o.step, c->packed);
  return o;
}

static bool is_dense(const DLTensor *t) {
  int64_t expected = 1;
  for (int d = t->ndim; d-- > 0; expected *= t->shape[d])
    if (t->shape[d] != 1 && t->strides[d] != expected) return false;
  return true;
}

static operand product_operand(const f8_call *c, const f8_operand *o, bool columns) {
  return (operand){
      .ld = o->ld, .step = c->items == 1 ? 0 : o->step, .trans = columns, .align = STEP};
}

/* pre: no extent is 0. */
static f8_call describe(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  f8_call c;
  memset(&c, 0, sizeof c);
  c.m = y->shape[y->ndim - 2];
  c.n = y->shape[y->ndim - 1];
  c.k = a->shape[a->ndim - 1];
  c.items = cuda_size(y, 0, y->ndim - 2);
  const bool native = is_native(args, &c);
  const tn_dtype to = cuda_dtype(y);
  product *p = &c.key;
  c.packed = native ? cuda_dtype(a) : TN_BF16;
  c.a = operand_of(&c, a, c.m, 2, 1);
  p->dtype = c.packed;
  if (native) c.packed = p->b_dtype = cuda_dtype(b);
  c.b = operand_of(&c, b, c.n, 1, 2);
  c.direct =
      is_dense(y) && (uintptr_t)y->data % STEP == 0 && (native ? are_taken(args) : to == TN_F32);
  p->y_dtype = c.direct ? to : TN_F32;
  if (!c.direct) c.sums = reserve(&c, c.items * c.m * c.n, TN_F32);
  p->m = c.m, p->n = c.n, p->k = c.k, p->batch = c.items;
  p->a = product_operand(&c, &c.a, false);
  p->b = product_operand(&c, &c.b, true);
  p->y = (operand){.ld = c.n, .step = c.items == 1 ? 0 : c.m * c.n, .align = STEP};
  while (c.n * (int64_t)tn_dtype_size((tn_dtype)p->y_dtype) % p->y.align) p->y.align /= 2;
  return c;
}

static bool is_empty(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *y = args->out[0];
  return cuda_size(y, 0, y->ndim) == 0 || a->shape[a->ndim - 1] == 0;
}

/* --- the steps around the product, by kernels of other operators --- */

/* A dense tensor of y's shape, or of an operand's. */
typedef struct part {
  DLTensor tensor;
  int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
} part;

static void part_of(part *p, const DLTensor *y, int64_t rows, int64_t columns) {
  p->tensor = *y;
  p->tensor.shape = p->shape;
  p->tensor.strides = p->strides;
  memcpy(p->shape, y->shape, (size_t)y->ndim * sizeof *p->shape);
  p->shape[y->ndim - 2] = rows;
  p->shape[y->ndim - 1] = columns;
  int64_t stride = 1;
  for (int d = y->ndim; d-- > 0; stride *= p->shape[d]) p->strides[d] = stride;
}

static DLDataType dl_type(tn_dtype dtype) {
  if (dtype == TN_BF16) return (DLDataType){kDLBfloat, 16, 1};
  return (DLDataType){kDLFloat, 32, 1};
}

static tn_status convert(const tn_kernel_args *args, const DLTensor *from, DLTensor *to) {
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  tn_kernel_args sub = *args;
  DLTensor *out[] = {to};
  attrs.dtype = (int32_t)cuda_dtype(to);
  sub.in = &from;
  sub.out = out;
  sub.num_in = sub.num_out = 1;
  sub.attrs = &attrs;
  return cuda_run_cast(&sub);
}

/* Brings an operand into the workspace, under y's batch axes. `vector` and `along` count its axes
 * from the last one, 1. */
static tn_status pack(const tn_kernel_args *args, const f8_call *c, const f8_operand *o,
                      const DLTensor *t, int vector, int along) {
  part from, to;
  if (o->in_place) return TN_OK;
  const DLTensor *y = args->out[0];
  part_of(&from, y, o->vectors, c->k);
  part_of(&to, y, o->vectors, c->k);
  for (int d = 0; d < y->ndim - 2; d++) {
    const int axis = d - (y->ndim - t->ndim);
    from.strides[d] = axis < 0 || t->shape[axis] == 1 ? 0 : t->strides[axis];
  }
  from.strides[y->ndim - 2] = t->strides[t->ndim - vector];
  from.strides[y->ndim - 1] = t->strides[t->ndim - along];
  from.tensor.data = t->data;
  from.tensor.dtype = t->dtype;
  to.tensor.data = (unsigned char *)args->workspace + o->at;
  to.tensor.dtype = c->key.b_dtype ? t->dtype : dl_type(TN_BF16);
  return convert(args, &from.tensor, &to.tensor);
}

/* sums *= scale, of which axis `axis` of y has one for each index, or which is one for all. */
static tn_status scale_by(const tn_kernel_args *args, const DLTensor *scale, DLTensor *sums,
                          int axis) {
  int64_t strides[TN_MAX_RANK] = {0};
  tn_kernel_args sub = *args;
  if (!scale) return TN_OK;
  DLTensor spread = *scale;
  if (cuda_size(scale, 0, scale->ndim) > 1) strides[axis] = scale->strides[scale->ndim - 1];
  spread.ndim = sums->ndim;
  spread.shape = sums->shape;
  spread.strides = strides;
  const DLTensor *in[] = {sums, &spread};
  DLTensor *out[] = {sums};
  sub.in = in;
  sub.out = out;
  sub.num_in = 2;
  sub.num_out = 1;
  sub.attrs = NULL;
  return cuda_run_mul(&sub);
}

/* From sums to y. `scaled`: the scales are in them. */
static tn_status finish(const tn_kernel_args *args, const f8_call *c, bool scaled) {
  part sums;
  DLTensor *y = args->out[0];
  tn_status status = TN_OK;
  part_of(&sums, y, c->m, c->n);
  sums.tensor.dtype = dl_type(TN_F32);
  sums.tensor.data = c->direct ? y->data : (unsigned char *)args->workspace + c->sums;
  if (!scaled) {
    status = scale_by(args, args->in[2], &sums.tensor, y->ndim - 2);
    if (status == TN_OK) status = scale_by(args, args->in[3], &sums.tensor, y->ndim - 1);
  }
  return status == TN_OK && !c->direct ? convert(args, &sums.tensor, y) : status;
}

/* --- running --- */

static tn_status fill_with_zeros(const tn_kernel_args *args) {
  tn_fill_attrs zero = TN_FILL_DEFAULTS;
  tn_kernel_args sub = *args;
  sub.attrs = &zero;
  return cuda_run_fill(&sub);
}

tn_status cuda_matmul_f8_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  product_plan *plan = NULL;
  *bytes = 0;
  if (is_empty(args)) return TN_OK;
  const f8_call call = describe(args);
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = cuda_product_plan(queue, &call.key, NULL, &plan);
  if (status == TN_OK) *bytes = call.bytes + plan->workspace_bytes;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* A plan has those of its last call: where they are not in the product, none are set. What
 * product.h calls b is cuBLASLt's first operand. */
static tn_status set_scales(const tn_kernel_args *args, const product_plan *plan, bool scaled) {
  const void *left = scaled && args->in[3] ? args->in[3]->data : NULL;
  const void *right = scaled && args->in[2] ? args->in[2]->data : NULL;
  BLAS_TRY(args->host, cublasLtMatmulDescSetAttribute(
                           plan->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &left, sizeof left));
  BLAS_TRY(args->host, cublasLtMatmulDescSetAttribute(
                           plan->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &right, sizeof right));
  return TN_OK;
}

static tn_status multiply(const tn_kernel_args *args, const f8_call *c, const product_plan *plan,
                          bool scaled) {
  unsigned char *w = args->workspace;
  const void *a = c->a.in_place ? args->in[0]->data : w + c->a.at;
  const void *b = c->b.in_place ? args->in[1]->data : w + c->b.at;
  void *y = c->direct ? args->out[0]->data : w + c->sums;
  tn_status status = c->key.b_dtype ? set_scales(args, plan, scaled) : TN_OK;
  return status == TN_OK ? cuda_product_run(args->queue, plan, false, y, a, b, w + c->bytes)
                         : status;
}

static tn_status run_planned(const tn_kernel_args *args, const f8_call *c) {
  product_plan *plan = NULL;
  const bool scaled = c->key.b_dtype && are_taken(args);
  tn_status status = cuda_product_plan(args->queue, &c->key, NULL, &plan);
  if (status != TN_OK) return status;
  if (args->workspace_bytes < c->bytes + plan->workspace_bytes)
    return args->host->fail(TN_ERR_INTERNAL, "%s: %zu bytes of workspace, needs %zu",
                            args->kernel->name, args->workspace_bytes,
                            c->bytes + plan->workspace_bytes);
  status = pack(args, c, &c->a, args->in[0], 2, 1);
  if (status == TN_OK) status = pack(args, c, &c->b, args->in[1], 1, 2);
  if (status == TN_OK) status = multiply(args, c, plan, scaled);
  return status == TN_OK ? finish(args, c, scaled) : status;
}

tn_status cuda_run_matmul_f8(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  if (is_empty(args)) return fill_with_zeros(args);
  const f8_call call = describe(args);
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &call);
  pthread_mutex_unlock(&queue->lock);
  return status;
}
