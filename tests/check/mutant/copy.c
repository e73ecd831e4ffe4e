/* The slot `copy`: three directions, put into a queue. */
#include <string.h>
#include <unistd.h>

#include "mutant.h"

enum { LITTLE = 64 * 1024 };

typedef struct copy_params {
  char *to;
  const char *from; /* NULL: what was taken along */
  size_t bytes;
  unsigned char along[];
} copy_params;

static void run_copy(const void *params) {
  const copy_params *p = params;
  memmove(p->to, p->from ? p->from : (const char *)p->along, p->bytes);
}

static mutant_work work_of(const copy_params *p, size_t along) {
  return (mutant_work){.run = run_copy, .params = p, .params_bytes = sizeof *p + along};
}

/* Pageable memory may be reused when this returns. Little is taken along, much is waited for. */
static tn_status from_pageable(mutant_queue *q, char *to, const char *from, size_t bytes) {
  union {
    copy_params params;
    unsigned char room[sizeof(copy_params) + LITTLE];
  } little;
  if (bytes > LITTLE) {
    copy_params p = {to, from, bytes};
    return mutant_put_and_wait(q, work_of(&p, 0));
  }
  little.params = (copy_params){to, NULL, bytes};
  if (bytes) memcpy(little.params.along, from, bytes);
  return mutant_put(q, work_of(&little.params, bytes));
}

/* For a fault: what another thread stages meanwhile goes instead. */
static const char *staged(mutant_device *d, const char *from, size_t bytes) {
  if (d->fault != FAULT_STAGING_SHARED || bytes > sizeof d->stage) return from;
  memcpy(d->stage, from, bytes);
  usleep(50);
  return d->stage;
}

tn_status mutant_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  mutant_device *d = device;
  const char *from = direction == TN_COPY_TO_DEVICE ? (const char *)src + src_offset
                                                    : mutant_reach(d, src, src_offset);
  char *to =
      direction == TN_COPY_TO_HOST ? (char *)dst + dst_offset : mutant_reach(d, dst, dst_offset);
  if (!from || !to) return d->host->fail(TN_ERR_BACKEND, "the copy leaves the device's memory");
  if (direction == TN_COPY_TO_DEVICE && !mutant_is_pinned(d, from))
    return from_pageable(queue, to, staged(d, from, bytes), bytes);
  copy_params p = {to, from, bytes};
  if (direction == TN_COPY_TO_HOST && !mutant_is_pinned(d, to))
    return mutant_put_and_wait(queue, work_of(&p, 0));
  return mutant_put(queue, work_of(&p, 0));
}
