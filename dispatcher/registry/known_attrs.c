/*
 * Kernels older than an attribute of their operator. A row says how much of the attribute struct
 * it heeds (tn_kernel.attrs_size, or what its operator had when it was new); where attributes lie
 * beyond that, its `supports` is replaced by one that declines calls which set them. Such a row's
 * cells are therefore not direct, and no other row, operator or way of a call pays for this.
 */
#include <string.h>

#include "dispatcher/registry/registry.h"

/* Bytes of the struct that the row's functions heed. */
static uint32_t known_size(const kernel_entry *k) {
  const tn_operator *op = &k->op->row;
  if (k->row.attrs_size) return k->row.attrs_size;
  return op->attrs_known ? op->attrs_known : op->attrs_size;
}

static bool same_real(const char *a, const char *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return x == y || (x != x && y != y);
}

/* Of lists the count alone, whose default is 0: what lies behind it may be anything. */
static bool same_value(uint32_t type, const char *a, const char *b) {
  switch (type) {
  case TN_ATTR_F64:
    return same_real(a, b);
  case TN_ATTR_I64:
  case TN_ATTR_U64:
  case TN_ATTR_TENSOR:
    return memcmp(a, b, sizeof(int64_t)) == 0;
  case TN_ATTR_PAIR:
    return memcmp(a, b, 2 * sizeof(int64_t)) == 0;
  case TN_ATTR_TRIPLE:
    return memcmp(a, b, 3 * sizeof(int64_t)) == 0;
  default:
    return memcmp(a, b, sizeof(int32_t)) == 0;
  }
}

static bool sets_beyond(const op_entry *op, const void *attrs, uint32_t known) {
  const char *given = attrs, *defaults = op->defaults;
  for (uint32_t i = op->row.num_attrs; i-- > 0;) {
    const tn_attr *a = &op->row.attrs[i];
    if (a->offset < known) continue;
    if (!same_value(a->type, given + a->offset, defaults + a->offset)) return true;
  }
  return false;
}

static bool attrs_supports(const tn_kernel_args *args) {
  const kernel_entry *k = (const kernel_entry *)(const void *)args->kernel;
  if (sets_beyond(k->op, args->attrs, known_size(k))) return false;
  return !k->supports || k->supports(args);
}

void known_attrs_guard(kernel_entry *k) {
  uint32_t known = known_size(k), beyond = 0;
  for (uint32_t i = 0; i < k->op->row.num_attrs; ++i) beyond += k->op->row.attrs[i].offset >= known;
  if (!beyond) return;
  k->supports = k->row.supports;
  k->row.supports = attrs_supports;
}
