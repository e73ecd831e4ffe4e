/* Why a device is gone, and failures of its plugin's functions. */
#include "dispatcher/objects/device.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/objects/recent.h"

tn_status device_gone(const tn_device *device) {
  uint8_t attention = atomic_load(&device->attention);
  if (!(attention & DEVICE_GONE)) return TN_OK;
  if (attention & DEVICE_UNLOADED)
    return fail(TN_ERR_CLOSED,
                "device %s: its plugin %s was unloaded; load it again to use the device and its "
                "tensors",
                device->id, device->type->plugin->name);
  return fail(TN_ERR_DEVICE_LOST,
              "device %s is lost after a fault; restart the process to use it again%s%s",
              device->id, device->lost_by[0] ? ". The fault: " : "", device->lost_by);
}

/* Whether what failed may be work that the device was given before: it comes out where somebody
 * waits for it, and a device that is lost says so at whatever is next. */
static bool may_be_late(const tn_device *d, tn_status status, const char *what) {
  static const char *const waits[] = {"queue_wait", "event_wait", "event_query", "event_elapsed",
                                      "copy"};
  if (d->synchronous || (status != TN_ERR_BACKEND && status != TN_ERR_DEVICE_LOST)) return false;
  for (size_t i = 0; i < sizeof waits / sizeof *waits; ++i)
    if (strcmp(what, waits[i]) == 0) return true;
  return status == TN_ERR_DEVICE_LOST;
}

static tn_status say_what_ran(const tn_device *d, tn_status status) {
  char operators[256] = "";
  if (d->runtime->recent) recent_text(d->runtime->recent, d, operators, sizeof operators);
  if (operators[0])
    return fail(status,
                "device %s: %s (it may be the fault of work from before; its last "
                "operators, latest first: %s)",
                d->id, tn_last_error(), operators);
  return fail(status, "device %s: %s (it may be the fault of work from before%s)", d->id,
              tn_last_error(),
              d->runtime->recent ? "" : "; TENON_LAYERS=validate names the last operators");
}

/* The first to say so tells what happened, which every later call says again. */
static void mark_lost(tn_device *device) {
  if (atomic_fetch_or(&device->attention, DEVICE_FAULTING) & DEVICE_FAULTING) return;
  (void)snprintf(device->lost_by, sizeof device->lost_by, "%.511s", tn_last_error());
  atomic_fetch_or(&device->attention, DEVICE_FAULTED);
}

tn_status device_failed(tn_device *device, tn_status status, const char *plugin, const char *what) {
  status = fail_of_plugin(status, plugin, what);
  if (may_be_late(device, status, what)) status = say_what_ran(device, status);
  fail_set_reason(false);
  if (status == TN_ERR_DEVICE_LOST) mark_lost(device);
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
