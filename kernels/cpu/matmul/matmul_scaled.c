/*
 * Products of 8-bit floats with scales, in steps that other kernels make: operands become float32,
 * of float64 results float64, are multiplied on the BLAS, and the sums scaled and converted.
 */
#include "kernels/cpu/cpu.h"

/* A dense tensor of another one's shape in the type that is computed in. */
typedef struct part {
  DLTensor tensor;
  int64_t strides[TN_MAX_RANK];
} part;

typedef struct scaled_call {
  const tn_kernel_args *args;
  bool wide;  /* in float64 */
  char *next; /* of the memory that parts take */
} scaled_call;

static part part_of(scaled_call *c, const DLTensor *t) {
  part p = {.tensor = *t};
  int64_t count = 1;
  for (int d = t->ndim; d-- > 0; count *= t->shape[d]) p.strides[d] = count;
  p.tensor.data = c->next;
  p.tensor.dtype = (DLDataType){kDLFloat, c->wide ? 64 : 32, 1};
  c->next += count * (c->wide ? 8 : 4);
  return p;
}

static tn_status step(const scaled_call *c, tn_kernel_fn fn, uint32_t num_in,
                      const DLTensor *const *in, DLTensor *out, const void *attrs) {
  tn_kernel_args sub = *c->args;
  DLTensor *outs[] = {out};
  sub.in = in;
  sub.num_in = num_in;
  sub.num_out = 1;
  sub.out = outs;
  sub.attrs = attrs;
  return fn(&sub);
}

/* pre: from is an 8-bit float, float32, or float64. */
static tn_status convert(const scaled_call *c, const DLTensor *from, DLTensor *to) {
  static const tn_kernel_fn casts[] = {[TN_F32] = ISA(cast_f32),
                                       [TN_F64] = ISA(cast_f64),
                                       [TN_F8_E4M3] = ISA(cast_f8_e4m3),
                                       [TN_F8_E5M2] = ISA(cast_f8_e5m2)};
  const tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  return step(c, casts[tn_dtype_of(from->dtype)], 1, &from, to, &attrs);
}

/* sums *= scale, of which axis `axis` has one for each index, or which is one for all. */
static tn_status scale_by(scaled_call *c, const DLTensor *scale, DLTensor *sums, int axis) {
  if (!scale) return TN_OK;
  int64_t strides[TN_MAX_RANK] = {0};
  part own = part_of(c, scale);
  own.tensor.strides = own.strides;
  tn_status status = convert(c, scale, &own.tensor);
  if (status != TN_OK) return status;
  if (cpu_count(scale) > 1) strides[axis] = 1;
  DLTensor spread = own.tensor;
  spread.ndim = sums->ndim;
  spread.shape = sums->shape;
  spread.strides = strides;
  const DLTensor *in[] = {sums, &spread};
  return step(c, c->wide ? ISA(mul_f64) : ISA(mul_f32), 2, in, sums, NULL);
}

static tn_status multiply(scaled_call *c) {
  const DLTensor *const *in = c->args->in;
  DLTensor *y = c->args->out[0];
  const tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  part a = part_of(c, in[0]), b = part_of(c, in[1]), sums = part_of(c, y);
  a.tensor.strides = a.strides;
  b.tensor.strides = b.strides;
  sums.tensor.strides = sums.strides;
  const DLTensor *operands[] = {&a.tensor, &b.tensor, NULL};
  tn_status status = convert(c, in[0], &a.tensor);
  if (status == TN_OK) status = convert(c, in[1], &b.tensor);
  if (status == TN_OK)
    status =
        step(c, c->wide ? ISA(matmul_f64) : ISA(matmul_f32), 3, operands, &sums.tensor, &attrs);
  if (status == TN_OK) status = scale_by(c, in[2], &sums.tensor, y->ndim - 2);
  if (status == TN_OK) status = scale_by(c, in[3], &sums.tensor, y->ndim - 1);
  return status == TN_OK ? convert(c, &sums.tensor, y) : status;
}

static tn_status run_scaled(const tn_kernel_args *args) {
  const tn_host *host = args->host;
  const DLTensor *const *in = args->in;
  size_t count =
      (size_t)cpu_count(in[0]) + (size_t)cpu_count(in[1]) + (size_t)cpu_count(args->out[0]);
  for (int i = 2; i < 4; i++)
    if (in[i]) count += (size_t)cpu_count(in[i]);
  char *memory = host->alloc(host, count * sizeof(double), 64);
  if (!memory)
    return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %zu numbers of matmul_scaled", count);
  scaled_call c = {args, args->out[0]->dtype.bits == 64, memory};
  tn_status status = multiply(&c);
  host->free(host, memory);
  return status;
}

tn_status ISA(matmul_scaled_f8_e4m3)(const tn_kernel_args *args) { return run_scaled(args); }
tn_status ISA(matmul_scaled_f8_e5m2)(const tn_kernel_args *args) { return run_scaled(args); }
