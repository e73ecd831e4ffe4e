/*
 * Elementwise calls of many elements: kernels share those out among threads, blocks and vectors
 * in ways that short calls never see. The numbers are a short case's, over and over, so that what
 * the reference gave for that case says what every stretch must be, and most of them are merely
 * compared with the first. Nothing else tells a kernel that is wrong from 70,000 elements on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* Of the case that is repeated: no power of two, so that stretches begin everywhere in a vector. */
enum { PERIOD = 1000 };

static const int64_t lengths[] = {70001, 1000007};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static bool repeats(const work *w, uint32_t i) {
  const case_arg *a = &w->c->arg[i];
  if (w->values[i]) return a->rank == 1 && a->shape[0] == PERIOD && !a->expanded && !a->index;
  return a->absent || w->want[i].elements == 0 ||
         (w->want[i].rank == 1 && w->want[i].elements == PERIOD);
}

/* Each element of the outputs depends on those in its place alone, not on the place. */
static bool suits(const work *w) {
  const tn_operator *op = w->c->op;
  if (!(op->flags & TN_OPERATOR_ELEMENTWISE) || op->flags & TN_OPERATOR_RANDOM) return false;
  if (op->flags & TN_OPERATOR_DATA_DEPENDENT || !w->num_in) return false;
  if (op->shape != TN_SHAPE_SAME && op->shape != TN_SHAPE_BROADCAST && op->shape != TN_SHAPE_UPDATE)
    return false;
  for (uint32_t i = 0; i < op->num_args; i++)
    if (!repeats(w, i)) return false;
  return true;
}

static tn_status place(const work *w, uint32_t i, int64_t n, tn_tensor **t) {
  const tn_dtype dtype = case_dtype(w->c, i);
  const size_t period = PERIOD * tn_dtype_size(dtype), bytes = (size_t)n * tn_dtype_size(dtype);
  char *values = malloc(bytes);
  if (!values) return TN_ERR_OUT_OF_MEMORY;
  for (size_t at = 0; at < bytes; at += period)
    memcpy(values + at, w->values[i], bytes - at < period ? bytes - at : period);
  tn_status status = tn_tensor_from_host(w->device, dtype, 1, &n, values, t);
  free(values);
  return status;
}

/* The stretch that begins at `at`, as if it were all there is. */
static output stretch(const output *whole, int64_t at) {
  output o = *whole;
  o.elements = whole->elements - at < PERIOD ? whole->elements - at : PERIOD;
  o.shape[0] = o.elements;
  o.data = (char *)whole->data + (size_t)at * tn_dtype_size(whole->dtype);
  return o;
}

static void check_long(const work *w, uint32_t i, const tn_tensor *y, tally *t) {
  output got = {.dtype = tn_tensor_dtype(y), .rank = 1, .elements = tn_tensor_elements(y)};
  char why[500];
  got.data = malloc(tn_tensor_bytes(y) + 1);
  const bool read = tn_tensor_to_host(y, got.data, tn_tensor_bytes(y)) == TN_OK;
  if (!read) work_complain(w, t, w->c->op->args[i].name, tn_last_error());
  for (int64_t at = 0; read && at < got.elements; at += PERIOD) {
    const output part = stretch(&got, at);
    output want = w->want[i];
    judgement j;
    if (at && !memcmp(part.data, got.data, (size_t)part.elements * tn_dtype_size(got.dtype)))
      continue;
    want.elements = want.shape[0] = part.elements;
    if (compare_outputs(w->c, &part, &want, &j)) continue;
    snprintf(why, sizeof why, "of %lld elements, from %lld on: %s", (long long)got.elements,
             (long long)at, j.why);
    work_complain(w, t, w->c->op->args[i].name, why);
    break;
  }
  free(got.data);
}

static void call_long(work *w, int64_t n, tally *t) {
  tn_tensor *arg[CASE_ARGS] = {0};
  const tn_tensor *in[CASE_ARGS] = {0};
  const uint32_t num_args = w->c->op->num_args;
  char how[60];
  tn_status status = TN_OK;
  snprintf(how, sizeof how, "%lld elements", (long long)n);
  snprintf(w->how, sizeof w->how, "%s", how);
  for (uint32_t i = 0; i < num_args && status == TN_OK; i++)
    if (w->values[i]) status = place(w, i, n, &arg[i]);
  for (uint32_t i = 0; i < w->num_in; i++) in[i] = arg[i];
  tn_call call = work_call(w, in, arg + w->num_in);
  const bool first = w->rank == 0;
  if (status == TN_OK) status = first ? tn_invoke(&call) : work_call_ranked(w, &call, how, t);
  const bool ran = first ? status == TN_OK : w->ran;
  t->runs += ran;
  if (status != TN_OK && !(first && status == TN_ERR_UNSUPPORTED))
    work_complain(w, t, tn_status_name(status), tn_last_error());
  for (uint32_t i = w->num_in; status == TN_OK && ran && i < num_args; i++)
    if (arg[i]) check_long(w, i, arg[i], t);
  for (uint32_t i = 0; i < num_args; i++) tn_tensor_release(arg[i]);
}

/* The reference itself is slow, and has no vectors and threads to go wrong with. */
static bool is_reference(const work *w) {
  tn_device_info info = {.struct_size = sizeof info};
  return tn_device_get_info(w->device, &info) == TN_OK && !strcmp(info.type, "reference");
}

/* Of the two cases of that length one will do. */
void long_calls(work *w, tally *t) {
  if (t->number % 2 || !suits(w) || is_reference(w)) return;
  const uint32_t ranks = t->rows && !t->rows->plain && t->rows->wanted ? t->rows->ranks : 1;
  for (uint32_t i = 0; i < LENGTHS; i++) {
    if (!tally_begin(t, w->c, "many elements")) continue;
    for (w->rank = 0; w->rank < ranks; w->rank++) call_long(w, lengths[i], t);
  }
}
