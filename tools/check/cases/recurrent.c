/* Cases of recurrent networks: directions, lengths, arguments left out, and every attribute. */
#include <string.h>

#include "combine.h"
#include "number.h"
#include "op_case.h"

/* Steps, some of them beyond either end. */
static int64_t draw_length(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  const int64_t steps = c->arg[c->op->shape == TN_SHAPE_RECURRENT ? 0 : 1].shape[0];
  (void)arg, (void)at;
  return (int64_t)(random % (uint64_t)(steps + 3)) - 1;
}

typedef struct network {
  int64_t steps, sequences, inputs, hidden;
} network;

/* Shapes by the arguments' names: d directions of `gates`, and `parts` that are reserved. */
static void shape_arg(op_case *c, uint32_t arg, const network *n, int64_t d, int64_t gates,
                      int64_t parts) {
  const char *name = c->op->args[arg].name;
  const int64_t rows = gates * n->hidden;
  const int64_t state[] = {d, n->sequences, n->hidden};
  if (!strcmp(name, "x"))
    case_shape(c, arg, 3, (int64_t[]){n->steps, n->sequences, n->inputs});
  else if (!strcmp(name, "w"))
    case_shape(c, arg, 3, (int64_t[]){d, rows, n->inputs});
  else if (!strcmp(name, "u"))
    case_shape(c, arg, 3, (int64_t[]){d, rows, n->hidden});
  else if (!strcmp(name, "bias"))
    case_shape(c, arg, 2, (int64_t[]){d, 2 * rows});
  else if (!strcmp(name, "p"))
    case_shape(c, arg, 2, (int64_t[]){d, 3 * n->hidden});
  else if (!strcmp(name, "lengths"))
    case_shape(c, arg, 1, &n->sequences);
  else if (!strcmp(name, "reserve") || !strcmp(name, "dreserve"))
    case_shape(c, arg, 4, (int64_t[]){n->steps, n->sequences, d, parts * n->hidden});
  else if (!strcmp(name, "dy"))
    case_shape(c, arg, 4, (int64_t[]){n->steps, d, n->sequences, n->hidden});
  else
    case_shape(c, arg, 3, state);
  if (!strcmp(name, "lengths")) c->arg[arg].index = draw_length;
}

static op_case recur(const tn_operator *op, const tn_dtype *types, const network *n,
                     unsigned round) {
  const bool lstm = op->id == TN_OP_LSTM || op->id == TN_OP_LSTM_GRAD;
  const bool gru = op->id == TN_OP_GRU || op->id == TN_OP_GRU_GRAD;
  const int64_t direction = round % 3, d = direction == 2 ? 2 : 1;
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++) {
    const bool optional =
        op->args[i].kind == TN_ARG_OPTIONAL_IN || op->args[i].kind == TN_ARG_OPTIONAL_OUT;
    if (!arg_is_output(&op->args[i]))
      shape_arg(&c, i, n, d, lstm ? 4 : gru ? 3 : 1, lstm ? 6 : gru ? 5 : 2);
    c.arg[i].absent = optional && round && combination_choice(round, i, 3) == 0;
  }
  case_set(&c, "direction", 0, (double)direction);
  case_set(&c, "clip", 0, combination_choice(round, 20, 3) == 0 ? 0.6 : 0);
  case_set(&c, "input_forget", 0, combination_choice(round, 21, 3) == 0);
  case_set(&c, "linear_before_reset", 0, combination_choice(round, 22, 2));
  if (combination_choice(round, 23, 3) == 0) {
    case_set(&c, "gate", 0, combination_choice(round, 24, 3));
    case_set(&c, "cell", 0, combination_choice(round, 25, 3));
    case_set(&c, "state", 0, combination_choice(round, 26, 3));
    case_set(&c, "hidden", 0, combination_choice(round, 27, 3));
  }
  c.seed += round;
  return c;
}

void cases_recurrent(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const network list[] = {{3, 2, 4, 5},   {1, 1, 1, 1},   {4, 3, 2, 1},    {2, 1, 7, 8},
                                 {5, 1, 3, 3},   {0, 2, 3, 4},   {3, 0, 3, 4},    {3, 2, 0, 4},
                                 {3, 2, 3, 0},   {6, 17, 5, 16}, {3, 4, 65, 9},   {7, 5, 8, 33},
                                 {2, 3, 12, 64}, {12, 1, 6, 20}, {2, 40, 10, 24}, {2, 4, 12, 64},
                                 {3, 16, 7, 64}, {3, 16, 5, 63}, {2, 15, 9, 65},  {5, 16, 1, 67}};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 6; k++) {
      op_case c = recur(op, types, &list[i], 6 * i + k);
      c.typical = i == 0 && k == 0;
      if (k == 1) c.variants |= VARIANT_PREPARED;
      if (k == 2) c.arg[0].expanded = 1;
      if (c.arg[0].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
  for (unsigned k = 0; k < 3; k++) { /* few sequences of more than a group of blocks shares */
    op_case c = recur(op, types, &(network){3, 3, 5, 301}, k);
    c.variants = VARIANT_MADE;
    sink.take(sink.ctx, &c);
  }
  op_case long_one = recur(op, types, &(network){70, 18, 19, 63}, 2); /* x has many rows */
  long_one.variants = VARIANT_MADE;
  sink.take(sink.ctx, &long_one);
  op_case large = recur(op, types, &(network){4, 70, 33, 130}, 0);
  large.variants = VARIANT_MADE;
  sink.take(sink.ctx, &large);
}

static bool degenerate_network(op_case *c, const int64_t *size, unsigned round) {
  const network n = {size[0], size[1], size[2], size[3]};
  *c = recur(c->op, c->types, &n, 3 * combination_choice(round, 0, 40) + (unsigned)size[4]);
  return true;
}

void degenerate_recurrent(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "12", "012"};
  combine(op, types, &(combination){5, sizes, degenerate_network, true}, sink);
}

void sizes_recurrent(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const bool device = large >= 1 << 26;
  const network list[] = {{50, 1, 128, 128}, {device ? 200 : 50, device ? 64 : 16, 256, 512}};
  for (unsigned i = 0; i < 2; i++) {
    op_case c = recur(op, types, &list[i], 0);
    const int64_t gates = c.arg[op->shape == TN_SHAPE_RECURRENT ? 2 : 0].shape[1];
    for (uint32_t k = 0; k < op->num_args; k++)
      c.arg[k].absent = op->args[k].kind == TN_ARG_OPTIONAL_IN;
    c.flops = 2.0 * (double)(list[i].steps * list[i].sequences * gates * list[i].hidden);
    sink.take(sink.ctx, &c);
  }
}
