/*
 * Einsum's subscripts, read: every axis of an operand and of the result has a label, a small
 * number. Letters are labels 0 to 51; the axes that "..." stands for have labels from 52 on,
 * counted from the last of them, so that they are aligned as in broadcasting.
 */
#ifndef TENON_DISPATCHER_EINSUM_H
#define TENON_DISPATCHER_EINSUM_H

#include "dispatcher/base/error.h"
#include "tenon/tenon.h"

enum {
  EINSUM_LETTERS = 52,
  EINSUM_LABELS = EINSUM_LETTERS + TN_MAX_RANK,
  EINSUM_OPERANDS = 32,
};

/* Axes by their labels. */
typedef struct einsum_axes {
  int32_t rank;
  uint8_t label[TN_MAX_RANK];
} einsum_axes;

typedef struct einsum_plan {
  size_t count;
  einsum_axes in[EINSUM_OPERANDS], out;
  int64_t size[EINSUM_LABELS]; /* of each label; operands may have 1 in its place, and repeat */
} einsum_plan;

/* Reads `equation` for operands that were checked. Errors: INVALID_ARGUMENT with a message that
 * names the operand and the letter. */
tn_status einsum_read(const char *equation, const tn_tensor *const *operands, size_t count,
                      einsum_plan *plan);

/* Sets of labels. */
static inline uint64_t einsum_set(const einsum_axes *a) {
  uint64_t set = 0;
  for (int32_t i = 0; i < a->rank; ++i) set |= (uint64_t)1 << a->label[i];
  return set;
}

#endif
