/*
 * Rules of ops/recurrent.def. The fused operator goes back through the steps and gives the
 * gradients by the gates' inputs; those by what was multiplied are products over all steps at once.
 */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

enum { X, W, U, BIAS, LENGTHS, H0, C0, P };

typedef struct recurrence {
  int64_t steps, sequences, directions, hidden, inputs, gates;
  const tn_tensor *reserve, *dgates;
} recurrence;

static recurrence recurrence_of(const rule *r, const tn_tensor *reserve) {
  const rule_shape *x = &r->in_shape[X], *w = &r->in_shape[U];
  return (recurrence){.steps = x->size[0],
                      .sequences = x->size[1],
                      .inputs = x->size[2],
                      .directions = w->size[0],
                      .hidden = w->size[2],
                      .gates = w->size[2] ? w->size[1] / w->size[2] : 1,
                      .reserve = reserve};
}

static const tn_tensor *part(rule *r, const recurrence *c, const tn_tensor *rows, int64_t first,
                             int64_t count) {
  return rule_slice(r, rows, 3, first * c->hidden, (first + count) * c->hidden, 1);
}

/* [s, n, d, k] of parts `first` on as [d, s n, k]. */
static const tn_tensor *by_direction(rule *r, const recurrence *c, const tn_tensor *rows,
                                     int64_t first, int64_t count) {
  static const int32_t front[] = {2, 0, 1, 3};
  const int64_t size[] = {c->directions, c->steps * c->sequences, count * c->hidden};
  return rule_reshape(r, rule_permute(r, part(r, c, rows, first, count), front), 3, size);
}

/* [d, gates h, h] = sum over steps and sequences of dz^T state. */
static const tn_tensor *by_weights(rule *r, const tn_tensor *dz, const tn_tensor *state) {
  const tn_matmul_attrs attrs = {.struct_size = sizeof attrs, .trans_a = 1};
  return matmul(dz, rule_cast_like(r, state, dz), NULL, &attrs);
}

/* [s, n, d, gates h], over all steps and sequences, as [d, gates h]. */
static const tn_tensor *summed(rule *r, const tn_tensor *dz) {
  const tn_sum_attrs attrs = {.struct_size = sizeof attrs, .axes = {.count = 2, .axis = {0, 1}}};
  return sum(dz, &attrs);
}

static const tn_tensor *joined(rule *r, const tn_tensor *a, const tn_tensor *b, int64_t axis) {
  const tn_concat_attrs attrs = {.struct_size = sizeof attrs, .axis = axis};
  const tn_tensor *both[] = {a, b}, *y = NULL;
  rule_call(r, TN_OP_CONCAT, &attrs, 2, both, 1, &y, 0);
  return y;
}

/* By x and w, whose product is one over all steps and directions. */
static void give_inputs(rule *r, const recurrence *c) {
  const int64_t rows = c->steps * c->sequences, width = c->directions * c->gates * c->hidden;
  const tn_matmul_attrs turned = {.struct_size = sizeof turned, .trans_a = 1};
  const tn_tensor *dz =
      rule_reshape(r, part(r, c, c->dgates, 0, c->gates), 2, (int64_t[]){rows, width});
  if (rule_wants(r, X)) {
    const tn_tensor *w = rule_reshape(r, r->in[W], 2, (int64_t[]){width, c->inputs});
    const tn_tensor *dx = matmul(dz, w, NULL, NULL);
    rule_give(r, X, rule_reshape(r, dx, 3, r->in_shape[X].size));
  }
  if (rule_wants(r, W)) {
    const tn_tensor *x = rule_reshape(r, r->in[X], 2, (int64_t[]){rows, c->inputs});
    const tn_tensor *dw = matmul(dz, x, NULL, &turned);
    rule_give(r, W, rule_reshape(r, dw, 3, r->in_shape[W].size));
  }
}

/* By u and bias where the state before a step, part `state` of the reserve, was multiplied. */
static void give_recurrent(rule *r, const recurrence *c, int64_t state) {
  if (rule_wants(r, U))
    rule_give(r, U,
              by_weights(r, by_direction(r, c, c->dgates, 0, c->gates),
                         by_direction(r, c, c->reserve, state, 1)));
  if (!rule_wants(r, BIAS)) return;
  const tn_tensor *db = summed(r, c->dgates);
  rule_give(r, BIAS, joined(r, db, db, 1));
}

static bool wants_some(const rule *r) {
  for (uint32_t i = 0; i < r->num_in; ++i)
    if (i != LENGTHS && rule_wants(r, i)) return true;
  return false;
}

void gradient_lstm(rule *r) {
  const tn_tensor *const *dy = r->out_gradient, *dh0 = NULL, *dc0 = NULL, *dp = NULL;
  recurrence c = recurrence_of(r, r->out[3]);
  if (!wants_some(r)) return;
  lstm_grad(r->in[U], c.reserve, r->in[LENGTHS], dy[0], dy[1], dy[3], dy[2], r->in[P], SAME,
            &c.dgates, &dh0, &dc0, &dp);
  give_inputs(r, &c);
  give_recurrent(r, &c, 5);
  if (rule_wants(r, H0)) rule_give(r, H0, dh0);
  if (rule_wants(r, C0)) rule_give(r, C0, dc0);
  if (rule_wants(r, P)) rule_give(r, P, dp);
}

/* The gate h gets from the state what is part 3 of dgates, times the state or, where that was
 * reset first, times what was reset. */
static void give_gru_recurrent(rule *r, const recurrence *c) {
  const bool linear = ((const tn_gru_attrs *)r->attrs)->linear_before_reset;
  if (rule_wants(r, U)) {
    const tn_tensor *two =
        by_weights(r, by_direction(r, c, c->dgates, 0, 2), by_direction(r, c, c->reserve, 3, 1));
    const tn_tensor *third = by_weights(r, by_direction(r, c, c->dgates, 3, 1),
                                        by_direction(r, c, c->reserve, linear ? 3 : 4, 1));
    rule_give(r, U, joined(r, two, third, 1));
  }
  if (!rule_wants(r, BIAS)) return;
  const tn_tensor *of_inputs = summed(r, part(r, c, c->dgates, 0, 3));
  const tn_tensor *of_state =
      joined(r, summed(r, part(r, c, c->dgates, 0, 2)), summed(r, part(r, c, c->dgates, 3, 1)), 1);
  rule_give(r, BIAS, joined(r, of_inputs, of_state, 1));
}

void gradient_gru(rule *r) {
  const tn_tensor *const *dy = r->out_gradient, *dh0 = NULL;
  recurrence c = recurrence_of(r, r->out[2]);
  if (!wants_some(r)) return;
  gru_grad(r->in[U], c.reserve, r->in[LENGTHS], dy[0], dy[1], dy[2], SAME, &c.dgates, &dh0);
  give_inputs(r, &c);
  give_gru_recurrent(r, &c);
  if (rule_wants(r, H0)) rule_give(r, H0, dh0);
}

void gradient_rnn(rule *r) {
  const tn_tensor *const *dy = r->out_gradient, *dh0 = NULL;
  recurrence c = recurrence_of(r, r->out[2]);
  if (!wants_some(r)) return;
  rnn_grad(r->in[U], c.reserve, r->in[LENGTHS], dy[0], dy[1], dy[2], SAME, &c.dgates, &dh0);
  give_inputs(r, &c);
  give_recurrent(r, &c, 1);
  if (rule_wants(r, H0)) rule_give(r, H0, dh0);
}
