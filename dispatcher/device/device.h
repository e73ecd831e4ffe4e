/* Devices from being found to being closed. */
#ifndef TENON_DISPATCHER_DEVICE_H
#define TENON_DISPATCHER_DEVICE_H

#include "dispatcher/objects/device.h"

/* Opens the device if that has not happened yet. */
tn_status device_open_slow(tn_device *device);
static inline tn_status device_ready(tn_device *device) {
  tn_status status = device_check(device);
  if (status) return status;
  if (__builtin_expect(atomic_load_explicit(&device->ready, memory_order_acquire), 1)) return TN_OK;
  return device_open_slow(device);
}

/* Devices that were found and nobody sees yet. */
typedef struct device_list {
  tn_runtime *runtime;
  uint32_t count;
  tn_device *items[DEVICES_MAX];
} device_list;
/* Finds the devices of a type that is about to be registered; what is wrong with them goes into
 * type->unavailable. ctx: a device_list. TN_ERR_OUT_OF_MEMORY. */
tn_status devices_find(device_type *type, void *ctx);
void devices_drop(device_list *list);
/* Appends them to the runtime's. pre: `loading` is held. */
void devices_publish(const device_list *list);
/* Brings tn_device_at's list up to date: sorted anew, or with what is new at its end.
 * pre: `loading` is held. */
void devices_rank(tn_runtime *runtime, bool anew);
/* Makes and opens a device that records; `type` outlives it. Nobody sees it before it is put on
 * the runtime's list of such, which must follow. */
tn_status device_make_symbolic(tn_runtime *runtime, device_type *type,
                               const call_recorder *recorder, tn_device **device);
void device_list_symbolic(tn_device *device);
/* Leaves the device's struct, on the runtime's list. */
void device_free(tn_device *device);
/* Closes the handle; pre: no tensors, streams and events are shut. */
void device_close(tn_device *device);
/* The runtime is closing: gives back what the backend made for streams and events, which may
 * be destroyed later. pre: ready, no work is pending. */
void device_shut(tn_device *device);
/* Waits for the work of all its streams. pre: ready. */
tn_status device_wait(tn_device *device);

/* host_rows.c: what table cells run of rows for any host device (`*host`) on a device that works
 * beside the host: waits for the work of the stream, then runs the kernel. */
tn_status host_row_run(const tn_kernel_args *args);

#endif
