/* A hash map from an identity (a pointer and a number) to a pointer. Not thread-safe. */
#ifndef VALIDATE_MAP_H
#define VALIDATE_MAP_H

#include <tenon/plugin.h>

typedef struct map_slot {
  const void *key;
  uint64_t number;
  void *value; /* NULL: the slot is free */
} map_slot;

typedef struct map {
  const tn_host *host;
  map_slot *slots; /* a power of two of them, at most half of them taken */
  size_t capacity, count;
} map;

void map_free(map *m);
void *map_get(const map *m, const void *key, uint64_t number);
/* pre: the key is not there, value is not NULL. False when there is no memory. */
bool map_put(map *m, const void *key, uint64_t number, void *value);
/* Takes the key out and returns its value, NULL if it was not there. */
void *map_take(map *m, const void *key, uint64_t number);

#endif
