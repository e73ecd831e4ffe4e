/*
 * Rows for any host device (`*host`) compute in the calling thread. On a device that shares
 * the host's memory but works beside it, they must not begin before the work of the stream
 * that they stand in: there, cells and layers run them through host_row_run. Devices that are
 * done when their calls return run the rows themselves.
 */
#include "dispatcher/device/device.h"

/* Of the devices that share memory: others may have the same handle. */
static tn_device *device_of(const tn_runtime *runtime, const void *handle) {
  uint32_t count = atomic_load_explicit(&runtime->num_devices, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device *d = atomic_load(&runtime->devices[i]);
    if (d->shared && d->handle == handle) return d;
  }
  return NULL;
}

tn_status host_row_run(const tn_kernel_args *args) {
  const tn_runtime *runtime = args->host->impl;
  tn_device *d = device_of(runtime, args->device);
  tn_status status = d ? d->type->backend.queue_wait(args->device, args->queue) : TN_OK;
  if (status) return fail_of_plugin(status, d->type->plugin->name, "queue_wait");
  return registry_run_plain_fn(&runtime->registry, args->kernel)(args);
}
