/*
 * concat and stack: bytes alone. Rows of the inputs go one after the other into rows of
 * the output; the loop is over the output's bytes, so that its shares are equal.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct join_call {
  const tn_kernel_args *args;
  unsigned within; /* axes of the inputs, as bits, that lie within a row of them */
  int64_t pitch;
} join_call;

/* Bytes of one row of an input. */
static int64_t row_bytes(const DLTensor *x, unsigned within) {
  int64_t n = x->dtype.bits / 8;
  for (int d = 0; d < x->ndim; d++) n *= within >> d & 1 ? x->shape[d] : 1;
  return n;
}

static tn_status join_range(void *ctx, int64_t begin, int64_t end) {
  const join_call *call = ctx;
  const tn_kernel_args *args = call->args;
  char *y = args->out[0]->data;
  for (int64_t row = begin / call->pitch; row * call->pitch < end; row++) {
    int64_t at = row * call->pitch;
    for (int i = 0; i < args->num_in && at < end; i++) {
      const int64_t length = row_bytes(args->in[i], call->within);
      const int64_t from = cpu_max(at, begin), to = cpu_min(at + length, end);
      const char *x = args->in[i]->data;
      if (from < to) memcpy(y + from, x + row * length + (from - at), (size_t)(to - from));
      at += length;
    }
  }
  return TN_OK;
}

static tn_status join_rows(const tn_kernel_args *args, unsigned within) {
  const DLTensor *y = args->out[0];
  join_call call = {args, within, 0};
  const int64_t bytes = cpu_count(y) * (y->dtype.bits / 8);
  for (int i = 0; i < args->num_in; i++) call.pitch += row_bytes(args->in[i], call.within);
  if (bytes == 0) return TN_OK;
  if (bytes <= 4 * CPU_GRAIN_CHEAP) return join_range(&call, 0, bytes);
  return args->host->parallel_for(args->host, bytes, 4 * CPU_GRAIN_CHEAP, join_range, &call);
}

/* Row-major tensors: a row has `axis` and those behind it. */
static tn_status join(const tn_kernel_args *args, int64_t axis) {
  return join_rows(args, ~0u << (axis < 0 ? axis + args->out[0]->ndim : axis));
}

tn_status ISA(concat_any)(const tn_kernel_args *args) {
  return join(args, ((const tn_concat_attrs *)args->attrs)->axis);
}

tn_status ISA(stack_any)(const tn_kernel_args *args) {
  return join(args, ((const tn_stack_attrs *)args->attrs)->axis);
}

/* [n, c, h, w] in the order n, h, w, c: within a row of an axis lie those behind it. */
tn_status ISA(concat_last_any)(const tn_kernel_args *args) {
  enum { N = 1, C = 2, H = 4, W = 8 };
  static const unsigned within[] = {N | H | W | C, C, H | W | C, W | C};
  const int64_t axis = ((const tn_concat_attrs *)args->attrs)->axis;
  return join_rows(args, within[axis < 0 ? axis + 4 : axis]);
}
