/*
 * concat and stack: bytes alone. Rows of the inputs go one after the other into rows of
 * the output; the loop is over the output's bytes, so that its shares are equal.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct join_call {
  const tn_kernel_args *args;
  int axis; /* of the inputs, where a row of them begins */
  int64_t pitch;
} join_call;

/* Bytes of one row of an input. */
static int64_t row_bytes(const DLTensor *x, int axis) {
  int64_t n = x->dtype.bits / 8;
  for (int d = axis; d < x->ndim; d++) n *= x->shape[d];
  return n;
}

static tn_status join_range(void *ctx, int64_t begin, int64_t end) {
  const join_call *call = ctx;
  const tn_kernel_args *args = call->args;
  char *y = args->out[0]->data;
  for (int64_t row = begin / call->pitch; row * call->pitch < end; row++) {
    int64_t at = row * call->pitch;
    for (int i = 0; i < args->num_in && at < end; i++) {
      const int64_t length = row_bytes(args->in[i], call->axis);
      const int64_t from = cpu_max(at, begin), to = cpu_min(at + length, end);
      const char *x = args->in[i]->data;
      if (from < to) memcpy(y + from, x + row * length + (from - at), (size_t)(to - from));
      at += length;
    }
  }
  return TN_OK;
}

static tn_status join(const tn_kernel_args *args, int64_t axis) {
  const DLTensor *y = args->out[0];
  join_call call = {args, (int)(axis < 0 ? axis + y->ndim : axis), 0};
  const int64_t bytes = cpu_count(y) * (y->dtype.bits / 8);
  for (int i = 0; i < args->num_in; i++) call.pitch += row_bytes(args->in[i], call.axis);
  if (bytes == 0) return TN_OK;
  if (bytes <= 4 * CPU_GRAIN_CHEAP) return join_range(&call, 0, bytes);
  return args->host->parallel_for(args->host, bytes, 4 * CPU_GRAIN_CHEAP, join_range, &call);
}

tn_status ISA(concat_any)(const tn_kernel_args *args) {
  return join(args, ((const tn_concat_attrs *)args->attrs)->axis);
}

tn_status ISA(stack_any)(const tn_kernel_args *args) {
  return join(args, ((const tn_stack_attrs *)args->attrs)->axis);
}
