/* The shape rules that plugins bring for operators of their own. */
#include <stdio.h>

#include "dispatcher/shape/shape_rules.h"

/* One tensor as a rule sees it: "f32 [2, 3]". */
static const char *tensor_text(const DLTensor *t, char *text, size_t size) {
  char dims[128];
  if (!t) return "NULL";
  snprintf(text, size, "%s %s", tn_dtype_name(tn_dtype_of(t->dtype)),
           shape_text(dims, sizeof dims, t->ndim, t->shape));
  return text;
}

/* What the rule was given, by the arguments' names; of a list the first tensor. */
static const char *operands_text(const shape_query *q, char *text, size_t size) {
  char one[160];
  size_t used = 0;
  uint32_t at = 0;
  text[0] = 0;
  for (uint32_t i = 0; at < q->num_in + q->num_inout && used < size; ++i) {
    const bool list = q->op->args[i].flags & TN_ARG_LIST;
    const DLTensor *t = at < q->num_in ? q->in[at] : q->inout[at - q->num_in];
    used += (size_t)snprintf(text + used, size - used, "%s%s = ", used ? ", " : "",
                             q->op->args[i].name);
    if (list && used < size)
      used += (size_t)snprintf(text + used, size - used, "%u tensors, first ", q->length);
    if (used < size)
      used += (size_t)snprintf(text + used, size - used, "%s", tensor_text(t, one, sizeof one));
    at += list ? q->length : 1;
  }
  return text;
}

/* What a plugin's rule is given: inputs, in-out tensors, NULL. */
static void gather(const shape_query *q, const DLTensor **all) {
  for (uint32_t i = 0; i < q->num_in; ++i) all[i] = q->in[i];
  for (uint32_t i = 0; i < q->num_inout; ++i) all[q->num_in + i] = q->inout[i];
  all[q->num_in + q->num_inout] = NULL;
}

static tn_status ask_rule(const shape_query *q, DLTensor **out) {
  const DLTensor *few[2 * TN_MAX_ARGS + 1], **all = few;
  size_t count = (size_t)q->num_in + q->num_inout + 1;
  if (count > sizeof few / sizeof *few) {
    all = q->host->alloc(q->host, count * sizeof *all, _Alignof(void *));
    if (!all) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory");
  }
  gather(q, all);
  fail_set_reason(false);
  tn_status status = q->op->infer(q->host, all, out, q->attrs);
  if (status) status = fail_of_plugin(status, NULL, "shape rule");
  if (all != few) q->host->free(q->host, (void *)all);
  return status;
}

/* Puts the operator with its tensors before the reason. */
static tn_status refuse(const shape_query *q, tn_status status) {
  char reason[512], tensors[1024];
  snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, tn_last_error());
  return fail(status, "tn_%s(%s): %s", q->op->name, operands_text(q, tensors, sizeof tensors),
              reason);
}

static tn_status check_result(extents *out, const DLTensor *given, uint32_t num_out) {
  for (uint32_t i = 0; i < num_out; ++i) {
    out[i].rank = given[i].ndim;
    if (out[i].rank < 0 || out[i].rank > TN_MAX_RANK)
      return fail(TN_ERR_INTERNAL, "its shape rule gave rank %d", out[i].rank);
    for (int32_t d = 0; d < out[i].rank; ++d)
      if (out[i].dim[d] < 0) return fail(TN_ERR_INTERNAL, "its shape rule gave a negative size");
  }
  return TN_OK;
}

tn_status shape_rule_custom(const shape_query *q, extents *out, uint32_t num_out) {
  DLTensor tensors[TN_MAX_ARGS];
  DLTensor *pointers[TN_MAX_ARGS] = {NULL};
  for (uint32_t i = 0; i < num_out; ++i) {
    tensors[i] = (DLTensor){.ndim = 0, .shape = out[i].dim};
    pointers[i] = &tensors[i];
  }
  tn_status status = ask_rule(q, pointers);
  if (!status) status = check_result(out, tensors, num_out);
  return status ? refuse(q, status) : TN_OK;
}
