/* Gradients against differences; see trial.h. */
#include "trial.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"

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
  double *weights; /* of an output */
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
  double *read;
} session;

static bool wrong(session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(session *s, const char *format, ...) {
  va_list args;
  char text[1024];
  if (s->wrong) return false;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  s->wrong = true;
  case_describe(s->c, s->t->text, 1000);
  size_t used = strlen(s->t->text);
  snprintf(s->t->text + used, sizeof s->t->text - used, " variant=%u: %s", s->t->variant, text);
  return false;
}

static bool went(session *s, tn_status status) {
  return status == TN_OK || wrong(s, "%s", tn_last_error());
}

static void *room(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  if (!p) abort();
  return p;
}

/* --- inputs --- */

static tn_status view_of(const operand *o, const case_arg *a, tn_tensor *base, tn_tensor **view) {
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

static bool lay_out(session *s, uint32_t i) {
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

static tn_call call_of(session *s, const tn_tensor **in, tn_tensor **out) {
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

static bool is_inout(const session *s, uint32_t i) {
  return s->c->op->args[i].kind == TN_ARG_INOUT;
}

/* Calls the operator for the inputs as they are. */
static tn_status compute(session *s) {
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
static double loss(session *s) {
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
  s->read = realloc(s->read, bytes + 8);
  if (!s->read) abort();
  if (!went(s, tn_tensor_to_host(o->work, s->read, bytes))) return false;
  for (size_t k = 0; k < bytes / sizeof(double); ++k)
    if (!isfinite(s->read[k])) return false;
  return true;
}

/* Weights for the outputs that this variant's loss has: all, or one alone. */
static unsigned weigh(session *s) {
  uint32_t chosen[CASE_ARGS];
  unsigned count = 0;
  size_t most = 0;
  for (uint32_t i = s->num_in; i < s->num_args; ++i)
    if (s->o[i].work && tn_tensor_dtype(s->o[i].work) == TN_F64 && is_finite(s, &s->o[i]))
      chosen[count++] = i;
  for (unsigned k = 0; k < count; ++k) {
    operand *o = &s->o[chosen[k]];
    const unsigned alone = s->t->variant % (count + 1);
    const size_t n = (size_t)tn_tensor_elements(o->work);
    if (n > most) most = n;
    if (count > 1 && alone && alone - 1 != k) continue;
    o->weights = room(n, sizeof *o->weights);
    for (size_t j = 0; j < n; ++j) {
      const double u = 2 * points_unit(s->t->seed + 77 + k, j) - 1;
      o->weights[j] = u + (u < 0 ? -0.5 : 0.5);
      s->least += 1e-8 * fabs(o->weights[j]);
    }
  }
  s->read = realloc(s->read, (most + 1) * sizeof(double));
  if (!s->read) abort();
  return count;
}

/* --- the gradient --- */

static bool symbolic_inputs(session *s, tn_graph *g) {
  char name[32];
  bool fine = true;
  for (uint32_t i = 0; fine && i < s->num_args; ++i) {
    operand *o = &s->o[i];
    tn_tensor *copy = NULL;
    if (!o->given) continue;
    snprintf(name, sizeof name, "x%u", i);
    if (o->varied)
      fine = went(s, tn_graph_input(g, name, TN_F64, o->rank, o->shape, &o->input));
    else
      fine = went(s, tn_graph_constant(g, name, o->base, &o->input));
    fine = fine && went(s, view_of(o, &s->c->arg[i], o->input, &o->symbol));
    if (!fine || !is_inout(s, i)) continue;
    fine = went(s, tn_copy(NULL, o->symbol, &copy));
    tn_tensor_release(o->symbol);
    o->symbol = copy;
  }
  return fine;
}

/* The call in the graph: outputs are their operands' symbols. */
static bool symbolic_call(session *s) {
  const tn_tensor *in[CASE_ARGS] = {NULL};
  tn_tensor *out[CASE_ARGS] = {NULL};
  for (uint32_t i = 0; i < s->num_in; ++i) in[i] = s->o[i].symbol;
  for (uint32_t i = s->num_in; i < s->num_args; ++i) out[i - s->num_in] = s->o[i].symbol;
  const tn_call call = call_of(s, in, out);
  if (!went(s, tn_invoke(&call))) return false;
  for (uint32_t i = s->num_in; i < s->num_args; ++i) s->o[i].symbol = out[i - s->num_in];
  return true;
}

static tn_tensor *symbolic_loss(session *s, tn_graph *g) {
  tn_tensor *whole = NULL;
  char name[32];
  for (uint32_t i = s->num_in; !s->wrong && i < s->num_args; ++i) {
    const operand *o = &s->o[i];
    tn_tensor *real = NULL, *c = NULL, *product = NULL, *sum = NULL, *next = NULL;
    if (!o->weights) continue;
    snprintf(name, sizeof name, "c%u", i);
    if (went(s, tn_tensor_from_host(s->t->device, TN_F64, tn_tensor_rank(o->work),
                                    tn_tensor_shape(o->work), o->weights, &real)) &&
        went(s, tn_graph_constant(g, name, real, &c)) &&
        went(s, tn_mul(NULL, c, o->symbol, &product)) && went(s, tn_sum(NULL, product, NULL, &sum)))
      if (whole) went(s, tn_add(NULL, whole, sum, &next));
    if (next) {
      tn_tensor_release(whole);
      tn_tensor_release(sum);
    }
    whole = next ? next : sum;
    tn_tensor_release(real);
    tn_tensor_release(c);
    tn_tensor_release(product);
  }
  return whole;
}

/* Runs the program and reads the gradients that there are; the others are 0. */
static bool run_program(session *s, tn_graph *g, size_t n, const uint32_t *of,
                        tn_tensor *const *gradients) {
  const tn_tensor *in[CASE_ARGS];
  tn_tensor *out[CASE_ARGS] = {NULL};
  tn_program *p = NULL;
  size_t num_in = 0, num_out = 0;
  for (uint32_t i = 0; i < s->num_args; ++i)
    if (s->o[i].varied) in[num_in++] = s->o[i].base;
  bool fine = true;
  for (size_t i = 0; fine && i < n; ++i) {
    char name[16];
    snprintf(name, sizeof name, "g%zu", i);
    if (gradients[i]) fine = went(s, tn_graph_output(g, name, gradients[i])) && ++num_out;
  }
  if (!num_out) return fine;
  fine = fine && went(s, tn_graph_compile(g, s->t->device, NULL, &p)) &&
         went(s, tn_program_run(p, NULL, num_in, in, num_out, out));
  for (size_t i = 0, k = 0; fine && i < n; ++i) {
    operand *o = &s->o[of[i]];
    if (!gradients[i]) continue;
    const tn_tensor *got = out[k++];
    if (tn_tensor_dtype(got) != TN_F64 || tn_tensor_rank(got) != o->rank ||
        memcmp(tn_tensor_shape(got), o->shape, (size_t)o->rank * sizeof *o->shape) != 0)
      fine = wrong(s, "the gradient by %s has another shape", s->c->op->args[of[i]].name);
    else
      fine = went(s, tn_tensor_to_host(got, o->gradient, tn_tensor_bytes(got)));
  }
  for (size_t i = 0; i < num_out; ++i) tn_tensor_release(out[i]);
  tn_program_destroy(p);
  return fine;
}

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

static verdict differentiate(session *s, size_t n, const uint32_t *of) {
  tn_graph *g = NULL;
  tn_tensor *wrt[CASE_ARGS], *gradients[CASE_ARGS] = {NULL}, *whole = NULL;
  tn_runtime *rt = tn_device_runtime(s->t->device);
  verdict v = TRIAL_WRONG;
  bool fine = went(s, tn_graph_create(rt, "trial", &g)) && symbolic_inputs(s, g) &&
              symbolic_call(s) && (whole = symbolic_loss(s, g)) && !s->wrong;
  for (size_t i = 0; i < n; ++i) wrt[i] = s->o[of[i]].input;
  if (fine) {
    const tn_status status = tn_graph_gradient(g, whole, n, wrt, gradients);
    if (status == TN_ERR_UNSUPPORTED) v = TRIAL_REFUSED;
    fine = v != TRIAL_REFUSED && went(s, status) && run_program(s, g, n, of, gradients);
  }
  for (size_t i = 0; i < n; ++i) tn_tensor_release(gradients[i]);
  tn_tensor_release(whole);
  for (uint32_t i = 0; i < s->num_args; ++i) {
    tn_tensor_release(s->o[i].symbol);
    tn_tensor_release(s->o[i].input);
    s->o[i].symbol = s->o[i].input = NULL;
  }
  tn_graph_destroy(g);
  return fine ? TRIAL_HELD : v;
}

/* --- differences --- */

static double loss_at(session *s, operand *o, const double *direction, double step) {
  double *numbers = tn_tensor_data(o->base);
  for (int64_t k = 0; k < o->elements; ++k) numbers[k] = o->start[k] + step * direction[k];
  return loss(s);
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
  return v;
}
