/* Device memory, cut first-fit from one mapping, and pinned memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mutant.h"

/* No processor of today lets a process map this, so a host that follows an address of the
 * device's gets a fault. */
static const uint64_t FIRST_ADDRESS = (uint64_t)0x00a1 << 48;

static uint64_t base_of(const mutant_device *d) {
  return FIRST_ADDRESS + ((uint64_t)d->index << 40);
}

tn_status mutant_memory_open(mutant_device *d) {
  d->memory = mmap(NULL, MUTANT_MEMORY, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (d->memory == MAP_FAILED)
    return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the device's");
  pthread_mutex_init(&d->lock, NULL);
  return TN_OK;
}

void mutant_memory_close(mutant_device *d) {
  for (mutant_block *b = d->blocks, *next; b; b = next) next = b->next, free(b);
  munmap(d->memory, MUTANT_MEMORY);
  pthread_mutex_destroy(&d->lock);
}

/* --- device memory --- */

static void *handle_of(const mutant_device *d, mutant_block *b) {
  return d->opaque ? b : (void *)(uintptr_t)(base_of(d) + b->offset);
}

/* The first gap that is large enough. */
static mutant_block **find_gap(mutant_device *d, uint64_t bytes, uint64_t *offset) {
  mutant_block **at = &d->blocks;
  for (*offset = 0; *at && (*at)->offset - *offset < bytes; at = &(*at)->next)
    *offset = (*at)->offset + (*at)->bytes;
  return *at || MUTANT_MEMORY - *offset >= bytes ? at : NULL;
}

static bool insert(mutant_device *d, mutant_block *b) {
  pthread_mutex_lock(&d->lock);
  mutant_block **at = find_gap(d, b->bytes, &b->offset);
  if (at) {
    b->next = *at;
    *at = b;
    b->number = ++d->allocations;
    d->used += b->bytes;
  }
  pthread_mutex_unlock(&d->lock);
  return at != NULL;
}

/* None has 0 bytes, so that no two have one address. */
static uint64_t rounded(size_t bytes) {
  uint64_t units = ((uint64_t)bytes + MUTANT_ALIGNMENT - 1) / MUTANT_ALIGNMENT;
  return (units ? units : 1) * MUTANT_ALIGNMENT;
}

static tn_status alloc_device(mutant_device *d, size_t bytes, void **ptr) {
  mutant_block *b = bytes <= MUTANT_MEMORY ? malloc(sizeof *b) : NULL;
  if (b) b->bytes = rounded(bytes);
  if (b && insert(d, b)) {
    *ptr = handle_of(d, b);
    return TN_OK;
  }
  free(b);
  return d->host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no %zu bytes left on the device", bytes);
}

static void free_device(mutant_device *d, void *handle) {
  mutant_block *found = NULL;
  pthread_mutex_lock(&d->lock);
  for (mutant_block **at = &d->blocks; *at && !found; at = found ? at : &(*at)->next)
    if (handle_of(d, *at) == handle) {
      found = *at;
      *at = found->next;
      d->used -= found->bytes;
    }
  pthread_mutex_unlock(&d->lock);
  free(found);
}

char *mutant_reach(mutant_device *d, const void *handle, uint64_t offset) {
  const mutant_block *b = handle;
  uint64_t from_start = (d->opaque ? b ? b->offset : 0 : (uintptr_t)handle - base_of(d)) + offset;
  return from_start <= MUTANT_MEMORY ? d->memory + from_start : NULL;
}

tn_status mutant_memory_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  mutant_device *d = device;
  pthread_mutex_lock(&d->lock);
  *free_bytes = MUTANT_MEMORY - d->used;
  *total_bytes = MUTANT_MEMORY;
  pthread_mutex_unlock(&d->lock);
  return TN_OK;
}

/* --- pinned memory: mapped, so that what is given back is gone --- */

static tn_status alloc_pinned(mutant_device *d, size_t bytes, void **ptr) {
  mutant_pinned *p = malloc(sizeof *p);
  void *memory =
      p ? mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        : MAP_FAILED;
  if (memory == MAP_FAILED) {
    free(p);
    return d->host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no %zu bytes of pinned memory", bytes);
  }
  pthread_mutex_lock(&d->lock);
  *p = (mutant_pinned){d->pinned, memory, bytes ? bytes : 1};
  d->pinned = p;
  pthread_mutex_unlock(&d->lock);
  *ptr = memory;
  return TN_OK;
}

static void free_pinned(mutant_device *d, void *ptr) {
  mutant_pinned *found = NULL;
  pthread_mutex_lock(&d->lock);
  for (mutant_pinned **at = &d->pinned; *at && !found; at = found ? at : &(*at)->next)
    if ((*at)->ptr == ptr) {
      found = *at;
      *at = found->next;
    }
  pthread_mutex_unlock(&d->lock);
  if (found) munmap(found->ptr, found->bytes);
  free(found);
}

bool mutant_is_pinned(mutant_device *d, const void *ptr) {
  bool found = false;
  pthread_mutex_lock(&d->lock);
  for (const mutant_pinned *p = d->pinned; p && !found; p = p->next)
    found = (const char *)ptr >= p->ptr && (const char *)ptr < p->ptr + p->bytes;
  pthread_mutex_unlock(&d->lock);
  return found;
}

/* --- slots --- */

tn_status mutant_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  return kind == TN_MEMORY_PINNED ? alloc_pinned(device, bytes, ptr)
                                  : alloc_device(device, bytes, ptr);
}

void mutant_free(void *device, uint32_t kind, void *ptr) {
  if (!ptr) return;
  if (kind == TN_MEMORY_PINNED)
    free_pinned(device, ptr);
  else
    free_device(device, ptr);
}
