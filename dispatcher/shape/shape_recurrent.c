/*
 * Shape rules of recurrent networks: what the operators' gates are, and the sizes that all their
 * arguments share.
 */
#include "dispatcher/shape/shape_rules.h"

/* What tells the networks from each other: gates of w and u, and of their gradient; parts of what
 * is reserved. */
typedef struct network {
  int64_t gates, grad_gates, reserved;
} network;

static network network_of(const shape_query *q) {
  switch (q->op->id) {
  case TN_OP_LSTM:
  case TN_OP_LSTM_GRAD:
    return (network){4, 4, 6};
  case TN_OP_GRU:
  case TN_OP_GRU_GRAD:
    return (network){3, 4, 5};
  default:
    return (network){1, 1, 2};
  }
}

typedef struct sizes {
  int64_t steps, sequences, directions, hidden;
} sizes;

static bool has_shape(const DLTensor *t, int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t want[] = {a, b, c, d};
  if (!t) return true;
  bool fits = t->ndim == rank;
  for (int32_t i = 0; fits && i < rank; ++i) fits = t->shape[i] == want[i];
  return fits;
}

static tn_status check_state(const shape_query *q, const sizes *s, const DLTensor *t) {
  if (has_shape(t, 3, s->directions, s->sequences, s->hidden, 0)) return TN_OK;
  return shape_refuse(q, "states must be [d, n, h] for u", t, NULL);
}

static tn_status check_lengths(const shape_query *q, const sizes *s, const DLTensor *t) {
  if (has_shape(t, 1, s->sequences, 0, 0, 0)) return TN_OK;
  return shape_refuse(q, "lengths must be [n]", t, NULL);
}

/* The directions and the hidden size, which u has. */
static tn_status read_weights(const shape_query *q, const DLTensor *r, sizes *s) {
  const int64_t gates = network_of(q).gates;
  const bool both = ((const tn_rnn_attrs *)q->attrs)->direction == 2; /* all begin with it */
  s->directions = 1 + both;
  s->hidden = r->ndim == 3 ? r->shape[2] : 0;
  if (r->ndim != 3 || s->hidden > INT64_MAX / 8 || r->shape[1] != gates * s->hidden)
    return shape_refuse(q, "u must be [d, gates h, h], of 4 gates in lstm, 3 in gru, 1 in rnn", r,
                        NULL);
  if (r->shape[0] == s->directions) return TN_OK;
  return shape_refuse(q, "u must have 2 directions where attrs->direction is 2, else 1", r, NULL);
}

static void state_shape(extents *out, const sizes *s) {
  *out = (extents){.rank = 3, .dim = {s->directions, s->sequences, s->hidden}};
}

tn_status shape_rule_recurrent(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *w = q->in[1], *bias = q->in[3],
                 *p = q->num_in > 7 ? q->in[7] : NULL;
  sizes s;
  tn_status status = read_weights(q, q->in[2], &s);
  if (status) return status;
  const network n = network_of(q);
  if (x->ndim != 3) return shape_refuse(q, "x must be [s, n, i]", x, NULL);
  s.steps = x->shape[0];
  s.sequences = x->shape[1];
  if (!has_shape(w, 3, s.directions, n.gates * s.hidden, x->shape[2], 0))
    return shape_refuse(q, "w must be [d, gates h, i] for x [s, n, i] and u", w, x);
  if (!has_shape(bias, 2, s.directions, 2 * n.gates * s.hidden, 0, 0))
    return shape_refuse(q, "bias must be [d, 2 gates h] for u", bias, q->in[2]);
  if (!has_shape(p, 2, s.directions, 3 * s.hidden, 0, 0))
    return shape_refuse(q, "p must be [d, 3 h] for u", p, q->in[2]);
  status = check_lengths(q, &s, q->in[4]);
  if (!status) status = check_state(q, &s, q->in[5]);
  if (!status && q->num_in > 6) status = check_state(q, &s, q->in[6]);
  if (status) return status;
  out[0] = (extents){.rank = 4, .dim = {s.steps, s.directions, s.sequences, s.hidden}};
  for (uint32_t i = 1; i + 1 < num_out; ++i) state_shape(&out[i], &s);
  out[num_out - 1] =
      (extents){.rank = 4, .dim = {s.steps, s.sequences, s.directions, n.reserved * s.hidden}};
  return TN_OK;
}

tn_status shape_rule_recurrent_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *reserve = q->in[1], *dy = q->in[3];
  const DLTensor *p = q->num_in > 7 ? q->in[7] : NULL;
  sizes s;
  tn_status status = read_weights(q, q->in[0], &s);
  if (status) return status;
  const network n = network_of(q);
  s.steps = reserve->ndim == 4 ? reserve->shape[0] : 0;
  s.sequences = reserve->ndim == 4 ? reserve->shape[1] : 0;
  if (!has_shape(reserve, 4, s.steps, s.sequences, s.directions, n.reserved * s.hidden))
    return shape_refuse(q, "reserve must be [s, n, d, parts h] as the forward operator gave it",
                        reserve, q->in[0]);
  if (!has_shape(dy, 4, s.steps, s.directions, s.sequences, s.hidden))
    return shape_refuse(q, "dy must be [s, d, n, h] for reserve", dy, reserve);
  if (q->in[5] && !shape_same(q->in[5], reserve))
    return shape_refuse(q, "dreserve must have reserve's shape", q->in[5], reserve);
  if (!has_shape(p, 2, s.directions, 3 * s.hidden, 0, 0))
    return shape_refuse(q, "p must be [d, 3 h] for u", p, q->in[0]);
  status = check_lengths(q, &s, q->in[2]);
  if (!status) status = check_state(q, &s, q->in[4]);
  if (!status && q->num_in > 6) status = check_state(q, &s, q->in[6]);
  if (status) return status;
  out[0] =
      (extents){.rank = 4, .dim = {s.steps, s.sequences, s.directions, n.grad_gates * s.hidden}};
  state_shape(&out[1], &s);
  if (num_out > 2) state_shape(&out[2], &s);
  if (num_out > 3) out[3] = (extents){.rank = 2, .dim = {s.directions, 3 * s.hidden}};
  return TN_OK;
}
