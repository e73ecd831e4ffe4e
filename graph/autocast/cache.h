/* The casts of a record's values, each of which is made once: kept by value, which a tensor has one
 * more of with each update. */
#ifndef TENON_GRAPH_CAST_CACHE_H
#define TENON_GRAPH_CAST_CACHE_H

#include "dispatcher/base/error.h"

typedef struct cast_cache {
  struct value_casts {
    tn_tensor *f16, *bf16, *f32;
  } * of; /* by value */
  size_t num_values;
} cast_cache;

/* Where the value's cast to a type is, NULL before; until the next call of this. */
tn_status cast_cache_place(cast_cache *c, const host_memory *memory, uint32_t value, tn_dtype dtype,
                           tn_tensor ***place);
/* Releases them all, and the memory for them too. */
void cast_cache_clear(cast_cache *c);
void cast_cache_free(cast_cache *c, const host_memory *memory);

#endif
