/* What a tape knows: buffers by their storages' marks, and the tensors that it keeps. */
#include <string.h>

#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/tape/tape.h"

static tn_status no_memory(void) { return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tape"); }

/* --- marks --- */

/* The storage's mark, given now where it has none yet. Tapes of several threads may ask at once. */
static uint32_t mark_of(storage *s) {
  static _Atomic uint32_t last;
  uint32_t mark = storage_mark(s);
  while (!mark) mark = (atomic_fetch_add(&last, 1) + 1) % STORAGE_HOMELESS; /* 0: there is none */
  return storage_mark_once(s, mark);
}

static size_t slot_of(const mark_map *m, uint32_t mark) {
  size_t at = (mark * UINT32_C(2654435769)) >> 7 & (m->capacity - 1);
  while (m->slots[at].mark && m->slots[at].mark != mark) at = (at + 1) & (m->capacity - 1);
  return at;
}

static tn_status marks_reserve(tn_tape *tape) {
  mark_map *m = &tape->marks, wider = {.capacity = m->capacity ? 2 * m->capacity : 64};
  if (m->used * 2 < m->capacity) return TN_OK;
  wider.slots = host_alloc(&tape->memory, wider.capacity * sizeof *wider.slots);
  if (!wider.slots) return no_memory();
  for (size_t i = 0; i < m->capacity; ++i)
    if (m->slots[i].mark) wider.slots[slot_of(&wider, m->slots[i].mark)] = m->slots[i];
  wider.used = m->used;
  host_free(&tape->memory, m->slots);
  *m = wider;
  return TN_OK;
}

uint32_t tape_find(const tn_tape *tape, const tn_tensor *t) {
  uint32_t mark = storage_mark(t->storage);
  if (!mark || !tape->marks.capacity) return TN_GRAPH_NONE;
  const struct mark_slot *slot = &tape->marks.slots[slot_of(&tape->marks, mark)];
  return slot->mark ? slot->buffer : TN_GRAPH_NONE;
}

static tn_status depends_reserve(tn_tape *tape) {
  size_t count = tape->record.num_buffers;
  if (count < tape->max_depends) return TN_OK;
  uint8_t *wider = host_grow(&tape->memory, tape->depends, count, 1, &tape->max_depends);
  if (!wider) return no_memory();
  tape->depends = wider;
  return TN_OK;
}

tn_status tape_learn(tn_tape *tape, const tn_tensor *t, uint32_t *buffer) {
  tn_status status = marks_reserve(tape);
  if (!status) status = depends_reserve(tape);
  if (!status) status = record_add_made(&tape->record, tn_tensor_bytes(t), buffer);
  if (status) return status;
  uint32_t mark = mark_of(t->storage);
  tape->marks.slots[slot_of(&tape->marks, mark)] = (struct mark_slot){mark, *buffer};
  ++tape->marks.used;
  tape->depends[*buffer] = 0;
  return TN_OK;
}

/* Where the first element lies in its storage, in bytes. */
static uint64_t place_of(const tn_tensor *t) {
  const storage *s = t->storage;
  if (t->device->opaque) return t->dl.byte_offset - (s->block ? s->block->offset : 0);
  const char *begin = s->block ? (char *)s->block->handle + s->block->offset
                               : ((const imported *)(const void *)s)->begin;
  return (uint64_t)((const char *)t->dl.data + t->dl.byte_offset - begin);
}

tn_status tape_value_of(tn_tape *tape, const tn_tensor *t, uint32_t buffer, uint32_t *value) {
  return record_value_of(&tape->record, buffer, &t->dl, place_of(t), value);
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
  if (!s->uses++) {
    tn_tensor_retain(t);
    s->tensor = t;
  }
  return TN_OK;
}

void tape_drop(tn_tape *tape, uint32_t value) {
  if (value >= tape->num_saved || !tape->saved[value].uses) return;
  if (--tape->saved[value].uses) return;
  tn_tensor_release(tape->saved[value].tensor);
  tape->saved[value].tensor = NULL;
}

void tape_clear(tn_tape *tape) {
  for (size_t i = 0; i < tape->num_saved; ++i) {
    if (tape->saved[i].uses) tn_tensor_release(tape->saved[i].tensor);
    tape->saved[i] = (saved_value){0};
  }
  if (tape->marks.used)
    memset(tape->marks.slots, 0, tape->marks.capacity * sizeof *tape->marks.slots);
  tape->marks.used = 0;
  tape->num_saved = 0;
  tape->broken = TN_OK;
  cast_cache_clear(&tape->casts);
  record_clear(&tape->record);
}

void tape_free(tn_tape *tape) {
  tape_clear(tape);
  record_free(&tape->record);
  cast_cache_free(&tape->casts, &tape->memory);
  host_free(&tape->memory, tape->saved);
  host_free(&tape->memory, tape->marks.slots);
  host_free(&tape->memory, tape->depends);
}
