/*
 * What is not simply as the caller gave it: inputs that were left out and stand for 1, a first
 * output whose type an attribute says, and axes that are counted from the end.
 */
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/notify/origin.h"
#include "dispatcher/tensor/ones.h"

/* The type that other arguments, or the schema, give an argument; TN_DTYPE_NONE if none does. */
static tn_dtype type_by_others(const plan *p, uint32_t arg) {
  uint8_t type = p->op->arg[arg].type, var = type & (TN_MAX_TYPE_VARS - 1);
  if (TN_TYPE_IS_FIXED(type) || p->types[var]) return plan_type(p, type);
  for (uint32_t i = arg + 1; i < p->num_in + p->op->num_inout; ++i) {
    const tn_tensor *t = i < p->num_in ? p->in[i] : p->out[i - p->num_in];
    if (!t || p->op->arg[i].type != var) continue;
    return TN_TYPE_IS_WIDE(type) ? tn_dtype_wide((tn_dtype)t->dtype) : (tn_dtype)t->dtype;
  }
  return TN_DTYPE_NONE;
}

/* An input was left out that is not optional: some are 1 then. */
tn_status plan_bind_absent(plan *p, uint32_t i) {
  tn_dtype dtype = p->op->arg[i].flags & TN_ARG_OR_ONE ? type_by_others(p, i) : TN_DTYPE_NONE;
  if (!dtype) return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "%s is NULL", p->op->row.args[i].name);
  const char *before = origin_stand_in(p->op->row.name);
  tn_status status = device_one(p->device, dtype, &p->in[i]);
  origin_stand_in(before);
  if (!status) return plan_bind(p, i, p->in[i]);
  fail_prefix("tn_%s: %s: ", p->op->row.name, p->op->row.args[i].name);
  return status;
}

static const char *choices(tn_dtype own) {
  if (own == TN_BOOL) return "TN_I64";
  return TN_SET(own) & TN_SET_FLOAT ? "TN_DTYPE_NONE or a float as wide or wider"
                                    : "TN_DTYPE_NONE, that type or TN_I64";
}

static tn_status refuse_result(const plan *p, const tn_attr *a, int32_t dtype) {
  tn_dtype own = plan_type(p, p->op->result_type);
  if (dtype == TN_DTYPE_NONE)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "the result over %s is no %s; set attrs->%s to TN_I64", tn_dtype_name(own),
                       tn_dtype_name(own), a->name);
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                     "attrs->%s is %d (%s); over %s it may be %s; use tn_cast", a->name, dtype,
                     tn_dtype_name((tn_dtype)dtype), tn_dtype_name(own), choices(own));
}

/* An attribute of kind result says what the first output's type is, or leaves it at its own. */
tn_status plan_bind_result(plan *p, const tn_attr *a, int32_t dtype) {
  tn_dtype own = plan_type(p, p->op->result_type);
  tn_dtype type = dtype == TN_DTYPE_NONE ? own : (tn_dtype)dtype;
  if (dtype < 0 || dtype >= TN_DTYPE_SLOTS || !tn_dtype_widens(own, type))
    return refuse_result(p, a, dtype);
  p->types[RESULT_VAR] = (uint8_t)type;
  return TN_OK;
}

/* The attributes in memory of the plan's, to be changed: the program's and the defaults are not. */
static char *own_attrs(plan *p) {
  if (p->args.attrs != p->attrs) memcpy(p->attrs, p->args.attrs, p->op->row.attrs_size);
  p->args.attrs = p->attrs;
  return (char *)p->attrs;
}

static void count_listed(plan *p, uint32_t offset, int32_t rank) {
  const tn_axes *given = (const void *)((const char *)p->args.attrs + offset);
  for (int32_t i = 0; i < given->count; ++i)
    if (given->axis[i] < 0) {
      tn_axes *own = (void *)(own_attrs(p) + offset);
      own->axis[i] += rank;
      given = own;
    }
}

void plan_count_axes(plan *p, const DLTensor *const *in, DLTensor *const *out) {
  const shape_axes *a = &axes_of_rules[p->op->row.shape];
  if (!a->offset) return;
  int32_t rank = a->of_output ? out[0]->ndim : in[0]->ndim;
  if (a->listed) {
    count_listed(p, a->offset, rank);
  } else {
    const int64_t *given = (const void *)((const char *)p->args.attrs + a->offset);
    if (*given < 0) *(int64_t *)(void *)(own_attrs(p) + a->offset) += rank;
  }
}
