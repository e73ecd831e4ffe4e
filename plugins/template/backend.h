/* What the files of this plugin share: the device type and the device handle. */
#ifndef SIM_BACKEND_H
#define SIM_BACKEND_H

#include <tenon/plugin.h>

#include "chip.h"

/* What TENON_DEVICE calls it. */
#define SIM_DEVICE_TYPE "sim"

/* An open device: what `open` makes and every other slot gets. All state lives here or in
 * queues and events, never in statics: two runtimes in one process may open the same device.
 * A queue's handle is a chip_queue, an event's a chip_event. */
typedef struct sim_device {
  const tn_host *host;
  chip *chip;
} sim_device;

/* TN_OK, or Tenon's status for what the chip says, with a message that begins with `what`. */
tn_status sim_check(const tn_host *host, chip_result result, const char *what);

extern const tn_backend sim_backend;

#endif
