/*
 * Numbers that hosts give and get beside tensors: a whole one up to 64 bits or a float64, and
 * how each element type holds it.
 */
#ifndef TENON_DISPATCHER_NUMBER_H
#define TENON_DISPATCHER_NUMBER_H

#include "tenon/base.h"

typedef struct number {
  bool whole; /* `i` is the number, else `f` */
  int64_t i;
  double f;
} number;

/* Refuses a number that an integer type does not hold: out of its range, or with a fraction. */
tn_status number_check(const char *function, tn_dtype dtype, number n);

/* The float64 from which tn_fill's conversion gives what the number itself would; false where
 * there is none. pre: number_check. */
bool number_as_f64(tn_dtype dtype, number n, double *out);

/* Writes one element: floats are rounded once, to nearest even, and a bool is n != 0.
 * pre: number_check; `element` has room for tn_dtype_size(dtype) bytes. */
void number_store(tn_dtype dtype, number n, void *element);
/* Reads one element, exactly; a bool as 0 or 1. */
number number_load(tn_dtype dtype, const void *element);

#endif
