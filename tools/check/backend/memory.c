/* What the checks of memory slots share; see memory.h. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool memory_begin(direct *d, memory_bench *b) {
  *b = (memory_bench){.d = d, .random = d->seed ^ 0x6d656d6f7279u};
  direct_where(d, "%s", "");
  return !d->slots.queue_create || direct_ok(d, "queue_create", direct_queue_create(d, &b->queue));
}

void memory_end(memory_bench *b) {
  direct_where(b->d, "%s", "");
  if (memory_wait(b) && b->queue) direct_queue_destroy(b->d, b->queue);
}

bool memory_take(memory_bench *b, uint32_t kind, size_t bytes, void **ptr) {
  return direct_ok(b->d, "alloc", direct_alloc(b->d, kind, bytes, ptr));
}

bool memory_wait(memory_bench *b) {
  return !b->queue || direct_ok(b->d, "queue_wait", direct_queue_wait(b->d, b->queue));
}

bool memory_give(memory_bench *b, uint32_t kind, void *ptr) {
  if (!memory_wait(b)) return false;
  direct_free(b->d, kind, ptr);
  return true;
}

void *memory_of_host(size_t bytes) {
  void *ptr = malloc(bytes);
  if (ptr) return ptr;
  perror("tenon check");
  exit(1);
}

void memory_random(memory_bench *b, void *ptr, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word = direct_random(&b->random);
    memcpy((char *)ptr + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
  }
}

size_t memory_differs(const void *a, const void *b, size_t bytes) {
  const unsigned char *x = a, *y = b;
  size_t i = 0;
  if (!memcmp(a, b, bytes)) return bytes;
  while (x[i] == y[i]) i++;
  return i;
}

bool memory_write(memory_bench *b, void *to, uint64_t offset, const void *from, size_t bytes) {
  return direct_ok(b->d, "copy to the device",
                   direct_copy(b->d, b->queue, TN_COPY_TO_DEVICE, to, offset, from, 0, bytes));
}

bool memory_read(memory_bench *b, void *to, const void *from, uint64_t offset, size_t bytes) {
  return direct_ok(b->d, "copy to the host",
                   direct_copy(b->d, b->queue, TN_COPY_TO_HOST, to, 0, from, offset, bytes));
}

bool memory_move(memory_bench *b, void *to, uint64_t to_offset, const void *from,
                 uint64_t from_offset, size_t bytes) {
  return direct_ok(
      b->d, "copy on the device",
      direct_copy(b->d, b->queue, TN_COPY_ON_DEVICE, to, to_offset, from, from_offset, bytes));
}

static uint64_t free_or_total(memory_bench *b) {
  uint64_t free_bytes = 0, total = 0;
  const direct *d = b->d;
  if (!d->slots.memory_info || direct_memory_info(b->d, &free_bytes, &total) || !free_bytes)
    free_bytes = d->props.memory_bytes;
  return free_bytes ? free_bytes : UINT64_MAX;
}

size_t memory_allowance(memory_bench *b, size_t most) {
  enum { LEAST = 64 << 10 };
  uint64_t quarter = free_or_total(b) / 4;
  size_t bytes = quarter < most ? (size_t)quarter : most;
  void *ptr = NULL;
  while (bytes > LEAST && direct_alloc(b->d, TN_MEMORY_DEVICE, bytes, &ptr)) bytes /= 2;
  if (ptr) direct_free(b->d, TN_MEMORY_DEVICE, ptr);
  return bytes;
}

bool memory_take_pinned(memory_bench *b, size_t bytes, void **ptr) {
  tn_status status = direct_alloc(b->d, TN_MEMORY_PINNED, bytes, ptr);
  if (status != TN_ERR_UNSUPPORTED && status != TN_ERR_OUT_OF_MEMORY &&
      status != TN_ERR_DEVICE_OUT_OF_MEMORY)
    return direct_ok(b->d, "alloc", status);
  direct_note(b->d, "no %zu bytes of pinned memory: %s", bytes, direct_error());
  *ptr = NULL;
  return true;
}
