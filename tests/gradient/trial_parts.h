/* The parts of a trial: its call with real tensors, its graph, its differences. */
#ifndef TENON_TESTS_TRIAL_PARTS_H
#define TENON_TESTS_TRIAL_PARTS_H

#include "trial.h"

enum { WHOLE, REVERSED, SLICED, EXPANDED, RECIPES };

/* One argument of the call: what it is a view of, as numbers, as a real tensor and in the graph. */
typedef struct operand {
  bool given, varied;
  int recipe;
  uint32_t expanded;
  int32_t rank;
  int64_t shape[TN_MAX_RANK]; /* of the base */
  int64_t elements;           /* of the base */
  double *start, *gradient;
  tn_tensor *base, *view, *work; /* work: what an in-out argument's call updates */
  tn_tensor *input, *symbol;
  double *weights; /* in the loss, of an output or of the gradient by an input */
} operand;

typedef struct session {
  trial *t;
  const op_case *c;
  uint32_t num_in, num_args;
  double step;
  double size;  /* of the loss: the sum of its terms' sizes */
  double least; /* what derivatives are compared with at least */
  bool wrong;
  operand o[CASE_ARGS];
  size_t most;       /* numbers that `read` has room for */
  double *read;      /* room for the numbers of an output */
  tn_program *first; /* in second order: what computes the first gradients */
} session;

/* What is wrong, once. Returns false. */
bool wrong(session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool went(session *s, tn_status status) {
  return status == TN_OK || wrong(s, "%s", tn_last_error());
}
/* Zeros, and at least one. */
void *room(size_t n, size_t size);
/* Lets `read` take n numbers. */
void make_room(session *s, size_t n);

/* trial_call.c */
bool is_inout(const session *s, uint32_t i);
bool lay_out(session *s, uint32_t i);
tn_status view_of(const operand *o, const case_arg *a, tn_tensor *base, tn_tensor **view);
tn_call call_of(session *s, const tn_tensor **in, tn_tensor **out);
/* Calls the operator for the inputs as they are. */
tn_status compute(session *s);
/* Gives weights to the outputs that the loss has; how many there could be. */
unsigned weigh(session *s);
/* The loss for the inputs as they are; its size. */
double call_loss(session *s);

/* trial_graph.c */
/* Takes the gradients by the inputs `of`, of the loss or, in second order, of theirs. */
verdict differentiate(session *s, size_t n, const uint32_t *of);
double program_loss(session *s);

#endif
