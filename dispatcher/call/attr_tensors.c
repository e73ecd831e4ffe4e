/*
 * Attributes whose numbers lie in the device's memory (TN_ATTR_TENSOR): what the program may give,
 * who keeps it, and calls that no kernel takes with them. For those the host waits, reads the
 * numbers, and makes the call again with plain attributes. Nothing here runs in calls without any.
 */
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/tracked.h"

_Static_assert(offsetof(tn_tensor, dl) == 0, "kernels see a tensor where attributes point to it");

const tn_tensor *attr_tensor(const void *attrs, const tn_attr *a) {
  const tn_tensor *t;
  memcpy(&t, (const char *)attrs + a->offset, sizeof t);
  return t;
}

static void set_tensor(void *attrs, const tn_attr *a, const tn_tensor *t) {
  memcpy((char *)attrs + a->offset, &t, sizeof t);
}

bool attr_tensors_given(const op_entry *op, const void *attrs) {
  for (uint32_t i = 0; i < op->num_tensors; ++i)
    if (attr_tensor(attrs, op_attr_tensor(op, i))) return true;
  return false;
}

void attr_tensors_retain(const op_entry *op, const void *attrs) {
  for (uint32_t i = 0; i < op->num_tensors; ++i) {
    const tn_tensor *t = attr_tensor(attrs, op_attr_tensor(op, i));
    if (t) tn_tensor_retain((tn_tensor *)(uintptr_t)t);
  }
}

/* The operator and the attributes may go with the last tensor. */
void attr_tensors_release(const op_entry *op, const void *attrs) {
  const tn_tensor *held[ATTRS_MAX / sizeof(tn_tensor *)];
  uint32_t count = op->num_tensors;
  for (uint32_t i = 0; i < count; ++i) held[i] = attr_tensor(attrs, op_attr_tensor(op, i));
  for (uint32_t i = 0; i < count; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)held[i]);
}

/* --- what may be given --- */

static tn_status check_device(const plan *p, const tn_attr *a, const tn_tensor *t) {
  if (t->device == p->device) return TN_OK;
  if (tracked_is_released(t)) return call_refuse_released(t, p->op->row.id, TN_OK);
  if (t->device->recorder || p->device->recorder)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "attrs->%s is of %s, the call's tensors of %s: a graph takes its own "
                       "symbolic tensors alone; give it real ones with tn_graph_parameter",
                       a->name, t->device->id, p->device->id);
  return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                     "attrs->%s is on device %s, the call's tensors on %s; use "
                     "tn_tensor_to_device",
                     a->name, t->device->id, p->device->id);
}

static bool type_fits(const plan *p, const tn_attr *a, tn_dtype dtype) {
  if (a->tensor.use == TN_USE_SKIPS) return dtype == TN_BOOL;
  if (p->op->row.attrs[a->tensor.of].type != TN_ATTR_F64) return dtype == TN_I64;
  return dtype == TN_F64 || dtype == TN_F32;
}

static const char *types_text(const plan *p, const tn_attr *a) {
  if (a->tensor.use == TN_USE_SKIPS) return "bool";
  return p->op->row.attrs[a->tensor.of].type == TN_ATTR_F64 ? "f64 or f32" : "i64";
}

static tn_status check_apart(const plan *p, const tn_attr *a, const tn_tensor *t) {
  tn_tensor *const *out = p->op->lists ? p->list->out : p->out;
  uint32_t num_out = p->op->lists ? p->list->num_out : p->num_out;
  for (uint32_t i = 0; i < num_out; ++i) {
    uint32_t work = OVERLAP_WORK;
    if (!out[i] || out[i]->device != p->device || !tensors_interleave(out[i], t) ||
        !tensors_share_elements(out[i], t, &work))
      continue;
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "attrs->%s shares memory with a tensor that the call writes", a->name);
  }
  return TN_OK;
}

tn_status plan_bind_attr_tensor(plan *p, const tn_attr *a) {
  const tn_tensor *t = attr_tensor(p->args.attrs, a);
  char text[128];
  if (!t) return TN_OK;
  tn_status status = check_device(p, a, t);
  if (status) return status;
  if (!type_fits(p, a, (tn_dtype)t->dtype))
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT, "attrs->%s is %s, it must be %s; use tn_cast",
                       a->name, tn_dtype_name((tn_dtype)t->dtype), types_text(p, a));
  if (t->elements != 1)
    return plan_refuse(p, TN_ERR_INVALID_ARGUMENT,
                       "attrs->%s has shape %s, it must have one element", a->name,
                       shape_text(text, sizeof text, t->dl.ndim, t->shape));
  status = check_apart(p, a, t);
  if (status) return status;
  block *b = t->storage->block;
  if (!p->device->synchronous && b && b->cache != p->stream->cache)
    pool_note_use(b, p->stream->cache);
  return TN_OK;
}

/* --- calls that no kernel takes with them --- */

typedef union number {
  double f64;
  float f32;
  int64_t i64;
  uint8_t bits8;
} number;

static void set_number(const op_entry *op, const tn_attr *a, tn_dtype dtype, const number *n,
                       void *attrs) {
  char *at = (char *)attrs + op->row.attrs[a->tensor.of].offset;
  double real = dtype == TN_F32 ? (double)n->f32 : n->f64;
  uint64_t whole = (uint64_t)n->i64, before = 0;
  if (op->row.attrs[a->tensor.of].type == TN_ATTR_F64) {
    memcpy(at, &real, sizeof real);
    return;
  }
  if (a->tensor.use == TN_USE_ADDS) memcpy(&before, at, sizeof before);
  whole += before;
  memcpy(at, &whole, sizeof whole);
}

/* From tensors to plain attributes; *skip: the call does nothing. */
static tn_status read_numbers(const plan *p, void *attrs, bool *skip) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; !status && i < p->op->num_tensors; ++i) {
    const tn_attr *a = op_attr_tensor(p->op, i);
    const tn_tensor *t = attr_tensor(attrs, a);
    number n = {0};
    if (!t) continue;
    status = tn_tensor_read(p->stream, t, &n, tn_dtype_size((tn_dtype)t->dtype));
    if (!status) status = stream_wait(p->stream);
    if (a->tensor.use == TN_USE_SKIPS)
      *skip = *skip || n.bits8;
    else
      set_number(p->op, a, (tn_dtype)t->dtype, &n, attrs);
    set_tensor(attrs, a, NULL);
  }
  return status;
}

tn_status attr_tensors_run(plan *p) {
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  bool skip = false;
  memcpy(attrs, p->args.attrs, p->op->row.attrs_size);
  tn_status status = read_numbers(p, attrs, &skip);
  if (status || skip) return status;
  const list_plan *l = p->op->lists ? p->list : NULL;
  tn_call call = {.struct_size = sizeof call,
                  .op = p->op->row.id,
                  .stream = p->stream,
                  .in = l ? l->in : p->in,
                  .out = l ? l->out : p->out,
                  .attrs = attrs,
                  .num_in = (uint16_t)(l ? l->num_in : p->num_in),
                  .num_out = (uint16_t)(l ? l->num_out : p->num_out),
                  .skip_out = p->skipped};
  return tn_invoke(&call);
}
