/*
 * The CPU as a device: host memory, synchronous, always present. Large blocks of the host's
 * allocator are aligned and advised so that the kernel can back them with huge pages.
 */
#include "backend.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/matmul/blas.h"
#include "processor.h"

#define LINE_BYTES ((size_t)64)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

typedef struct device {
  const tn_host *host;
} device;

static tn_status count_devices(const tn_host *host, void *context, uint32_t *count) {
  (void)host;
  (void)context;
  *count = 1;
  return TN_OK;
}

/* Adds what is known of the BLAS to the words. */
static void describe_blas(char *words, size_t size) {
  char blas[128];
  const size_t used = strlen(words);
  cpu_blas_describe(blas, sizeof blas);
  if (blas[0]) snprintf(words + used, size - used, "%s%s", used ? " " : "", blas);
}

static uint64_t pages_of(int name) {
  const long pages = sysconf(name), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)host;
  (void)context;
  (void)index;
  out->dl_device_type = kDLCPU;
  out->dl_device_id = 0;
  out->score = 10;
  out->memory_bytes = pages_of(_SC_PHYS_PAGES);
  out->alignment_bytes = LINE_BYTES;
  processor_name(out->name, sizeof out->name);
  processor_features(out->features, sizeof out->features);
  describe_blas(out->features, sizeof out->features);
  return TN_OK;
}

/* The BLAS of the process uses one thread per call, for good: kernels cut their products into
 * blocks for the host's threads, and two pools in one process would fight over the cores. A
 * host program that calls the same OpenBLAS itself sees this too. */
static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **out) {
  (void)context;
  (void)index;
  const tn_status status = cpu_blas_open(host);
  if (status) return status;
  device *d = host->alloc(host, sizeof *d, _Alignof(device));
  if (d == NULL) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to open the CPU");
  d->host = host;
  *out = d;
  return TN_OK;
}

static void close_device(void *handle) {
  device *d = handle;
  d->host->free(d->host, d);
}

static tn_status alloc_memory(void *handle, uint32_t kind, size_t bytes, void **ptr) {
  const device *d = handle;
  const bool huge = bytes >= HUGE_PAGE_BYTES;
  (void)kind;
  *ptr = d->host->alloc(d->host, bytes, huge ? HUGE_PAGE_BYTES : LINE_BYTES);
  if (*ptr == NULL)
    return d->host->fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "no %zu bytes of host memory", bytes);
#ifdef MADV_HUGEPAGE
  /* Only advice: a kernel without huge pages says no, and nothing is lost. */
  if (huge) (void)madvise(*ptr, bytes & ~(HUGE_PAGE_BYTES - 1), MADV_HUGEPAGE);
#endif
  return TN_OK;
}

static void free_memory(void *handle, uint32_t kind, void *ptr) {
  const device *d = handle;
  (void)kind;
  d->host->free(d->host, ptr);
}

static tn_status memory_info(void *handle, uint64_t *free_bytes, uint64_t *total_bytes) {
  (void)handle;
  *free_bytes = pages_of(_SC_AVPHYS_PAGES);
  *total_bytes = pages_of(_SC_PHYS_PAGES);
  return TN_OK;
}

static tn_status copy_memory(void *handle, void *queue, uint32_t direction, void *dst,
                             uint64_t dst_offset, const void *src, uint64_t src_offset,
                             size_t bytes) {
  (void)handle;
  (void)queue;
  (void)direction;
  if (bytes) memmove((char *)dst + dst_offset, (const char *)src + src_offset, bytes);
  return TN_OK;
}

const tn_backend cpu_backend = {
    .struct_size = sizeof(tn_backend),
    .flags = TN_BACKEND_HOST_MEMORY | TN_BACKEND_SYNCHRONOUS | TN_BACKEND_FORK_SAFE,
    .device_type = "cpu",
    .count = count_devices,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .memory_info = memory_info,
    .copy = copy_memory,
};
