/*
 * Cases of more than 2^31 elements, on request: one per operator that moves, maps or
 * reduces single bytes, if host and device have the room. Places beyond 32 bits are where
 * an int that should have been an int64_t shows.
 */
#include <unistd.h>

#include "../check.h"

static const int64_t LARGE = ((int64_t)1 << 31) + 77;

/* Inputs, outputs, the reference's and the images that go between: seven at the most. */
static bool has_room(void) {
  long pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && (uint64_t)pages * (uint64_t)bytes > 7 * (uint64_t)LARGE;
}

static bool is_byte(tn_dtype dtype) { return dtype == TN_I8 || dtype == TN_U8; }

static bool suits(const tn_operator *op, const tn_dtype *types) {
  bool shape = op->shape == TN_SHAPE_SAME || op->shape == TN_SHAPE_BROADCAST ||
               op->shape == TN_SHAPE_REDUCE || op->shape == TN_SHAPE_GIVEN;
  for (uint32_t i = 0; i < op->num_args; i++)
    shape = shape && !(op->args[i].flags & TN_ARG_LIST) && op->args[i].type == TN_TYPE_VAR(0);
  return shape && is_byte(types[0]) && !types[1] && op_inputs(op) <= 2;
}

/* One long axis; a second operand is a scalar. */
void cases_large(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (!suits(op, types) || !has_room()) return;
  op_case c = case_begin(op, types);
  int64_t one = 1;
  c.variants = VARIANT_MADE;
  for (uint32_t i = 0; i < op->num_args; i++) case_shape(&c, i, 1, i == 1 ? &one : &LARGE);
  sink.take(sink.ctx, &c);
}
