/* The mutant's tables, and its devices; see mutant.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mutant.h"

enum { DEVICES = 2 }; /* so that an event of one can be waited for by a queue of the other */

/* The one fault of the table itself, which is chosen before a device is opened. */
static bool claims_host_memory(void) {
  mutant_fault fault;
  return mutant_fault_find(getenv("TENON_MUTANT"), &fault) && fault == FAULT_CLAIMS_HOST_MEMORY;
}

static bool is_opaque(void) {
  const char *value = getenv("TENON_MUTANT_OPAQUE");
  return value && *value && *value != '0';
}

static tn_status count(const tn_host *host, void *context, uint32_t *devices) {
  (void)host, (void)context;
  *devices = DEVICES;
  return TN_OK;
}

static tn_status describe(const tn_host *host, void *context, uint32_t index,
                          tn_device_props *out) {
  (void)host, (void)context;
  out->dl_device_type = kDLExtDev;
  out->dl_device_id = (int32_t)index;
  out->score = 0;
  out->memory_bytes = mutant_memory_bytes();
  out->alignment_bytes = MUTANT_ALIGNMENT;
  (void)snprintf(out->name, sizeof out->name, "A device with a fault %u", index);
  (void)snprintf(out->unique_id, sizeof out->unique_id, MUTANT_TYPE "-%u", index);
  return TN_OK;
}

static tn_status read_environment(mutant_device *d) {
  const char *name = getenv("TENON_MUTANT"), *delay = getenv("TENON_MUTANT_DELAY_US");
  if (!mutant_fault_find(name, &d->fault))
    return d->host->fail(TN_ERR_INVALID_ARGUMENT, "TENON_MUTANT=%s: no fault has that name", name);
  d->opaque = is_opaque();
  d->pageable = getenv("TENON_MUTANT_PAGEABLE") != NULL;
  d->unpinned = getenv("TENON_MUTANT_UNPINNED") != NULL;
  d->delay_ns = delay ? strtoull(delay, NULL, 10) * 1000 : 0;
  return TN_OK;
}

static tn_status open_device(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context;
  mutant_device *d = calloc(1, sizeof *d);
  if (!d) return host->fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a device");
  d->host = host;
  d->index = index;
  tn_status status = read_environment(d);
  if (status == TN_OK) status = mutant_memory_open(d);
  if (status == TN_OK)
    *device = d;
  else
    free(d);
  return status;
}

static void close_device(void *device) {
  const mutant_device *d = device;
  if (d->fault == FAULT_CLOSE_CRASHES) raise(SIGSEGV);
  while (d->fault == FAULT_CLOSE_HANGS) pause();
  mutant_leaky_close(device);
  mutant_memory_close(device);
  free(device);
}

#define BACKEND(memory_flags)                                                                      \
  {                                                                                                \
    .struct_size = sizeof(tn_backend), .flags = memory_flags, .device_type = MUTANT_TYPE,          \
    .count = count, .describe = describe, .open = open_device, .close = close_device,              \
    .alloc = mutant_leaky_alloc, .free = mutant_free, .memory_info = mutant_leaky_info,            \
    .copy = mutant_leaky_copy, .queue_create = mutant_leaky_queue_create,                          \
    .queue_destroy = mutant_queue_destroy, .queue_wait = mutant_queue_wait,                        \
    .queue_native = mutant_queue_native, .event_create = mutant_leaky_event_create,                \
    .event_destroy = mutant_event_destroy, .event_record = mutant_leaky_event_record,              \
    .event_query = mutant_event_query, .event_wait = mutant_event_wait,                            \
    .queue_wait_event = mutant_queue_wait_event, .event_elapsed = mutant_event_elapsed,            \
    .capture_begin = mutant_capture_begin, .capture_end = mutant_capture_end,                      \
    .graph_launch = mutant_graph_launch, .graph_destroy = mutant_graph_destroy,                    \
    .queue_wrap = mutant_queue_wrap                                                                \
  }

static const tn_backend plain_backend = BACKEND(0);
static const tn_backend opaque_backend = BACKEND(TN_BACKEND_OPAQUE_MEMORY);
static const tn_backend host_backend = BACKEND(TN_BACKEND_HOST_MEMORY);
static const tn_backend *const plain_backends[] = {&plain_backend};
static const tn_backend *const host_backends[] = {&host_backend};
static const tn_backend *const opaque_backends[] = {&opaque_backend};

#define PLUGIN(backend_list)                                                                       \
  {                                                                                                \
    .struct_size = sizeof(tn_plugin), .abi_min = TN_ABI_VERSION_MIN, .abi_max = TN_ABI_VERSION,    \
    .name = "mutant", .version = "1", .description = "a device into which faults are planted",     \
    .backends = backend_list, .num_backends = 1, .kernels = mutant_kernels,                        \
    .num_kernels = MUTANT_KERNELS                                                                  \
  }

/* No TN_PLUGIN_BRINGS, which would have to say whether the memory is the host's. */
TN_PLUGIN_DEFINE("mutant") {
  static const tn_plugin plain = PLUGIN(plain_backends), opaque = PLUGIN(opaque_backends);
  static const tn_plugin claiming = PLUGIN(host_backends);
  (void)host;
  if (claims_host_memory()) return &claiming;
  return is_opaque() ? &opaque : &plain;
}
