/* Gradients of lstm, gru and rnn; see recurrent.h. */
#include "kernels/cpu/recurrent/recurrent.h"

static const void *data_of(const DLTensor *t) { return t ? t->data : NULL; }

static recurrent recurrent_of(const tn_kernel_args *args, uint32_t op) {
  const bool lstm = op == TN_OP_LSTM_GRAD;
  recurrent r = {.host = args->host,
                 .s = recurrent_sizes_of(op, args->attrs, args->in[0], args->in[1]),
                 .k = recurrent_cell_of(op, args->attrs),
                 .lengths = args->in[2],
                 .u = args->in[0]->data,
                 .reserve_in = args->in[1]->data,
                 .dy = data_of(args->in[3]),
                 .dy_h = data_of(args->in[4]),
                 .dreserve = data_of(args->in[5]),
                 .dy_c = lstm ? data_of(args->in[6]) : NULL,
                 .p = lstm ? data_of(args->in[7]) : NULL,
                 .dgates = args->out[0]->data,
                 .dh0 = args->out[1]->data,
                 .dc0 = lstm ? args->out[2]->data : NULL};
  recurrent_divide(&r);
  return r;
}

#define BODY "kernels/cpu/recurrent/recurrent_grad.inc"
#include "kernels/cpu/base/stamp_float.inc"
