/*
 * The index of a record's values. A tensor's value is nearly always the last of its buffer; a
 * buffer of which many views are in use (slices of an input, a row each) has many values of one
 * version, and is searched here. What is made before anybody searches costs nothing.
 */
#include <string.h>

#include "graph/record.h"

static bool same_view(const record_value *a, const record_value *b) {
  size_t bytes = (size_t)a->rank * sizeof *a->shape;
  return a->buffer == b->buffer && a->version == b->version && a->offset == b->offset &&
         a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->shape, b->shape, bytes) &&
         !memcmp(a->strides, b->strides, bytes);
}

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

static uint64_t hash_of(const record_value *v) {
  uint64_t hash = mix((uint64_t)v->buffer << 32 | v->version, v->offset);
  hash = mix(hash, (uint64_t)v->dtype << 8 | (uint64_t)v->rank);
  for (int32_t i = 0; i < v->rank; ++i)
    hash = mix(mix(hash, (uint64_t)v->shape[i]), (uint64_t)v->strides[i]);
  return hash;
}

/* Where the value is, or would be. Numbers past the last are of values taken away since. */
static size_t slot_of(const record *r, const value_index *index, const record_value *v) {
  size_t at = hash_of(v) & (index->capacity - 1);
  while (index->slots[at] != TN_GRAPH_NONE &&
         (index->slots[at] >= r->num_values || !same_view(&r->values[index->slots[at]], v)))
    at = (at + 1) & (index->capacity - 1);
  return at;
}

/* An empty table for all values and as many again. */
static bool widen(const record *r, value_index *index) {
  value_index wider = {.capacity = 64};
  while (wider.capacity < 4 * ((size_t)r->num_values + 1)) wider.capacity *= 2;
  size_t bytes = wider.capacity * sizeof *wider.slots;
  wider.slots = r->memory.alloc(r->memory.user, bytes, 64);
  if (!wider.slots) return false;
  memset(wider.slots, 0xff, bytes); /* TN_GRAPH_NONE */
  host_free(&r->memory, index->slots);
  *index = wider;
  return true;
}

bool value_index_find(record *r, const record_value *wanted, uint32_t *value) {
  value_index *index = &r->index;
  bool is_stale = index->known > r->num_values;
  if ((is_stale || 2 * ((size_t)r->num_values + 1) > index->capacity) && !widen(r, index))
    return false;
  for (; index->known < r->num_values; ++index->known)
    index->slots[slot_of(r, index, &r->values[index->known])] = index->known;
  *value = index->slots[slot_of(r, index, wanted)];
  return true;
}
