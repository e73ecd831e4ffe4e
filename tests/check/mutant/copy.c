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

static void run_copy_and_spoil(const void *params) {
  const copy_params *p = params;
  run_copy(params);
  if (p->bytes) *(char *)(uintptr_t)p->from ^= 1;
}

static mutant_work work_of(const copy_params *p, size_t along) {
  return (mutant_work){.run = run_copy, .params = p, .params_bytes = sizeof *p + along};
}

/* Without its queue. */
static tn_status at_once(const copy_params *p) {
  run_copy(p);
  return TN_OK;
}

/* Pageable memory may be reused when this returns. Little is taken along, much is waited for. */
static tn_status from_pageable(const mutant_device *d, mutant_queue *q, char *to, const char *from,
                               size_t bytes) {
  union {
    copy_params params;
    unsigned char room[sizeof(copy_params) + LITTLE];
  } little;
  copy_params p = {to, from, bytes};
  bool late = d->fault == (bytes > LITTLE ? FAULT_WRITE_LATE_LARGE : FAULT_WRITE_LATE);
  if (d->fault == FAULT_WRITE_EARLY) return at_once(&p);
  if (late) return mutant_put(q, work_of(&p, 0));
  if (d->fault == FAULT_COPY_CHANGES_HOST)
    return mutant_put_and_wait(
        q, (mutant_work){.run = run_copy_and_spoil, .params = &p, .params_bytes = sizeof p});
  if (bytes > LITTLE) return mutant_put_and_wait(q, work_of(&p, 0));
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

static tn_status to_pageable(const mutant_device *d, mutant_queue *q, const copy_params *p) {
  if (d->fault == FAULT_READ_EARLY) return at_once(p);
  if (d->fault == FAULT_READ_RETURNS) return mutant_put(q, work_of(p, 0));
  return mutant_put_and_wait(q, work_of(p, 0));
}

static uint64_t planted_offset(const mutant_device *d, uint64_t offset, bool is_destination) {
  if (d->fault == FAULT_COPY_ALIGNS && is_destination) return offset / 4 * 4;
  if (d->fault == FAULT_COPY_OFFSET_32_BITS) return (uint32_t)offset;
  bool ignored = d->fault == (is_destination ? FAULT_COPY_TO_START : FAULT_COPY_FROM_START);
  return ignored ? 0 : offset;
}

static size_t planted_size(mutant_device *d, const char *to, const char *from, size_t bytes) {
  enum { CHUNK = 64 << 10 };
  switch (d->fault) {
  case FAULT_COPY_NOTHING_WITHIN:
    return mutant_is_one_block(d, to, from) ? 0 : bytes;
  case FAULT_COPY_WORDS:
    return bytes / 4 * 4;
  case FAULT_COPY_WORDS_UP:
    return (bytes + 3) / 4 * 4;
  case FAULT_COPY_32_BITS:
    return (uint32_t)bytes;
  case FAULT_COPY_24_BITS:
    return bytes & 0xffffff;
  case FAULT_COPY_WHOLE_CHUNKS:
    return bytes > 16 * CHUNK ? bytes / CHUNK * CHUNK : bytes;
  default:
    return bytes;
  }
}

static tn_status put_copy(mutant_device *d, mutant_queue *q, uint32_t direction,
                          const copy_params *p) {
  mutant_work spoiling = {.run = run_copy_and_spoil, .params = p, .params_bytes = sizeof *p};
  if (direction == TN_COPY_ON_DEVICE && mutant_queue_records(q))
    return d->host->fail(TN_ERR_UNSUPPORTED, "graphs take copies with pinned memory");
  if (direction == TN_COPY_ON_DEVICE && d->fault == FAULT_COPY_CHANGES_SOURCE)
    return mutant_put(q, spoiling);
  if (direction == TN_COPY_ON_DEVICE)
    return d->fault == FAULT_COPY_NOTHING ? TN_OK : mutant_put(q, work_of(p, 0));
  if (direction == TN_COPY_TO_DEVICE) {
    if (!mutant_is_pinned(d, p->from))
      return from_pageable(d, q, p->to, staged(d, p->from, p->bytes), p->bytes);
    if (d->fault == FAULT_PINNED_WRITE_EARLY) return at_once(p);
  } else {
    if (!mutant_is_pinned(d, p->to)) return to_pageable(d, q, p);
    if (d->fault == FAULT_PINNED_READ_EARLY) return at_once(p);
  }
  return mutant_put(q, work_of(p, 0));
}

tn_status mutant_copy(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                      const void *src, uint64_t src_offset, size_t bytes) {
  mutant_device *d = device;
  const char *from = direction == TN_COPY_TO_DEVICE
                         ? (const char *)src + src_offset
                         : mutant_reach(d, src, planted_offset(d, src_offset, false));
  char *to = direction == TN_COPY_TO_HOST
                 ? (char *)dst + dst_offset
                 : mutant_reach(d, dst, planted_offset(d, dst_offset, true));
  if (!from || !to) return d->host->fail(TN_ERR_BACKEND, "the copy leaves the device's memory");
  if (bytes == 0) return d->host->fail(TN_ERR_BACKEND, "a copy of 0 bytes");
  copy_params p = {to, from, planted_size(d, to, from, bytes)};
  return put_copy(d, queue, direction, &p);
}
