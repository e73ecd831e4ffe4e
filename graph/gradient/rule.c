/* What gradient rules are made of: calls that stop after a failure, views, shapes. */
#include "graph/gradient/rule.h"

#include <stdarg.h>
#include <string.h>

#include "dispatcher/base/attr_bytes.h"
#include "dispatcher/base/error.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"
#include "dispatcher/registry/registry.h"
#include "tenon/ops.h"

const char rule_same_attrs = 0;

const gradient_rule *gradient_rule_of(const tn_operator *op) {
  static const gradient_rule of_plugin = {
      plugin_rule_run, UINT32_MAX, UINT32_MAX, NULL, NULL, 0, NULL};
  if (op->gradient) return &of_plugin;
  if (op->id >= num_gradient_rules) return NULL;
  const gradient_rule *row = &gradient_rules[op->id];
  return row->run || row->stops || row->refuses ? row : NULL;
}

/* --- what a rule makes --- */

const tn_tensor *rule_keep(rule *r, tn_status status, tn_tensor *made) {
  if (status) {
    if (!r->status) r->status = status;
    return NULL;
  }
  tn_tensor **wider = r->num_temps < r->max_temps ? r->temps
                                                  : host_grow(&r->memory, r->temps, r->num_temps,
                                                              sizeof *wider, &r->max_temps);
  if (!wider) {
    tn_tensor_release(made);
    return rule_fail(r, TN_ERR_OUT_OF_MEMORY, "no host memory for a gradient");
  }
  r->temps = wider;
  r->temps[r->num_temps++] = made;
  return made;
}

const tn_tensor *rule_fail(rule *r, tn_status status, const char *format, ...) {
  char text[512];
  va_list args;
  if (r->status) return NULL;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  r->status = fail(status, "%s", text);
  return NULL;
}

void rule_end(rule *r) {
  for (size_t i = 0; i < r->num_temps; ++i) tn_tensor_release(r->temps[i]);
  host_free(&r->memory, r->temps);
  r->temps = NULL;
  r->num_temps = r->max_temps = 0;
}

/* --- calls --- */

static const tn_attr *attr_named(const tn_operator *op, const char *name) {
  for (uint32_t i = 0; i < op->num_attrs; ++i)
    if (!strcmp(tn_operator_attr(op, i)->name, name)) return tn_operator_attr(op, i);
  return NULL;
}

/* The attributes of the call, as far as `op` has them too, over its defaults. */
static void take_same(const rule *r, const op_entry *op, void *attrs) {
  memcpy(attrs, op->defaults, op->row.attrs_size);
  for (uint32_t i = 0; r->attrs && i < op->row.num_attrs; ++i) {
    const tn_attr *to = tn_operator_attr(&op->row, i), *from = attr_named(r->op, to->name);
    if (!from || from->type != to->type) continue;
    memcpy((char *)attrs + to->offset, (const char *)r->attrs + from->offset, attr_bytes(to->type));
  }
}

void rule_call(rule *r, uint32_t id, const void *attrs, uint32_t num_in, const tn_tensor *const *in,
               uint32_t num_out, const tn_tensor **out, uint32_t skip) {
  _Alignas(8) unsigned char same[ATTRS_MAX];
  tn_tensor *made[TN_MAX_ARGS] = {NULL};
  if (r->status) return;
  if (attrs == SAME) {
    const op_entry *op = registry_op(&r->device->runtime->registry, id);
    take_same(r, op, same);
    attrs = same;
  }
  const tn_call call = {.struct_size = sizeof call,
                        .op = id,
                        .stream = r->stream,
                        .in = in,
                        .out = made,
                        .attrs = attrs,
                        .num_in = (uint16_t)num_in,
                        .num_out = (uint16_t)num_out,
                        .skip_out = skip};
  tn_status status = tn_invoke(&call);
  for (uint32_t i = 0; i < num_out; ++i) {
    if (skip >> i & 1) continue;
    out[i] = rule_keep(r, status, made[i]);
  }
}

void rule_call_sized(rule *r, uint32_t id, const char *name, const int64_t *sizes, uint32_t num_in,
                     const tn_tensor *const *in, const tn_tensor **out) {
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  if (r->status) return;
  const op_entry *op = registry_op(&r->device->runtime->registry, id);
  const tn_attr *sized = attr_named(&op->row, name);
  take_same(r, op, attrs);
  memcpy(attrs + sized->offset, sizes, attr_bytes(sized->type));
  rule_call(r, id, attrs, num_in, in, 1, out, 0);
}

/* An operator of one input with attributes, or of two without. */
static const tn_tensor *call1(rule *r, uint32_t op, const tn_tensor *a, const tn_tensor *b,
                              const void *attrs) {
  const tn_tensor *in[] = {a, b}, *out = NULL;
  rule_call(r, op, attrs, b ? 2 : 1, in, 1, &out, 0);
  return out;
}

/* --- numbers and views --- */

/* A view of nothing is nothing: something failed. */
static bool is_off(rule *r, const tn_tensor *x) {
  if (!x && !r->status) rule_fail(r, TN_ERR_INTERNAL, "a gradient rule lacks a tensor");
  return r->status != TN_OK;
}

const tn_tensor *rule_number(rule *r, const tn_tensor *x, double value) {
  tn_tensor *made = NULL;
  if (is_off(r, x)) return NULL;
  tn_status status = tn_scalar_f64(r->device, r->stream, tn_tensor_dtype(x), value, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_reshape(rule *r, const tn_tensor *x, int32_t rank, const int64_t *size) {
  tn_tensor *made = NULL, *dense = NULL;
  if (is_off(r, x)) return NULL;
  if (!x->contiguous) {
    tn_status status = tn_tensor_contiguous(r->stream, (tn_tensor *)(uintptr_t)x, &dense);
    x = rule_keep(r, status, dense);
    if (!x) return NULL;
  }
  tn_status status = tn_tensor_reshape(x, rank, size, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_expand(rule *r, const tn_tensor *x, int32_t rank, const int64_t *size) {
  tn_tensor *made = NULL;
  if (is_off(r, x)) return NULL;
  tn_status status = tn_tensor_expand(x, rank, size, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_permute(rule *r, const tn_tensor *x, const int32_t *axes) {
  tn_tensor *made = NULL;
  if (is_off(r, x)) return NULL;
  tn_status status = tn_tensor_permute(x, axes, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_transpose(rule *r, const tn_tensor *x) {
  int32_t axes[TN_MAX_RANK], rank;
  if (is_off(r, x)) return NULL;
  rank = x->dl.ndim;
  if (rank < 2) return rule_fail(r, TN_ERR_INTERNAL, "a gradient rule transposes a vector");
  for (int32_t i = 0; i < rank; ++i) axes[i] = i;
  axes[rank - 1] = rank - 2;
  axes[rank - 2] = rank - 1;
  return rule_permute(r, x, axes);
}

const tn_tensor *rule_slice(rule *r, const tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                            int64_t step) {
  tn_tensor *made = NULL;
  if (is_off(r, x)) return NULL;
  tn_status status = tn_tensor_slice(x, axis, begin, end, step, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_unsqueeze(rule *r, const tn_tensor *x, int32_t axis) {
  tn_tensor *made = NULL;
  if (is_off(r, x)) return NULL;
  tn_status status = tn_tensor_unsqueeze(x, axis, &made);
  return rule_keep(r, status, made);
}

const tn_tensor *rule_cast_like(rule *r, const tn_tensor *x, const tn_tensor *like) {
  if (is_off(r, x) || is_off(r, like)) return NULL;
  if (tn_tensor_dtype(x) == tn_tensor_dtype(like)) return x;
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = tn_tensor_dtype(like)};
  return call1(r, TN_OP_CAST, x, NULL, &attrs);
}

tn_tensor *rule_zeros(rule *r, tn_dtype dtype, int32_t rank, const int64_t *size) {
  tn_tensor *made = NULL;
  if (r->status) return NULL;
  tn_status status = tn_zeros(r->device, r->stream, dtype, rank, size, &made);
  return rule_keep(r, status, made) ? made : NULL;
}

void rule_update(rule *r, uint32_t op, const void *attrs, uint32_t num_in,
                 const tn_tensor *const *in, tn_tensor *y) {
  if (is_off(r, y)) return;
  const tn_call call = {.struct_size = sizeof call,
                        .op = op,
                        .stream = r->stream,
                        .in = in,
                        .out = &y,
                        .attrs = attrs,
                        .num_in = (uint16_t)num_in,
                        .num_out = 1};
  r->status = tn_invoke(&call);
}

const tn_tensor *rule_one_less_square(rule *r, const tn_tensor *x) {
  const tn_tensor *one = rule_number(r, x, 1);
  return call1(r, TN_OP_MUL, call1(r, TN_OP_SUB, one, x, NULL), call1(r, TN_OP_ADD, one, x, NULL),
               NULL);
}

/* --- reductions --- */

static bool is_reduced(const rule_shape *shape, const tn_axes *axes, int32_t axis) {
  if (!axes || axes->count == 0) return true;
  for (int32_t i = 0; i < axes->count; ++i)
    if ((axes->axis[i] + shape->rank) % shape->rank == axis) return true;
  return false;
}

const tn_tensor *rule_keepdims(rule *r, const tn_tensor *reduced, const rule_shape *shape,
                               const tn_axes *axes) {
  int64_t size[TN_MAX_RANK];
  for (int32_t i = 0; i < shape->rank; ++i)
    size[i] = is_reduced(shape, axes, i) ? 1 : shape->size[i];
  return rule_reshape(r, reduced, shape->rank, size);
}

const tn_tensor *rule_spread(rule *r, const tn_tensor *reduced, const rule_shape *shape,
                             const tn_axes *axes) {
  return rule_expand(r, rule_keepdims(r, reduced, shape, axes), shape->rank, shape->size);
}

double rule_count(const rule_shape *shape, const tn_axes *axes) {
  double count = 1;
  for (int32_t i = 0; i < shape->rank; ++i)
    if (is_reduced(shape, axes, i)) count *= (double)shape->size[i];
  return count;
}

/* --- what arrives at an input --- */

/* Sums the leading axes that `shape` has not, and those where it has one element. */
static const tn_tensor *sum_repeated(rule *r, const tn_tensor *x, const rule_shape *shape) {
  tn_sum_attrs attrs = {.struct_size = sizeof attrs, .keepdims = 1};
  int32_t leading = x->dl.ndim - shape->rank;
  for (int32_t i = 0; i < x->dl.ndim; ++i)
    if (i < leading || (shape->size[i - leading] == 1 && x->shape[i] != 1))
      attrs.axes.axis[attrs.axes.count++] = i;
  if (!attrs.axes.count) return x;
  x = call1(r, TN_OP_SUM, x, NULL, &attrs);
  return leading ? rule_reshape(r, x, shape->rank, shape->size) : x;
}

const tn_tensor *rule_fit(rule *r, const tn_tensor *x, const rule_shape *shape) {
  if (is_off(r, x)) return NULL;
  if (x->dl.ndim < shape->rank) x = rule_expand(r, x, shape->rank, shape->size);
  if (!x) return NULL;
  x = sum_repeated(r, x, shape);
  if (x && memcmp(x->shape, shape->size, (size_t)shape->rank * sizeof *shape->size) != 0)
    x = rule_expand(r, x, shape->rank, shape->size);
  if (!x || tn_tensor_dtype(x) == shape->dtype) return x;
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = shape->dtype};
  return call1(r, TN_OP_CAST, x, NULL, &attrs);
}

/* A tensor of the call, whose memory is not the gradient's. */
static bool is_of_call(const rule *r, const tn_tensor *t) {
  for (uint32_t i = 0; i < r->num_in; ++i)
    if (r->in[i] && r->in[i]->storage == t->storage) return true;
  for (uint32_t i = 0; i < r->num_out; ++i)
    if (r->out[i] && r->out[i]->storage == t->storage) return true;
  return false;
}

void rule_give(rule *r, uint32_t i, const tn_tensor *gradient) {
  const tn_tensor *fitted = rule_fit(r, gradient, &r->in_shape[i]);
  if (fitted && is_of_call(r, fitted)) fitted = call1(r, TN_OP_COPY, fitted, NULL, NULL);
  if (fitted && r->in_gradient[i]) fitted = call1(r, TN_OP_ADD, r->in_gradient[i], fitted, NULL);
  if (fitted) r->in_gradient[i] = fitted;
}
