/*
 * A chained hash table of plans.
 */
#include "backends/cuda/plans.h"

#include <string.h>

/* FNV-1a, eight bytes at a time. */
static uint64_t hash_of(const void *key, size_t bytes) {
  const unsigned char *p = key;
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; bytes >= sizeof(uint64_t); p += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
  }
  for (; bytes > 0; p++, bytes--) hash = (hash ^ *p) * UINT64_C(0x100000001b3);
  return hash;
}

static cuda_plan **bucket_of(cuda_plans *plans, uint64_t hash) {
  return &plans->bucket[(hash ^ hash >> 17) % cuda_plan_buckets];
}

cuda_plan *cuda_plans_find(cuda_plans *plans, const void *key, size_t bytes) {
  cuda_plan *last = plans->last;
  if (last && last->key_bytes == bytes && memcmp(last->key, key, bytes) == 0) return last;
  uint64_t hash = hash_of(key, bytes);
  for (cuda_plan *p = *bucket_of(plans, hash); p; p = p->next) {
    if (p->hash == hash && p->key_bytes == bytes && memcmp(p->key, key, bytes) == 0) {
      return plans->last = p;
    }
  }
  return NULL;
}

void cuda_plans_add(cuda_plans *plans, cuda_plan *plan) {
  if (plans->count >= cuda_plan_limit) cuda_plans_clear(plans);
  plan->hash = hash_of(plan->key, plan->key_bytes);
  cuda_plan **bucket = bucket_of(plans, plan->hash);
  plan->next = *bucket;
  *bucket = plan;
  plans->last = plan;
  plans->count++;
}

void cuda_plans_clear(cuda_plans *plans) {
  for (int i = 0; i < cuda_plan_buckets; i++) {
    cuda_plan *next;
    for (cuda_plan *p = plans->bucket[i]; p; p = next) {
      next = p->next;
      plans->destroy(p);
    }
    plans->bucket[i] = NULL;
  }
  plans->last = NULL;
  plans->count = 0;
}
