/* A trial's call with real tensors, and its loss. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"
#include "trial_parts.h"

/* --- inputs --- */

tn_status view_of(const operand *o, const case_arg *a, tn_tensor *base, tn_tensor **view) {
  int32_t axes[TN_MAX_RANK];
  tn_tensor *now = base, *next = NULL;
  tn_status status = TN_OK;
  for (int32_t i = 0; i < a->rank; ++i) axes[i] = a->rank - 1 - i;
  if (o->recipe == REVERSED) return tn_tensor_permute(base, axes, view);
  if (o->recipe == EXPANDED) return tn_tensor_expand(base, a->rank, a->shape, view);
  tn_tensor_retain(base);
  for (int32_t i = 0; o->recipe == SLICED && !status && i < a->rank; ++i, now = next) {
    const int64_t step = i == a->rank - 1 ? 2 : 1;
    status = tn_tensor_slice(now, i, 1, 1 + step * a->shape[i], step, &next);
    tn_tensor_release(now);
  }
  if (!status) *view = now;
  return status;
}

static int recipe_of(const session *s, uint32_t arg, operand *o) {
  const case_arg *a = &s->c->arg[arg];
  o->expanded = a->expanded;
  if (a->rank == 0) return WHOLE;
  if (o->expanded) return s->t->tied ? WHOLE : EXPANDED;
  if (!s->t->variant) return WHOLE;
  const int recipe = (int)(case_mix(s->t->seed * 31 + arg) % (RECIPES + 1)) - 1;
  if (recipe != EXPANDED) return recipe < 0 ? WHOLE : recipe;
  o->expanded = (uint32_t)(case_mix(s->t->seed) % (1u << a->rank));
  return s->t->tied || !o->expanded || arg >= s->num_in ? WHOLE : EXPANDED;
}

static void shape_base(operand *o, const case_arg *a) {
  o->rank = a->rank;
  o->elements = 1;
  for (int32_t i = 0; i < a->rank; ++i) {
    const int64_t size = a->shape[o->recipe == REVERSED ? a->rank - 1 - i : i];
    o->shape[i] = o->recipe == SLICED                                     ? 2 * size + 1
                  : o->recipe == EXPANDED && o->expanded >> i & 1 && size ? 1
                                                                          : size;
    o->elements *= o->shape[i];
  }
}

bool lay_out(session *s, uint32_t i) {
  operand *o = &s->o[i];
  const case_arg *a = &s->c->arg[i];
  const tn_dtype dtype = case_dtype(s->c, i);
  o->given = true;
  o->varied = dtype == TN_F64 && !a->index;
  o->recipe = o->varied ? recipe_of(s, i, o) : WHOLE;
  shape_base(o, a);
  void *numbers = room((size_t)o->elements, 8);
  if (o->varied) {
    const double step = points_fill(s->c, i, s->t->seed * 64 + i, o->elements, numbers);
    s->step = step < s->step ? step : s->step;
    o->start = room((size_t)o->elements, sizeof *o->start);
    o->gradient = room((size_t)o->elements, sizeof *o->gradient);
    memcpy(o->start, numbers, (size_t)o->elements * sizeof(double));
  } else {
    case_fill(s->c, i, numbers);
  }
  tn_status status = tn_tensor_from_host(s->t->device, dtype, o->rank, o->shape, numbers, &o->base);
  free(numbers);
  return went(s, status) && went(s, view_of(o, a, o->base, &o->view));
}

tn_call call_of(session *s, const tn_tensor **in, tn_tensor **out) {
  tn_call call = {.struct_size = sizeof call,
                  .op = s->c->op->id,
                  .in = in,
                  .out = out,
                  .attrs = s->c->op->num_attrs ? s->c->attrs : NULL,
                  .num_in = (uint16_t)s->num_in,
                  .num_out = (uint16_t)(s->num_args - s->num_in)};
  for (uint32_t i = s->num_in; i < s->num_args; ++i)
    if (s->c->arg[i].absent) call.skip_out |= 1u << (i - s->num_in);
  return call;
}

/* --- the function --- */

bool is_inout(const session *s, uint32_t i) { return s->c->op->args[i].kind == TN_ARG_INOUT; }

tn_status compute(session *s) {
  const tn_tensor *in[CASE_ARGS] = {NULL};
  tn_tensor *out[CASE_ARGS] = {NULL};
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < s->num_args && !status; ++i) {
    if (i < s->num_in)
      in[i] = s->o[i].view;
    else if (is_inout(s, i))
      status = tn_copy(NULL, s->o[i].view, &s->o[i].work);
    if (i >= s->num_in) out[i - s->num_in] = s->o[i].work;
  }
  const tn_call call = call_of(s, in, out);
  if (!status) status = tn_invoke(&call);
  for (uint32_t i = s->num_in; i < s->num_args && !status; ++i) s->o[i].work = out[i - s->num_in];
  return status;
}

/* sum(c y), with Kahan's sum: its rounding shall not be seen. */
double call_loss(session *s) {
  double sum = 0, lost = 0;
  s->size = 0;
  if (!went(s, compute(s))) return NAN;
  for (uint32_t i = s->num_in; i < s->num_args; ++i) {
    const operand *o = &s->o[i];
    if (!o->weights) continue;
    const size_t bytes = tn_tensor_bytes(o->work);
    if (!went(s, tn_tensor_to_host(o->work, s->read, bytes))) return NAN;
    for (size_t k = 0; k < bytes / sizeof(double); ++k) {
      const double term = o->weights[k] * s->read[k] - lost, next = sum + term;
      lost = next - sum - term;
      sum = next;
      s->size += fabs(term);
    }
  }
  return sum;
}

static bool is_finite(session *s, const operand *o) {
  const size_t bytes = tn_tensor_bytes(o->work);
  make_room(s, bytes / sizeof(double));
  if (!went(s, tn_tensor_to_host(o->work, s->read, bytes))) return false;
  for (size_t k = 0; k < bytes / sizeof(double); ++k)
    if (!isfinite(s->read[k])) return false;
  return true;
}

/* Weights for the outputs that this variant's loss has: all, or one alone. */
unsigned weigh(session *s) {
  uint32_t chosen[CASE_ARGS];
  unsigned count = 0;
  for (uint32_t i = s->num_in; i < s->num_args; ++i)
    if (s->o[i].work && tn_tensor_dtype(s->o[i].work) == TN_F64 && is_finite(s, &s->o[i]))
      chosen[count++] = i;
  for (unsigned k = 0; k < count; ++k) {
    operand *o = &s->o[chosen[k]];
    const unsigned alone = s->t->variant % (count + 1);
    const size_t n = (size_t)tn_tensor_elements(o->work);
    if (count > 1 && alone && alone - 1 != k) continue;
    o->weights = room(n, sizeof *o->weights);
    for (size_t j = 0; j < n; ++j) {
      const double u = 2 * points_unit(s->t->seed + 77 + k, j) - 1;
      o->weights[j] = u + (u < 0 ? -0.5 : 0.5);
      s->least += 1e-8 * fabs(o->weights[j]);
    }
  }
  return count;
}
