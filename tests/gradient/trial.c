/* Gradients against differences; see trial.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"
#include "trial_parts.h"

bool wrong(session *s, const char *format, ...) {
  va_list args;
  char text[1024];
  if (s->wrong) return false;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  s->wrong = true;
  case_describe(s->c, s->t->text, 1000);
  size_t used = strlen(s->t->text);
  snprintf(s->t->text + used, sizeof s->t->text - used, " variant=%u%s: %s", s->t->variant,
           s->t->second ? ", second derivatives" : "", text);
  return false;
}

void *room(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  if (!p) abort();
  return p;
}

/* --- differences --- */

void make_room(session *s, size_t n) {
  if (s->read && n <= s->most) return;
  free(s->read);
  s->read = room(n, sizeof *s->read);
  s->most = n;
}

static double loss_at(session *s, operand *o, const double *direction, double step) {
  double *numbers = tn_tensor_data(o->base);
  for (int64_t k = 0; k < o->elements; ++k) numbers[k] = o->start[k] + step * direction[k];
  return s->first ? program_loss(s) : call_loss(s);
}

/* One directional derivative by one input, extrapolated from two steps. */
static verdict compare(session *s, uint32_t arg, const double *direction) {
  operand *o = &s->o[arg];
  double d[2], slope = 0, size = 0;
  for (int k = 0; k < 2; ++k) {
    const double h = s->step / (1 << k);
    d[k] = (loss_at(s, o, direction, h) - loss_at(s, o, direction, -h)) / (2 * h);
  }
  memcpy(tn_tensor_data(o->base), o->start, (size_t)o->elements * sizeof(double));
  if (s->wrong) return TRIAL_WRONG;
  for (int64_t k = 0; k < o->elements; ++k) {
    slope += o->gradient[k] * direction[k];
    size += fabs(o->gradient[k] * direction[k]);
  }
  const double want = (4 * d[1] - d[0]) / 3;
  const double even = fmax(fmax(fabs(want), size), 1e-4 * s->size + s->least) + 1e-300;
  if (!isfinite(want)) return TRIAL_UNEVEN;
  if (!(fabs(slope - want) <= TRIAL_BOUND * even) && fabs(d[0] - d[1]) > 1e-5 * even)
    return TRIAL_UNEVEN;
  ++s->t->compared;
  const double error = fabs(slope - want) / even;
  if (error > s->t->worst) s->t->worst = error;
  if (error <= TRIAL_BOUND) return TRIAL_HELD;
  wrong(s, "by %s in a direction: %.15g, the difference is %.15g", s->c->op->args[arg].name, slope,
        want);
  return TRIAL_WRONG;
}

/* Element by element where they are few, else some directions and one element. */
static verdict compare_all(session *s, uint32_t arg) {
  enum { FEW = 5, DIRECTIONS = 2 };
  operand *o = &s->o[arg];
  const int64_t n = o->elements, rounds = n <= FEW ? n : DIRECTIONS + 1;
  double *direction = room((size_t)n, sizeof *direction);
  verdict v = TRIAL_HELD;
  for (int64_t i = 0; v == TRIAL_HELD && i < rounds; ++i) {
    const uint64_t seed = s->t->seed * 8 + (uint64_t)i + 1000 * arg;
    memset(direction, 0, (size_t)n * sizeof *direction);
    if (n <= FEW)
      direction[i] = 1;
    else if (i == DIRECTIONS)
      direction[(int64_t)(points_unit(seed, 0) * (double)n)] = 1;
    else
      for (int64_t k = 0; k < n; ++k) direction[k] = 2 * points_unit(seed, (uint64_t)k) - 1;
    v = compare(s, arg, direction);
  }
  free(direction);
  return v;
}

/* --- the whole --- */

/* The inputs whose gradients this variant asks for: all, or one alone. */
static size_t choose(const session *s, uint32_t *of) {
  size_t n = 0;
  for (uint32_t i = 0; i < s->num_args; ++i)
    if (s->o[i].varied) of[n++] = i;
  if (n > 1 && s->t->variant % 3 == 2) {
    of[0] = of[case_mix(s->t->seed) % n];
    n = 1;
  }
  return n;
}

static verdict run(session *s) {
  uint32_t of[CASE_ARGS];
  const size_t n = choose(s, of);
  if (!n) return TRIAL_EMPTY;
  if (compute(s)) return TRIAL_DECLINED;
  if (!weigh(s)) return s->wrong ? TRIAL_WRONG : TRIAL_EMPTY;
  verdict v = differentiate(s, n, of);
  for (size_t i = 0; v == TRIAL_HELD && i < n; ++i) v = compare_all(s, of[i]);
  return v;
}

verdict trial_run(trial *t) {
  session s = {.t = t, .c = t->c, .step = 1};
  s.num_in = op_inputs(t->c->op);
  s.num_args = t->c->op->num_args;
  bool fine = true;
  for (uint32_t i = 0; fine && i < s.num_args; ++i)
    if (!t->c->arg[i].absent && !arg_is_output(&t->c->op->args[i])) fine = lay_out(&s, i);
  const verdict v = fine ? run(&s) : TRIAL_WRONG;
  for (uint32_t i = 0; i < s.num_args; ++i) {
    operand *o = &s.o[i];
    tn_tensor_release(o->base);
    tn_tensor_release(o->view);
    tn_tensor_release(o->work);
    free(o->start);
    free(o->gradient);
    free(o->weights);
  }
  free(s.read);
  tn_program_destroy(s.first);
  return v;
}
