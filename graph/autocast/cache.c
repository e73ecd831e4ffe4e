/* Casts by value; see cache.h. */
#include "graph/autocast/cache.h"

#include <string.h>

static tn_status reserve(cast_cache *c, const host_memory *memory, uint32_t value) {
  size_t count = c->num_values ? c->num_values : 64;
  if (value < c->num_values) return TN_OK;
  while (count <= value) count *= 2;
  struct value_casts *wider = host_alloc(memory, count * sizeof *wider);
  if (!wider) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for casts");
  if (c->of) memcpy(wider, c->of, c->num_values * sizeof *wider);
  host_free(memory, c->of);
  c->of = wider;
  c->num_values = count;
  return TN_OK;
}

tn_status cast_cache_place(cast_cache *c, const host_memory *memory, uint32_t value, tn_dtype dtype,
                           tn_tensor ***place) {
  tn_status status = reserve(c, memory, value);
  if (status) return status;
  struct value_casts *v = &c->of[value];
  *place = dtype == TN_F16 ? &v->f16 : dtype == TN_BF16 ? &v->bf16 : &v->f32;
  return TN_OK;
}

void cast_cache_clear(cast_cache *c) {
  for (size_t i = 0; i < c->num_values; ++i) {
    tn_tensor_release(c->of[i].f16);
    tn_tensor_release(c->of[i].bf16);
    tn_tensor_release(c->of[i].f32);
    c->of[i] = (struct value_casts){NULL, NULL, NULL};
  }
}

void cast_cache_free(cast_cache *c, const host_memory *memory) {
  cast_cache_clear(c);
  host_free(memory, c->of);
  *c = (cast_cache){0};
}
