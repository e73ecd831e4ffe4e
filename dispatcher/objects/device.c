/* Why a device is gone, and failures of its plugin's functions. */
#include "dispatcher/objects/device.h"

tn_status device_gone(const tn_device *device) {
  uint8_t lost = atomic_load(&device->lost);
  if (!lost) return TN_OK;
  if (lost & DEVICE_UNLOADED)
    return fail(TN_ERR_CLOSED,
                "device %s: its plugin %s was unloaded; load it again to use the device and its "
                "tensors",
                device->id, device->type->plugin->name);
  return fail(TN_ERR_DEVICE_LOST,
              "device %s is lost after a fault; restart the process to use it again", device->id);
}

tn_status device_failed(tn_device *device, tn_status status, const char *plugin, const char *what) {
  status = fail_of_plugin(status, plugin, what);
  fail_set_reason(false);
  if (status == TN_ERR_DEVICE_LOST) atomic_fetch_or(&device->lost, DEVICE_FAULTED);
  return status;
}

tn_status kernel_status(tn_device *device, const cell *c, tn_status status) {
  return device_failed(device, status, c->kernel->plugin->name, "kernel");
}

tn_status device_made(tn_device *device, const char *slot, tn_status status, const void *made) {
  if (status || made) return device_result(device, slot, status);
  return fail(TN_ERR_BACKEND, "plugin %s: its %s returned TN_OK and made nothing (NULL)",
              device->type->plugin->name, slot);
}
