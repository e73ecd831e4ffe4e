/*
 * Which values a sum of bounded multiples can have: step[0] x[0] + step[1] x[1] + ... with
 * 0 <= x[k] <= most[k]. It is what asking for an element that two strided views share comes to.
 */
#ifndef TENON_DISPATCHER_DIOPHANTINE_H
#define TENON_DISPATCHER_DIOPHANTINE_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon/base.h"

enum { DIOPHANTINE_TERMS = 2 * TN_MAX_RANK + 2 };

typedef struct diophantine {
  int32_t count;
  bool overflows;                  /* some figure has no room: nothing is known */
  int64_t step[DIOPHANTINE_TERMS]; /* positive, falling */
  int64_t most[DIOPHANTINE_TERMS];
} diophantine;

/* Adds a term. Steps and bounds of 0 add nothing; neither is negative. */
void diophantine_add(diophantine *l, int64_t step, int64_t most);

/* Whether the sum can be `target`. Takes `*work` down by the steps that it took; where none are
 * left, or figures overflow, the answer is that it can. The problem is NP-hard at its worst;
 * strides that nest, or have a divisor that decides, take a few steps. */
bool diophantine_solvable(const diophantine *l, int64_t target, uint32_t *work);

/* The greatest common divisor; of a number and 0, the number. */
static inline uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

#endif
