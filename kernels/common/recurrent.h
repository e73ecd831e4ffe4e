/* What recurrent networks are computed from beside their tensors, on the CPU and on CUDA. */
#ifndef TENON_KERNELS_RECURRENT_H
#define TENON_KERNELS_RECURRENT_H

#include <math.h>

#include "tenon/plugin.h"

/* Activations: 0 sigmoid, 1 tanh, 2 relu. */
typedef struct recurrent_cell {
  double clip;            /* of activations' inputs; infinite: none */
  int gate, enter, leave; /* activations f, g and h; a plain network's is `enter` */
  int coupled;            /* lstm: the gate f is 1 - i; gru: linear before reset */
} recurrent_cell;

typedef struct recurrent_sizes {
  int64_t steps, sequences, directions, hidden, inputs;
  int64_t gates, grad_gates, reserved; /* rows of w and u, of dgates, of the reserve, in hidden */
  int64_t direction;
} recurrent_sizes;

static inline recurrent_cell recurrent_cell_of(uint32_t op, const void *attributes) {
  recurrent_cell k = {0, 0, 1, 1, 0};
  if (op == TN_OP_LSTM || op == TN_OP_LSTM_GRAD) {
    const tn_lstm_attrs *attrs = (const tn_lstm_attrs *)attributes;
    k.gate = (int)attrs->gate;
    k.enter = (int)attrs->cell;
    k.leave = (int)attrs->state;
    k.coupled = attrs->input_forget != 0;
  } else if (op == TN_OP_GRU || op == TN_OP_GRU_GRAD) {
    const tn_gru_attrs *attrs = (const tn_gru_attrs *)attributes;
    k.gate = (int)attrs->gate;
    k.enter = (int)attrs->hidden;
    k.coupled = attrs->linear_before_reset != 0;
  } else {
    k.enter = (int)((const tn_rnn_attrs *)attributes)->hidden;
  }
  k.clip = ((const tn_rnn_attrs *)attributes)->clip; /* all begin with it */
  if (!(k.clip > 0)) k.clip = INFINITY;
  return k;
}

/* Of the weights u, and x of the forward operator or the reserve. */
static inline recurrent_sizes recurrent_sizes_of(uint32_t op, const void *attrs, const DLTensor *u,
                                                 const DLTensor *rows) {
  const bool lstm = op == TN_OP_LSTM || op == TN_OP_LSTM_GRAD;
  const bool gru = op == TN_OP_GRU || op == TN_OP_GRU_GRAD;
  recurrent_sizes s;
  s.steps = rows->shape[0];
  s.sequences = rows->shape[1];
  s.inputs = rows->shape[2];
  s.directions = u->shape[0];
  s.hidden = u->shape[2];
  s.gates = lstm ? 4 : gru ? 3 : 1;
  s.grad_gates = lstm || gru ? 4 : 1;
  s.reserved = lstm ? 6 : gru ? 5 : 2;
  s.direction = ((const tn_rnn_attrs *)attrs)->direction; /* all begin with it */
  return s;
}

#endif
