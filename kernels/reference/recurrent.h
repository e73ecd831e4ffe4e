/*
 * Recurrent networks in double: what the forward operators and their gradients share. Tensors come
 * as dense arrays; one unit of work is one sequence in one direction.
 */
#ifndef TENON_KERNELS_REFERENCE_RECURRENT_H
#define TENON_KERNELS_REFERENCE_RECURRENT_H

#include "iterate.h"

typedef struct network {
  const tn_host *host;
  const void *attrs;
  int64_t steps, sequences, directions, hidden, inputs;
  int64_t gates, grad_gates, reserved; /* of w and r; of dgates; parts of reserve */
  int64_t direction;
  double clip;                                            /* infinite: none */
  const double *x, *w, *r, *bias, *h0, *c0, *p;           /* forward; NULL: absent */
  const double *reserve_in, *dy, *dy_h, *dy_c, *dreserve; /* gradient */
  double *y, *y_h, *y_c, *reserve;                        /* forward */
  double *dgates, *dh0, *dc0, *dp;                        /* gradient */
  const DLTensor *lengths;
  double *memory[20];
  int used;
  bool failed; /* there was no memory */
} network;

/* A tensor as a dense array, and an array of zeros for one; NULL for NULL, and after a failure. */
const double *network_input(network *n, const DLTensor *t);
double *network_output(network *n, const DLTensor *t);
/* An array of `count` zeros. */
double *network_room(network *n, int64_t count);
/* Stores what an array of network_output got; releases all memory. Returns the status. */
void network_store(const network *n, const DLTensor *t, const double *from);
tn_status network_end(network *n, tn_status status);

/* One sequence in one direction, its steps in the order in which they are taken. */
typedef struct sequence {
  const network *n;
  int64_t direction, number, length;
  bool reversed;
} sequence;

sequence sequence_of(const network *n, int64_t unit);
/* The step's place in x and y. */
static inline int64_t step_at(const sequence *s, int64_t step) {
  return s->reversed ? s->length - 1 - step : step;
}
/* Where rows of [s, d, n, h], of [s, n, d, ...] and of [d, n, h] begin, in rows. */
static inline int64_t row_of_y(const sequence *s, int64_t t) {
  return (t * s->n->directions + s->direction) * s->n->sequences + s->number;
}
static inline int64_t row_of_gates(const sequence *s, int64_t t) {
  return (t * s->n->sequences + s->number) * s->n->directions + s->direction;
}
static inline int64_t row_of_state(const sequence *s) {
  return s->direction * s->n->sequences + s->number;
}

/* Activations by the operators' codes, of a clipped input, and their slopes by the input. */
double network_activate(const network *n, int64_t code, double x);
double network_slope(const network *n, int64_t code, double x);

#endif
