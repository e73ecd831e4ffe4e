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

uint64_t mutant_memory_bytes(void) {
  const char *gib = getenv("TENON_MUTANT_GIB");
  return gib ? strtoull(gib, NULL, 10) << 30 : (uint64_t)256 << 20;
}

tn_status mutant_memory_open(mutant_device *d) {
  d->bytes = mutant_memory_bytes();
  d->memory = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (d->memory == MAP_FAILED)
    return d->host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the device's");
  pthread_mutex_init(&d->lock, NULL);
  return TN_OK;
}

void mutant_memory_close(mutant_device *d) {
  for (mutant_block *b = d->blocks, *next; b; b = next) next = b->next, free(b);
  if (d->fault != FAULT_CLOSE_KEEPS_MEMORY) munmap(d->memory, d->bytes);
  pthread_mutex_destroy(&d->lock);
}

/* --- device memory --- */

static void *handle_of(const mutant_device *d, mutant_block *b) {
  return d->opaque ? b : (void *)(uintptr_t)(base_of(d) + b->offset + b->skew);
}

/* The first gap that is large enough. */
static mutant_block **find_gap(mutant_device *d, uint64_t bytes, uint64_t *offset) {
  mutant_block **at = &d->blocks;
  for (*offset = 0; *at && (*at)->offset - *offset < bytes; at = &(*at)->next)
    *offset = (*at)->offset + (*at)->bytes;
  return *at || d->bytes - *offset >= bytes ? at : NULL;
}

static bool insert(mutant_device *d, mutant_block *b) {
  pthread_mutex_lock(&d->lock);
  mutant_block **at = find_gap(d, b->bytes, &b->offset);
  if (at) {
    b->next = *at;
    *at = b;
    d->used += b->bytes;
  }
  pthread_mutex_unlock(&d->lock);
  return at != NULL;
}

/* None has 0 bytes, so that no two have one address. */
static uint64_t rounded(const mutant_device *d, size_t bytes) {
  uint64_t up = d->fault == FAULT_ALLOC_ROUNDS_DOWN ? 0 : MUTANT_ALIGNMENT - 1;
  uint64_t units = ((uint64_t)bytes + up) / MUTANT_ALIGNMENT;
  return (units ? units : 1) * MUTANT_ALIGNMENT;
}

static uint64_t skew_of(const mutant_device *d, size_t bytes) {
  bool skewed = d->fault == FAULT_ALLOC_MISALIGNED ||
                (d->fault == FAULT_ALLOC_MISALIGNED_LARGE && bytes >= 1 << 20);
  return skewed ? 64 : 0;
}

static tn_status no_memory(mutant_device *d, size_t bytes, void **ptr) {
  d->broken = d->fault == FAULT_NO_MEMORY_BREAKS;
  if (d->fault == FAULT_NO_MEMORY_IS_OK ||
      (d->fault == FAULT_NO_MEMORY_IS_LATE && bytes < (size_t)1 << 40)) {
    *ptr = (void *)(uintptr_t)(base_of(d) + d->bytes);
    return TN_OK;
  }
  if (getenv("TENON_MUTANT_SILENT")) return TN_ERR_DEVICE_OUT_OF_MEMORY;
  return d->host->fail(d->fault == FAULT_NO_MEMORY_STATUS ? TN_ERR_OUT_OF_MEMORY
                                                          : TN_ERR_DEVICE_OUT_OF_MEMORY,
                       "no %zu bytes left on the device", bytes);
}

static void clear_behind(mutant_device *d, const mutant_block *b) {
  uint64_t end = b->offset + b->bytes;
  if (end + MUTANT_ALIGNMENT <= d->bytes) memset(d->memory + end, 0, MUTANT_ALIGNMENT);
}

static tn_status alloc_device(mutant_device *d, size_t bytes, void **ptr) {
  bool fits = bytes <= d->bytes || (d->fault == FAULT_NO_MEMORY_WRAPS && bytes > SIZE_MAX / 2);
  mutant_block *b = fits && !d->broken ? calloc(1, sizeof *b) : NULL;
  if (b && d->fault == FAULT_ALLOC_TWICE && d->blocks && ++d->allocations % 4 == 0) {
    *ptr = handle_of(d, d->blocks);
    free(b);
    return TN_OK;
  }
  if (b) b->skew = skew_of(d, bytes);
  if (b) b->bytes = rounded(d, bytes + b->skew);
  if (!b || !insert(d, b)) {
    free(b);
    return no_memory(d, bytes, ptr);
  }
  if (d->fault == FAULT_ALLOC_CLEARS_OTHERS) clear_behind(d, b);
  *ptr = handle_of(d, b);
  return TN_OK;
}

static bool is_kept(const mutant_device *d, const mutant_block *b) {
  bool large = b->bytes >= 1 << 20;
  return d->fault == FAULT_FREE_NOTHING || (d->fault == FAULT_FREE_NOT_LARGE && large) ||
         (d->fault == FAULT_FREE_NOT_SMALL && !large);
}

/* Takes the block out; NULL where there is none, or a fault keeps it. */
static mutant_block *take_out(mutant_device *d, mutant_block **at) {
  mutant_block *b = *at;
  if (!b || is_kept(d, b)) return NULL;
  *at = b->next;
  d->used -= b->bytes;
  return b;
}

static void free_device(mutant_device *d, void *handle) {
  mutant_block *found = NULL, *next = NULL;
  pthread_mutex_lock(&d->lock);
  mutant_block **at = &d->blocks;
  while (*at && handle_of(d, *at) != handle) at = &(*at)->next;
  found = take_out(d, at);
  if (found && d->fault == FAULT_FREE_GIVES_TWO) next = take_out(d, at);
  pthread_mutex_unlock(&d->lock);
  if (found && d->fault == FAULT_FREE_CLEARS_OTHERS) clear_behind(d, found);
  free(found);
  free(next);
}

bool mutant_is_one_block(mutant_device *d, const char *a, const char *b) {
  bool one = false;
  pthread_mutex_lock(&d->lock);
  for (const mutant_block *k = d->blocks; k && !one; k = k->next) {
    const char *begin = d->memory + k->offset, *end = begin + k->bytes;
    one = a >= begin && a < end && b >= begin && b < end;
  }
  pthread_mutex_unlock(&d->lock);
  return one;
}

char *mutant_reach(mutant_device *d, const void *handle, uint64_t offset) {
  const mutant_block *b = handle;
  uint64_t from_start = (d->opaque ? b ? b->offset : 0 : (uintptr_t)handle - base_of(d)) + offset;
  return from_start <= d->bytes ? d->memory + from_start : NULL;
}

tn_status mutant_memory_info(void *device, uint64_t *free_bytes, uint64_t *total_bytes) {
  mutant_device *d = device;
  pthread_mutex_lock(&d->lock);
  const char *mib = getenv("TENON_MUTANT_POOL_MIB");
  uint64_t pool = mib ? strtoull(mib, NULL, 10) << 20 : 0, used = d->used;
  if (pool) used = used < pool ? pool : (used + pool - 1) / pool * pool;
  *free_bytes = used < d->bytes ? d->bytes - used : 0;
  *total_bytes = d->fault == FAULT_INFO_NO_TOTAL ? 0 : d->bytes;
  if (d->fault == FAULT_INFO_ABOVE_TOTAL) *free_bytes = d->bytes + d->used;
  if (d->fault == FAULT_INFO_COUNTS_UP) *free_bytes = d->bytes / 2 + d->used;
  if (d->fault == FAULT_INFO_STANDS_STILL) *free_bytes = d->bytes;
  pthread_mutex_unlock(&d->lock);
  return TN_OK;
}

/* --- pinned memory: mapped, so that what is given back is gone --- */

static tn_status alloc_pinned(mutant_device *d, size_t bytes, void **ptr) {
  if (d->unpinned) return d->host->fail(TN_ERR_UNSUPPORTED, "there is no pinned memory");
  if (d->fault == FAULT_PINNED_SHARED && d->pinned) return *ptr = d->pinned->ptr, TN_OK;
  if (d->fault == FAULT_PINNED_SHARED) bytes = 8 << 20;
  if (d->fault == FAULT_PINNED_WRAPS) bytes = (bytes + 4095) / 4096 * 4096;
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
  if (d->fault == FAULT_PINNED_FREE_NOTHING) return;
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
  if (d->pageable) return false;
  bool found = false;
  pthread_mutex_lock(&d->lock);
  if (d->fault == FAULT_PINNED_ALL && d->pinned) found = true;
  for (const mutant_pinned *p = d->pinned; p && !found; p = p->next)
    found = (const char *)ptr >= p->ptr && (const char *)ptr < p->ptr + p->bytes;
  pthread_mutex_unlock(&d->lock);
  return found;
}

/* --- slots --- */

tn_status mutant_alloc(void *device, uint32_t kind, size_t bytes, void **ptr) {
  mutant_device *d = device;
  bool pinned = kind == TN_MEMORY_PINNED && d->fault != FAULT_PINNED_IS_DEVICE;
  return pinned ? alloc_pinned(d, bytes, ptr) : alloc_device(d, bytes, ptr);
}

void mutant_free(void *device, uint32_t kind, void *ptr) {
  if (!ptr) return;
  if (kind == TN_MEMORY_PINNED && ((mutant_device *)device)->fault != FAULT_PINNED_IS_DEVICE)
    free_pinned(device, ptr);
  else
    free_device(device, ptr);
}
