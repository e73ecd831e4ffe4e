/* What a tape knows: buffers by their storages' marks, and the tensors that it keeps. */
#include <string.h>

#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/tape/tape.h"

static tn_status no_memory(void) { return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tape"); }

/* --- marks --- */

/* One that no storage has. Tapes of several threads give marks: each takes some at a time. */
static uint32_t next_mark(tn_tape *tape) {
  enum { SOME = 64 };
  static _Atomic uint32_t taken;
  if (!tape->marks_left) {
    tape->next_mark = atomic_fetch_add(&taken, SOME) % STORAGE_HOMELESS;
    tape->marks_left = SOME;
    if (!tape->next_mark) ++tape->next_mark, --tape->marks_left; /* 0 says that there is none */
  }
  --tape->marks_left;
  return tape->next_mark++;
}

/* The storage's mark, given now where it has none yet. Tapes of several threads may ask at once. */
static uint32_t mark_of(tn_tape *tape, storage *s) {
  uint32_t mark = storage_mark(s);
  return mark ? mark : storage_mark_once(s, next_mark(tape));
}

static __attribute__((noinline)) tn_status widen_marks(tn_tape *tape) {
  mark_map *m = &tape->marks, wider = {.capacity = m->capacity ? 2 * m->capacity : 64};
  wider.slots = host_alloc(&tape->memory, wider.capacity * sizeof *wider.slots);
  if (!wider.slots) return no_memory();
  for (size_t i = 0; i < m->capacity; ++i)
    if (m->slots[i].mark) wider.slots[mark_slot_of(&wider, m->slots[i].mark)] = m->slots[i];
  wider.used = m->used;
  host_free(&tape->memory, m->slots);
  *m = wider;
  return TN_OK;
}

static __attribute__((noinline)) tn_status widen_depends(tn_tape *tape) {
  size_t count = tape->record.num_buffers;
  uint8_t *wider = host_grow(&tape->memory, tape->depends, count, 1, &tape->max_depends);
  if (!wider) return no_memory();
  tape->depends = wider;
  return TN_OK;
}

/* Room for one more. */
static inline tn_status reserve(tn_tape *tape) {
  tn_status status = TN_OK;
  if (__builtin_expect(tape->marks.used * 2 >= tape->marks.capacity, 0)) status = widen_marks(tape);
  if (__builtin_expect(tape->record.num_buffers >= tape->max_depends, 0) && !status)
    status = widen_depends(tape);
  return status;
}

static inline void enter(tn_tape *tape, uint32_t mark, uint32_t buffer, bool depends) {
  tape->marks.slots[mark_slot_of(&tape->marks, mark)] = (struct mark_slot){mark, buffer};
  ++tape->marks.used;
  tape->depends[buffer] = depends;
}

tn_status tape_learn(tn_tape *tape, const tn_tensor *t, uint32_t *buffer) {
  tn_status status = reserve(tape);
  if (!status) status = record_add_made(&tape->record, tn_tensor_bytes(t), buffer);
  if (!status) enter(tape, mark_of(tape, t->storage), *buffer, false);
  return status;
}

tn_status tape_learn_made(tn_tape *tape, const tn_tensor *t, bool depends, uint32_t *value) {
  uint32_t buffer;
  tn_status status = reserve(tape);
  if (!status) status = record_add_made(&tape->record, tn_tensor_bytes(t), &buffer);
  if (status) return status;
  enter(tape, storage_mark_once(t->storage, next_mark(tape)), buffer, depends);
  record_write(&tape->record, buffer);
  return record_new_value(&tape->record, buffer, (tn_dtype)t->dtype, &t->dl, tape_place_of(t),
                          value);
}

tn_status tape_value(tn_tape *tape, const tn_tensor *t, uint32_t *value) {
  uint32_t buffer = tape_find(tape, t);
  tn_status status = buffer == TN_GRAPH_NONE ? tape_learn(tape, t, &buffer) : TN_OK;
  return status ? status : tape_value_of(tape, t, buffer, value);
}

/* --- what rules read --- */

static tn_status saved_reserve(tn_tape *tape, uint32_t value) {
  size_t before = tape->max_saved;
  if (value < before) return TN_OK;
  size_t wanted = value >= 2 * before ? (size_t)value + 64 : 2 * before;
  saved_value *wider = host_alloc(&tape->memory, wanted * sizeof *wider);
  if (!wider) return no_memory();
  if (before) memcpy(wider, tape->saved, before * sizeof *wider);
  host_free(&tape->memory, tape->saved);
  tape->saved = wider;
  tape->max_saved = wanted;
  return TN_OK;
}

tn_status tape_save(tn_tape *tape, uint32_t value, tn_tensor *t) {
  tn_status status = saved_reserve(tape, value);
  if (status) return status;
  saved_value *s = &tape->saved[value];
  if (value >= tape->num_saved) tape->num_saved = value + 1;
  ++s->uses;
  if (s->tensor || (tape->block && tape_block_of(&tape->record, value) == tape->block))
    return TN_OK;
  tn_tensor_retain(t);
  s->tensor = t;
  return TN_OK;
}

void tape_drop(tn_tape *tape, uint32_t value) {
  if (value >= tape->num_saved || !tape->saved[value].uses) return;
  if (--tape->saved[value].uses) return;
  tn_tensor_release(tape->saved[value].tensor);
  tape->saved[value] = (saved_value){0};
}

void tape_clear(tn_tape *tape) {
  for (size_t i = 0; i < tape->num_saved; ++i) {
    tn_tensor_release(tape->saved[i].tensor);
    tape->saved[i] = (saved_value){0};
  }
  if (tape->marks.used)
    memset(tape->marks.slots, 0, tape->marks.capacity * sizeof *tape->marks.slots);
  tape->marks.used = 0;
  tape->num_saved = 0;
  tape->broken = TN_OK;
  cast_cache_clear(&tape->casts);
  tape_forget_late(tape);
  record_clear(&tape->record);
}

void tape_free(tn_tape *tape) {
  tape_clear(tape);
  record_free(&tape->record);
  cast_cache_free(&tape->casts, &tape->memory);
  host_free(&tape->memory, tape->saved);
  host_free(&tape->memory, tape->late);
  host_free(&tape->memory, tape->marks.slots);
  host_free(&tape->memory, tape->depends);
}
