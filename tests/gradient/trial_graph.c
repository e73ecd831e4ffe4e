/* A trial's graph, its gradients and the programs that compute them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"
#include "trial_parts.h"

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

/* *whole grows by sum(weights * t). */
static bool add_weighted(session *s, tn_graph *g, const char *name, const tn_tensor *t,
                         const double *weights, tn_tensor **whole) {
  tn_tensor *real = NULL, *c = NULL, *product = NULL, *part = NULL, *next = NULL;
  bool fine = went(s, tn_tensor_from_host(s->t->device, TN_F64, tn_tensor_rank(t),
                                          tn_tensor_shape(t), weights, &real)) &&
              went(s, tn_graph_constant(g, name, real, &c)) &&
              went(s, tn_mul(NULL, c, t, &product)) && went(s, tn_sum(NULL, product, NULL, &part));
  if (fine && *whole) {
    fine = went(s, tn_add(NULL, *whole, part, &next));
    tn_tensor_release(*whole);
    tn_tensor_release(part);
    part = next;
  }
  *whole = part;
  tn_tensor_release(real);
  tn_tensor_release(c);
  tn_tensor_release(product);
  return fine;
}

static tn_tensor *symbolic_loss(session *s, tn_graph *g) {
  tn_tensor *whole = NULL;
  char name[32];
  for (uint32_t i = s->num_in; !s->wrong && i < s->num_args; ++i) {
    snprintf(name, sizeof name, "c%u", i);
    if (s->o[i].weights) add_weighted(s, g, name, s->o[i].symbol, s->o[i].weights, &whole);
  }
  return whole;
}

/* --- programs --- */

static bool has_shape(session *s, const tn_tensor *got, uint32_t arg) {
  const operand *o = &s->o[arg];
  if (tn_tensor_dtype(got) == TN_F64 && tn_tensor_rank(got) == o->rank &&
      memcmp(tn_tensor_shape(got), o->shape, (size_t)o->rank * sizeof *o->shape) == 0)
    return true;
  return wrong(s, "the gradient by %s has another shape", s->c->op->args[arg].name);
}

/* More outputs of the graph: the gradients that there are. */
static bool add_outputs(session *s, tn_graph *g, const char *prefix, size_t n,
                        tn_tensor *const *gradients) {
  char name[32];
  bool fine = true;
  for (size_t i = 0; fine && i < n; ++i) {
    snprintf(name, sizeof name, "%s%zu", prefix, i);
    if (gradients[i]) fine = went(s, tn_graph_output(g, name, gradients[i]));
  }
  return fine;
}

static bool run_program(session *s, tn_program *p, size_t num_out, tn_tensor **out) {
  const tn_tensor *in[CASE_ARGS];
  size_t num_in = 0;
  for (uint32_t i = 0; i < s->num_args; ++i)
    if (s->o[i].varied) in[num_in++] = s->o[i].base;
  return went(s, tn_program_run(p, NULL, num_in, in, num_out, out));
}

/* The graph's last outputs, for the inputs as they are: gradients that there are not are 0. */
static bool read_gradients(session *s, tn_graph *g, size_t n, const uint32_t *of,
                           tn_tensor *const *gradients) {
  const size_t num_out = tn_graph_num_outputs(g);
  tn_tensor *out[2 * CASE_ARGS] = {NULL};
  tn_program *p = NULL;
  size_t last = num_out;
  bool fine =
      went(s, tn_graph_compile(g, s->t->device, NULL, &p)) && run_program(s, p, num_out, out);
  for (size_t i = n; fine && i-- > 0;) {
    if (!gradients[i]) continue;
    const tn_tensor *got = out[--last];
    fine = has_shape(s, got, of[i]) &&
           went(s, tn_tensor_to_host(got, s->o[of[i]].gradient, tn_tensor_bytes(got)));
  }
  for (size_t i = 0; i < num_out; ++i) tn_tensor_release(out[i]);
  tn_program_destroy(p);
  return fine;
}

/* --- first and second order --- */

static verdict take(session *s, tn_graph *g, const tn_tensor *whole, size_t n, const uint32_t *of,
                    tn_tensor **gradients) {
  tn_tensor *wrt[CASE_ARGS];
  for (size_t i = 0; i < n; ++i) wrt[i] = s->o[of[i]].input;
  const tn_status status = tn_graph_gradient(g, whole, n, wrt, gradients);
  if (status == TN_ERR_UNSUPPORTED) return TRIAL_REFUSED;
  return went(s, status) ? TRIAL_HELD : TRIAL_WRONG;
}

/* The gradients, weighted, become the loss, of which `first` is the program. */
static tn_tensor *second_loss(session *s, tn_graph *g, size_t n, const uint32_t *of,
                              tn_tensor *const *gradients) {
  tn_tensor *whole = NULL;
  char name[32];
  if (!add_outputs(s, g, "g", n, gradients)) return NULL;
  if (!went(s, tn_graph_compile(g, s->t->device, NULL, &s->first))) return NULL;
  for (size_t i = 0; i < n && !s->wrong; ++i) {
    operand *o = &s->o[of[i]];
    if (!gradients[i] || !has_shape(s, gradients[i], of[i])) continue;
    o->weights = room((size_t)o->elements, sizeof *o->weights);
    for (int64_t k = 0; k < o->elements; ++k) {
      o->weights[k] = 2 * points_unit(s->t->seed + 99 + i, (uint64_t)k) - 1;
      s->least += 1e-6 * fabs(o->weights[k]);
    }
    snprintf(name, sizeof name, "r%zu", i);
    add_weighted(s, g, name, gradients[i], o->weights, &whole);
    make_room(s, (size_t)o->elements);
  }
  return whole;
}

static verdict take_second(session *s, tn_graph *g, size_t n, const uint32_t *of,
                           tn_tensor *const *gradients) {
  tn_tensor *seconds[CASE_ARGS] = {NULL};
  for (uint32_t i = 0; i < s->num_args; ++i) {
    free(s->o[i].weights);
    s->o[i].weights = NULL;
  }
  tn_tensor *whole = second_loss(s, g, n, of, gradients);
  verdict v = s->wrong ? TRIAL_WRONG : whole ? take(s, g, whole, n, of, seconds) : TRIAL_EMPTY;
  if (v == TRIAL_HELD &&
      !(add_outputs(s, g, "h", n, seconds) && read_gradients(s, g, n, of, seconds)))
    v = TRIAL_WRONG;
  for (size_t i = 0; i < n; ++i) tn_tensor_release(seconds[i]);
  tn_tensor_release(whole);
  return v;
}

verdict differentiate(session *s, size_t n, const uint32_t *of) {
  tn_graph *g = NULL;
  tn_tensor *gradients[CASE_ARGS] = {NULL}, *whole = NULL;
  tn_runtime *rt = tn_device_runtime(s->t->device);
  verdict v = TRIAL_WRONG;
  if (went(s, tn_graph_create(rt, "trial", &g)) && symbolic_inputs(s, g) && symbolic_call(s) &&
      (whole = symbolic_loss(s, g)))
    v = take(s, g, whole, n, of, gradients);
  if (v == TRIAL_HELD && s->t->second)
    v = take_second(s, g, n, of, gradients);
  else if (v == TRIAL_HELD &&
           !(add_outputs(s, g, "g", n, gradients) && read_gradients(s, g, n, of, gradients)))
    v = TRIAL_WRONG;
  for (size_t i = 0; i < n; ++i) tn_tensor_release(gradients[i]);
  tn_tensor_release(whole);
  for (uint32_t i = 0; i < s->num_args; ++i) {
    tn_tensor_release(s->o[i].symbol);
    tn_tensor_release(s->o[i].input);
    s->o[i].symbol = s->o[i].input = NULL;
  }
  tn_graph_destroy(g);
  return v;
}

double program_loss(session *s) {
  tn_tensor *out[CASE_ARGS] = {NULL};
  size_t num_out = 0, at = 0;
  double sum = 0;
  s->size = 0;
  for (uint32_t i = 0; i < s->num_args; ++i) num_out += s->o[i].weights != NULL;
  const bool fine = run_program(s, s->first, num_out, out);
  for (uint32_t i = 0; fine && i < s->num_args; ++i) {
    const operand *o = &s->o[i];
    if (!o->weights) continue;
    const tn_tensor *got = out[at++];
    if (!went(s, tn_tensor_to_host(got, s->read, tn_tensor_bytes(got)))) break;
    for (int64_t k = 0; k < o->elements; ++k) {
      sum += o->weights[k] * s->read[k];
      s->size += fabs(o->weights[k] * s->read[k]);
    }
  }
  for (size_t i = 0; i < num_out; ++i) tn_tensor_release(out[i]);
  return s->wrong ? NAN : sum;
}
