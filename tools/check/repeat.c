/*
 * Determinism: the same call twice, on a device of a runtime that was opened to be
 * deterministic, must give the same bits. A call that the device then has no kernel for is
 * none of ours: not being able is allowed, being different is not.
 */
#include <stdlib.h>
#include <string.h>

#include "run_case.h"

typedef struct repeat {
  const op_case *c;
  tn_device *device;
  uint32_t num_in;
  void *const *values;       /* of inputs and in-out arguments */
  tn_tensor *arg[CASE_ARGS]; /* inputs, in-out arguments, and what the call made */
} repeat;

static void drop(repeat *r) {
  for (uint32_t i = 0; i < r->c->op->num_args; i++) {
    tn_tensor_release(r->arg[i]);
    r->arg[i] = NULL;
  }
}

static void *draw(const op_case *c, uint32_t i) {
  const case_arg *a = &c->arg[i];
  if (a->absent || arg_is_output(&c->op->args[i])) return NULL;
  void *values = malloc((size_t)case_elements(a) * tn_dtype_size(case_dtype(c, i)) + 1);
  case_fill(c, i, values);
  return values;
}

static tn_status place(repeat *r, uint32_t i) {
  const case_arg *a = &r->c->arg[i];
  if (!r->values[i]) return TN_OK;
  return tn_tensor_from_host(r->device, case_dtype(r->c, i), a->rank, a->shape, r->values[i],
                             &r->arg[i]);
}

static tn_status run(repeat *r) {
  const tn_tensor *in[CASE_ARGS] = {0};
  tn_status status = TN_OK;
  uint32_t num_args = r->c->op->num_args;
  for (uint32_t i = 0; i < num_args && status == TN_OK; i++) status = place(r, i);
  tn_call call = {.struct_size = sizeof call, .op = r->c->op->id, .in = in};
  call.out = r->arg + r->num_in;
  call.attrs = r->c->op->num_attrs ? r->c->attrs : NULL;
  call.num_in = (uint16_t)r->num_in;
  call.num_out = (uint16_t)(num_args - r->num_in);
  for (uint32_t i = 0; i < r->num_in; i++) in[i] = r->arg[i];
  for (uint32_t i = r->num_in; i < num_args; i++)
    if (r->c->arg[i].absent) call.skip_out |= 1u << (i - r->num_in);
  return status == TN_OK ? tn_invoke(&call) : status;
}

static void *bytes_of(const tn_tensor *t) {
  void *bytes = malloc(tn_tensor_bytes(t) + 1);
  if (tn_tensor_to_host(t, bytes, tn_tensor_bytes(t)) == TN_OK) return bytes;
  free(bytes);
  return NULL;
}

static bool same_bytes(const tn_tensor *a, const tn_tensor *b) {
  if (!a || !b || tn_tensor_bytes(a) != tn_tensor_bytes(b)) return a == b;
  void *left = bytes_of(a), *right = bytes_of(b);
  bool same = left && right && !memcmp(left, right, tn_tensor_bytes(a));
  free(left);
  free(right);
  return same;
}

static void complain(const repeat *r, tally *t, const char *arg, const char *why) {
  char text[900];
  case_describe(r->c, text, sizeof text);
  tally_fail(t, "deterministic, twice: %s: %s: %s", text, arg, why);
}

void repeat_case(const op_case *c, tn_device *device, tally *t) {
  void *values[CASE_ARGS] = {0};
  repeat first = {.c = c, .device = device, .num_in = op_inputs(c->op), .values = values};
  repeat second = first;
  if (!tally_begin(t, c, "deterministic, twice")) return;
  for (uint32_t i = 0; i < c->op->num_args; i++) values[i] = draw(c, i);
  tn_status status = run(&first);
  if (status == TN_OK) status = run(&second);
  t->repeats += status == TN_OK;
  if (status != TN_OK && status != TN_ERR_UNSUPPORTED && !case_declined(c, status))
    complain(&first, t, tn_status_name(status), tn_last_error());
  for (uint32_t i = first.num_in; status == TN_OK && i < c->op->num_args; i++)
    if (!same_bytes(first.arg[i], second.arg[i]))
      complain(&first, t, c->op->args[i].name, "the same call gave other bits");
  drop(&first);
  drop(&second);
  for (uint32_t i = 0; i < c->op->num_args; i++) free(values[i]);
}
