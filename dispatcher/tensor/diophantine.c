/*
 * Bounded linear Diophantine equations by search from the largest step down. At every step the
 * rest must lie within reach of the smaller terms and be divisible by what divides all of them,
 * which for strides that nest leaves one or two choices.
 * After NumPy's solve_may_share_memory (P. Virtanen, mem_overlap.c).
 */
#include "dispatcher/tensor/diophantine.h"

/* The terms with what their tails come to. */
typedef struct search {
  const diophantine *l;
  int64_t reach[DIOPHANTINE_TERMS + 1];   /* the largest sum of terms k and on */
  int64_t divisor[DIOPHANTINE_TERMS + 1]; /* divides all of terms k and on; 0 behind the last */
  uint32_t *work;
} search;

void diophantine_add(diophantine *l, int64_t step, int64_t most) {
  int32_t at = 0;
  if (step == 0 || most == 0) return;
  while (at < l->count && l->step[at] > step) ++at;
  if (at < l->count && l->step[at] == step) {
    if (__builtin_add_overflow(l->most[at], most, &l->most[at])) l->overflows = true;
    return;
  }
  for (int32_t i = l->count++; i > at; --i) {
    l->step[i] = l->step[i - 1];
    l->most[i] = l->most[i - 1];
  }
  l->step[at] = step;
  l->most[at] = most;
}

/* False if something overflows. */
static bool search_begin(search *s) {
  const diophantine *l = s->l;
  s->reach[l->count] = s->divisor[l->count] = 0;
  for (int32_t k = l->count - 1; k >= 0; --k) {
    if (__builtin_mul_overflow(l->step[k], l->most[k], &s->reach[k]) ||
        __builtin_add_overflow(s->reach[k], s->reach[k + 1], &s->reach[k]))
      return false;
    s->divisor[k] = (int64_t)common_divisor((uint64_t)l->step[k], (uint64_t)s->divisor[k + 1]);
  }
  return !l->overflows;
}

/* Whether terms k and on can come to the target. */
static bool reaches(search *s, int32_t k, int64_t target) {
  const diophantine *l = s->l;
  if (target < 0 || target > s->reach[k]) return false;
  if (k == l->count) return true;
  if (target % s->divisor[k]) return false;
  if (k == l->count - 1) return true;
  int64_t step = l->step[k], rest = s->reach[k + 1], divisor = s->divisor[k + 1];
  int64_t low = target > rest ? (target - rest + step - 1) / step : 0;
  int64_t high = target / step < l->most[k] ? target / step : l->most[k];
  /* What is left is divisible by `divisor` once in so many choices. */
  int64_t period = divisor / (int64_t)common_divisor((uint64_t)step, (uint64_t)divisor);
  for (int64_t x = high; x >= low;) {
    if (*s->work == 0) return true;
    --*s->work;
    bool divides = (target - x * step) % divisor == 0;
    if (divides && reaches(s, k + 1, target - x * step)) return true;
    x -= divides ? period : 1;
  }
  return false;
}

bool diophantine_solvable(const diophantine *l, int64_t target, uint32_t *work) {
  search s = {.l = l, .work = work};
  if (*work) --*work;
  return !search_begin(&s) || reaches(&s, 0, target);
}
