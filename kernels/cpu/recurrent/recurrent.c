/* lstm, gru and rnn; see recurrent.h. */
#include "kernels/cpu/recurrent/recurrent.h"

static recurrent recurrent_of(const tn_kernel_args *args, uint32_t op) {
  recurrent r = {.host = args->host,
                 .s = recurrent_sizes_of(op, args->attrs, args->in[2], args->in[0]),
                 .k = recurrent_cell_of(op, args->attrs),
                 .lengths = args->in[4],
                 .x = args->in[0]->data,
                 .w = args->in[1]->data,
                 .u = args->in[2]->data,
                 .bias = args->in[3] ? args->in[3]->data : NULL,
                 .h0 = args->in[5] ? args->in[5]->data : NULL,
                 .y = args->out[0]->data,
                 .y_h = args->out[1] ? args->out[1]->data : NULL};
  const DLTensor *reserve = args->out[op == TN_OP_LSTM ? 3 : 2];
  r.reserve = reserve ? reserve->data : NULL;
  if (op == TN_OP_LSTM) {
    r.c0 = args->in[6] ? args->in[6]->data : NULL;
    r.p = args->in[7] ? args->in[7]->data : NULL;
    r.y_c = args->out[2] ? args->out[2]->data : NULL;
  }
  recurrent_divide(&r);
  return r;
}

#define BODY "kernels/cpu/recurrent/recurrent.inc"
#include "kernels/cpu/base/stamp_float.inc"
