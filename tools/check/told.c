/* Attributes told by tensors; see told.h. */
#include "told.h"

#include <math.h>
#include <string.h>

/* A number in an attribute: what the tensor is to say, and what is left there. */
static tn_status tell_real(const op_case *c, tn_device *device, unsigned char *at, tn_tensor **t) {
  double value;
  memcpy(&value, at, sizeof value);
  memcpy(at, &(double){NAN}, sizeof value);
  const float narrow = (float)value;
  if (c->seed & 1 && (double)narrow == value)
    return tn_tensor_from_host(device, TN_F32, 0, NULL, &narrow, t);
  return tn_tensor_from_host(device, TN_F64, 0, NULL, &value, t);
}

static tn_status tell_whole(bool adds, tn_device *device, unsigned char *at, tn_tensor **t) {
  uint64_t value, left;
  memcpy(&value, at, sizeof value);
  left = adds ? value - 1234567 : value + 17;
  memcpy(at, &left, sizeof left);
  value = adds ? 1234567 : value;
  return tn_tensor_from_host(device, TN_I64, 1, (int64_t[]){1}, &value, t);
}

static tn_status tell(const op_case *c, tn_device *device, const tn_attr *a, told *t) {
  const tn_attr *of = &c->op->attrs[a->tensor.of];
  tn_tensor **made = &t->tensor[t->count];
  tn_status status;
  if (a->tensor.use == TN_USE_SKIPS)
    status = tn_tensor_from_host(device, TN_BOOL, 0, NULL, &(uint8_t){0}, made);
  else if (of->type == TN_ATTR_F64)
    status = tell_real(c, device, t->attrs + of->offset, made);
  else
    status = tell_whole(a->tensor.use == TN_USE_ADDS, device, t->attrs + of->offset, made);
  if (status != TN_OK) return status;
  if (a->tensor.use == TN_USE_SKIPS) t->skip = *made;
  memcpy(t->attrs + a->offset, made, sizeof *made);
  t->count++;
  return TN_OK;
}

tn_status told_make(const op_case *c, tn_device *device, told *t) {
  tn_status status = TN_OK;
  memset(t, 0, sizeof *t);
  memcpy(t->attrs, c->attrs, sizeof c->attrs);
  for (uint32_t i = 0; i < c->op->num_attrs && t->count < TOLD_MOST && status == TN_OK; i++)
    if (c->op->attrs[i].type == TN_ATTR_TENSOR) status = tell(c, device, &c->op->attrs[i], t);
  if (status != TN_OK) told_free(t);
  return status;
}

tn_status told_skip(const told *t, bool skip) {
  return tn_tensor_write(NULL, t->skip, &(uint8_t){skip}, 1);
}

void told_free(told *t) {
  for (uint32_t i = 0; i < t->count; i++) tn_tensor_release(t->tensor[i]);
  t->count = 0;
}
