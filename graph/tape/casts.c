/*
 * Autocast of a tape: its calls are cast before they are recorded, and the casts recorded likewise.
 * Casts of tensors that the tape knows are kept as long as what it recorded: a parameter is cast
 * once from one gradient to the next, unless it is updated between.
 */
#include "graph/autocast/autocast.h"
#include "graph/tape/tape.h"
#include "tenon/ops.h"

static tn_tape *tape_of(autocast *a) {
  return (tn_tape *)(void *)((char *)a - offsetof(tn_tape, autocast));
}

static tn_status cast_recorded(tn_tape *tape, tn_stream *stream, const tn_tensor *x, tn_dtype dtype,
                               tn_tensor **y) {
  const tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = (int32_t)dtype};
  *y = NULL;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_CAST,
                        .stream = stream,
                        .in = &x,
                        .out = y,
                        .attrs = &attrs,
                        .num_in = 1,
                        .num_out = 1};
  return tape_record(tape, &call);
}

static tn_status cast_once(autocast *a, tn_stream *stream, const tn_tensor *x, tn_dtype dtype,
                           tn_tensor **y) {
  tn_tape *tape = tape_of(a);
  tn_tensor **kept = NULL;
  uint32_t value;
  if (tape_find(tape, x) == TN_GRAPH_NONE) return cast_recorded(tape, stream, x, dtype, y);
  tn_status status = tape_value(tape, x, &value);
  const uint32_t current = tape->block;
  /* What a block makes is not kept, and its casts neither; others are no block's. */
  if (!status && current && tape_block_of(&tape->record, value) == current)
    return cast_recorded(tape, stream, x, dtype, y);
  tape->block = 0;
  if (!status) status = cast_cache_place(&tape->casts, &tape->memory, value, dtype, &kept);
  if (!status && !*kept) status = cast_recorded(tape, stream, x, dtype, kept);
  tape->block = current;
  if (status) return status;
  tn_tensor_retain(*kept);
  *y = *kept;
  return TN_OK;
}

static tn_status make_call(autocast *a, const tn_call *call) {
  return tape_record(tape_of(a), call);
}

tn_status tn_tape_autocast(tn_tape *tape, tn_dtype dtype) {
  if (!tape) return fail(TN_ERR_INVALID_ARGUMENT, "tn_tape_autocast: tape is NULL");
  tn_status status = runtime_check(tape->runtime);
  if (status) return fail_prefix("tn_tape_autocast: "), status;
  status = autocast_check("tn_tape_autocast", dtype);
  if (status) return status;
  tape->autocast = (autocast){.dtype = dtype, .cast = cast_once, .invoke = make_call};
  return TN_OK;
}
