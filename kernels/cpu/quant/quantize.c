/*
 * Quantising and back, by runs of elements whose scales lie in a row or are one. Rounding to
 * nearest even is adding and taking away a number beside which floats are whole, since what is
 * rounded was clamped to the integer type's range before.
 */
#include "kernels/common/float8.h"
#include "kernels/common/quant.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

typedef struct quant_call {
  const tn_host *host;
  const DLTensor *x, *scale, *zero, *y;
  quant_place place;
  bool saturate; /* to 8-bit floats */
} quant_call;

enum { PARTS = 64 };

typedef struct extremes_call {
  const DLTensor *x;
  int64_t count, share;
  double low[PARTS], high[PARTS];
} extremes_call;

/* 1.5 times 2^23 and 2^52. */
#define WHOLE_f 0x1.8p23f
#define WHOLE_d 0x1.8p52

static tn_status run_quant(const tn_kernel_args *args, tn_range_fn fn, bool saturate) {
  const tn_dequantize_linear_attrs *attrs = args->attrs; /* quantize_linear's first ones */
  const int64_t n = cpu_count(args->in[0]);
  if (n == 0) return TN_OK;
  quant_call c = {args->host,
                  args->in[0],
                  args->in[1],
                  args->in[2],
                  args->out[0],
                  quant_place_of(args->in[0], args->in[1],
                                 attrs->axis < 0 ? attrs->axis + args->in[0]->ndim : attrs->axis,
                                 attrs->block),
                  saturate};
  return args->host->parallel_for(args->host, n, CPU_GRAIN_CHEAP, fn, &c);
}

#define BODY "kernels/cpu/quant/quantize.inc"
#include "kernels/cpu/base/stamp_float.inc"
