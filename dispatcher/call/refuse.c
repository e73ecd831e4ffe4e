/* What is said of calls that cannot be made: with operator and tensors in front. */
#include <stdarg.h>
#include <stdio.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/registry/schema.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/tracked.h"

tn_status plan_refuse(const plan *p, tn_status status, const char *format, ...) {
  char reason[512], tensors[1024] = "", text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  size_t used = 0;
  uint32_t inputs_and_inout = p->num_in + p->op->num_inout;
  if (p->op->lists) list_text(p, tensors, sizeof tensors);
  for (uint32_t i = 0; !p->op->lists && i < p->num_in + p->num_out && used < sizeof tensors; ++i) {
    const tn_tensor *t = i < p->num_in ? p->in[i] : p->out[i - p->num_in];
    if (i >= inputs_and_inout && !t) continue; /* an output to be made */
    used += (size_t)snprintf(tensors + used, sizeof tensors - used, "%s%s = %s", used ? ", " : "",
                             p->op->row.args[i].name, tensor_text(text, sizeof text, t));
  }
  return fail(status, "tn_%s(%s): %s", p->op->row.name, tensors, reason);
}

tn_status plan_refuse_bounds(const plan *p, const tn_attr *a, double value) {
  char low[48] = "", high[48] = "";
  if (a->low_bound)
    snprintf(low, sizeof low, a->low_bound == TN_BOUND_OPEN ? "more than %g" : "at least %g",
             a->low);
  if (a->high_bound)
    snprintf(high, sizeof high, a->high_bound == TN_BOUND_OPEN ? "less than %g" : "at most %g",
             a->high);
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "attrs->%s is %g, it must be %s%s%s", a->name,
                     value, low, *low && *high ? " and " : "", high);
}

tn_status call_refuse_released(const tn_tensor *t, uint32_t op, tn_status status) {
  char function[64] = "tn_invoke";
  for (size_t i = 0; i < builtin_operator_count; ++i)
    if (builtin_operators[i].id == op)
      snprintf(function, sizeof function, "tn_%s", builtin_operators[i].name);
  return tracked_explain(t, function, status);
}

tn_status call_attend(const tn_tensor *t, uint32_t op) {
  tn_status status = device_check(t->device);
  if (status) return call_refuse_released(t, op, status);
  return is_watched(t->device) ? (tn_status)PLAN_WATCHED : TN_OK;
}

tn_status call_refuse_empty(uint32_t op) {
  const char *name = "invoke";
  for (size_t i = 0; i < builtin_operator_count; ++i)
    if (builtin_operators[i].id == op) name = builtin_operators[i].name;
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: every tensor is NULL", name);
}

tn_status call_refuse(const tn_call *call) {
  if (!call) return fail(TN_ERR_INVALID_ARGUMENT, "tn_invoke: call is NULL");
  if (call->struct_size < CALL_SIZE_1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_invoke: call->struct_size is %u: set it to sizeof(tn_call)", call->struct_size);
  bool in = !call->in && call->num_in;
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_invoke: call->%s is NULL, call->num_%s is %u",
              in ? "in" : "out", in ? "in" : "out", in ? call->num_in : call->num_out);
}
