/*
 * One case of an operator's gradient: a program's, of sum(c y) over the float64 outputs y with
 * random c, against central differences of the operator itself, computed on the reference.
 */
#ifndef TENON_TESTS_TRIAL_H
#define TENON_TESTS_TRIAL_H

#include "tenon/graph.h"
#include "tools/check/cases/op_case.h"

/* The greatest error, as a share of the sum of the terms' sizes. */
#define TRIAL_BOUND 1e-6

typedef enum verdict {
  TRIAL_HELD,
  TRIAL_WRONG,
  TRIAL_REFUSED,  /* UNSUPPORTED: there is no rule */
  TRIAL_DECLINED, /* the operator does not take the case */
  TRIAL_EMPTY,    /* no float64 input decides a float64 output */
  TRIAL_UNEVEN,   /* at a kink or without finite numbers: other points are wanted */
} verdict;

typedef struct trial {
  tn_device *device;
  const op_case *c;
  uint64_t seed;    /* of points, weights, directions and what follows: */
  unsigned variant; /* which inputs are views, which outputs count, which gradients are wanted */
  bool second;      /* the loss is sum(c g) over the gradients g of the other */
  bool tied;        /* elements that are alike are ties: no input is repeated along an axis */
  /* results */
  uint64_t compared; /* directional derivatives */
  double worst;      /* error */
  char text[2048];   /* what is wrong */
} trial;

verdict trial_run(trial *t);

#endif
