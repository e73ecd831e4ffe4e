/*
 * Tapes: calls of a thread on real tensors, recorded for their gradients. The record is the one of
 * graphs; in place of symbolic tensors there are numbers, of which the tape keeps those that rules
 * read. A tensor is known by a mark in its storage, which no other storage gets, so that the tape
 * need not keep the memory of what it only has to recognise.
 */
#ifndef TENON_GRAPH_TAPE_H
#define TENON_GRAPH_TAPE_H

#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/watch.h"
#include "graph/autocast/autocast.h"
#include "graph/autocast/cache.h"
#include "graph/record.h"

/* From a storage's mark to a buffer: open addressing. */
typedef struct mark_map {
  struct mark_slot {
    uint32_t mark, buffer; /* mark 0: empty */
  } * slots;
  size_t capacity, used; /* a power of two */
} mark_map;

/* What is kept of a value for the rules. */
typedef struct saved_value {
  tn_tensor *tensor; /* NULL: nothing, or its block has to be computed again for it */
  uint32_t uses;     /* nodes whose rules read it, and that are made again from it */
  bool again;        /* the tensor was computed again */
} saved_value;

/* A write to what is kept, while nothing recorded. */
typedef struct late_write {
  record_value view; /* of its buffer, whatever the version */
  const tn_operator *op;
  char *site; /* NULL: none */
} late_write;

struct tn_tape {
  call_watcher watcher; /* first */
  host_memory memory;
  tn_runtime *runtime; /* held weakly */
  record record;
  mark_map marks;
  uint32_t next_mark, marks_left; /* taken from all threads' to be given */
  uint8_t *depends;               /* by buffer: on what is watched */
  size_t max_depends;
  saved_value *saved; /* by value */
  size_t num_saved, max_saved;
  autocast autocast; /* its dtype TN_DTYPE_NONE: calls are recorded as they are */
  cast_cache casts;
  tn_tensor **watched; /* whose gradients may be asked for */
  uint32_t num_watched;
  size_t max_watched;
  tn_status broken;           /* a call could not be recorded: why there can be no gradient */
  bool recording;             /* by the calling thread's watcher */
  uint32_t block, num_blocks; /* the one that calls belong to, 0 for none; how many there were */
  bool guarded;               /* what the thread overwrites is told to the watcher */
  late_write *late;
  uint32_t num_late;
  size_t max_late;
};

/* calls.c: the watcher's functions. */
tn_status tape_call(call_watcher *w, const tn_call *call);
tn_status tape_written(call_watcher *w, const tn_tensor *tensor);
/* Runs a call, and records it as far as gradients need it. */
tn_status tape_record(tn_tape *tape, const tn_call *call);

/* again.c: blocks that are computed again. */

/* The block by whose calls the value can be made, 0: none. */
uint32_t tape_block_of(const record *r, uint32_t value);
/* Keeps what the node's call reads from outside its block; no longer. */
tn_status tape_keep_for_block(tn_tape *tape, const tn_call *call, const record_node *node);
void tape_drop_for_block(tn_tape *tape, const record_node *n);
/* Whether the value, of a block, has no tensor; one that was overwritten goes. */
bool tape_is_missing(tn_tape *tape, uint32_t value);
/* Has what rules wait for of the value's block. pre: the value is in one, and has no tensor. */
tn_status tape_compute_again(tn_tape *tape, tn_stream *stream, uint32_t value);
/* Such tensors are not kept for the next gradient. */
void tape_drop_again(tn_tape *tape);
/* tape.c: what was kept of a value, a new reference; an error where it was overwritten. */
tn_status tape_kept(const tn_tape *tape, uint32_t value, tn_tensor **tensor);

/* The operator of what the host writes, by its name in messages. */
extern const tn_operator tape_host_write;

/* late.c: what is overwritten while nothing records. */

void tape_overwritten(call_watcher *w, const tn_operator *op, const tn_tensor *tensor);
/* The first of those that wrote to where the value is; NULL: none. */
const late_write *tape_late_write(const tn_tape *tape, const record_value *v);
/* Makes nodes of them: recording goes on. */
void tape_take_late(tn_tape *tape);
/* Whether the tape is told of writes from here on; gives what was before. */
bool tape_guard(tn_tape *tape, bool guarded);
/* No longer, and those noted are forgotten. */
void tape_forget_late(tn_tape *tape);

/* known.c: which buffer a tensor shows. */

/* Marks follow each other, and so do their slots: few lines of the cache serve many calls. */
static inline size_t mark_slot_of(const mark_map *m, uint32_t mark) {
  size_t at = mark & (m->capacity - 1);
  while (m->slots[at].mark && m->slots[at].mark != mark) at = (at + 1) & (m->capacity - 1);
  return at;
}
/* TN_GRAPH_NONE where the tape does not know it. */
static inline uint32_t tape_find(const tn_tape *tape, const tn_tensor *t) {
  uint32_t mark = storage_mark(t->storage);
  if (!mark || !tape->marks.capacity) return TN_GRAPH_NONE;
  const struct mark_slot *slot = &tape->marks.slots[mark_slot_of(&tape->marks, mark)];
  return slot->mark ? slot->buffer : TN_GRAPH_NONE;
}
/* Knows it from now on. pre: it did not. */
tn_status tape_learn(tn_tape *tape, const tn_tensor *t, uint32_t *buffer);
/* The same of what the last node has just made, which nobody else has yet: *value is all of it. */
tn_status tape_learn_made(tn_tape *tape, const tn_tensor *t, bool depends, uint32_t *value);
/* Where the first element lies in its storage, in bytes. */
static inline uint64_t tape_place_of(const tn_tensor *t) {
  const storage *s = t->storage;
  if (t->device->opaque) return t->dl.byte_offset - (s->block ? s->block->offset : 0);
  const char *begin = s->block ? (char *)s->block->handle + s->block->offset
                               : ((const imported *)(const void *)s)->begin;
  return (uint64_t)((const char *)t->dl.data + t->dl.byte_offset - begin);
}
/* The value that it has now, of the buffer that it shows. */
static inline tn_status tape_value_of(tn_tape *tape, const tn_tensor *t, uint32_t buffer,
                                      uint32_t *value) {
  return record_value_of(&tape->record, buffer, (tn_dtype)t->dtype, &t->dl, tape_place_of(t),
                         value);
}
/* The same, of a tensor that need not be known. */
tn_status tape_value(tn_tape *tape, const tn_tensor *t, uint32_t *value);
/* Keeps the tensor for one more rule that reads the value, unless that can be made again by the
 * block that calls belong to. */
tn_status tape_save(tn_tape *tape, uint32_t value, tn_tensor *t);
/* One rule less reads it. */
void tape_drop(tn_tape *tape, uint32_t value);
/* Forgets all calls; keeps its own memory, for as many again. */
void tape_clear(tn_tape *tape);
void tape_free(tn_tape *tape);

#endif
