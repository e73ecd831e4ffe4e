/*
 * Plans by key: what a vendor library decided about one shape, found again by the bytes
 * of a key struct. Not thread-safe; the queue's lock is held. Plans hold host memory
 * only, so they may be dropped while their kernels still run.
 */
#ifndef BACKENDS_CUDA_PLANS_H
#define BACKENDS_CUDA_PLANS_H

#include <stddef.h>
#include <stdint.h>

enum { cuda_plan_buckets = 256, cuda_plan_limit = 2048 };

/* Begins every plan. The key lies behind the plan's own fields: zero it before filling
 * it in, for its padding counts too. */
typedef struct cuda_plan {
  struct cuda_plan *next;
  uint64_t hash;
  const void *key;
  size_t key_bytes;
} cuda_plan;

typedef struct cuda_plans {
  cuda_plan *bucket[cuda_plan_buckets];
  cuda_plan *last; /* found last: calls ask for their plan more than once */
  unsigned count;
  void (*destroy)(cuda_plan *plan); /* frees a plan; set once */
} cuda_plans;

/* The plan for a key, or NULL. */
cuda_plan *cuda_plans_find(cuda_plans *plans, const void *key, size_t bytes);

/* Takes a plan over; its key and key_bytes are set. Drops all others when there are too
 * many. */
void cuda_plans_add(cuda_plans *plans, cuda_plan *plan);

void cuda_plans_clear(cuda_plans *plans);

#endif /* BACKENDS_CUDA_PLANS_H */
