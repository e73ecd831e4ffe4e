/*
 * Points at which a function is differentiated: numbers of each operator's domain that keep away
 * from kinks, which lie at round numbers, and from ties, wherever in a call they could be.
 */
#ifndef TENON_TESTS_POINTS_H
#define TENON_TESTS_POINTS_H

#include "tools/check/cases/op_case.h"

/* Draws n distinct numbers for argument `arg`. Returns how far each may move. */
double points_fill(const op_case *c, uint32_t arg, uint64_t seed, int64_t n, double *values);

/* A number of the sequence that `seed` begins, 0 <= u < 1. */
double points_unit(uint64_t seed, uint64_t place);

#endif
