/* What a run took of a device's memory. */
#ifndef EXAMPLES_MEMORY_LINE_H
#define EXAMPLES_MEMORY_LINE_H

#include <stdio.h>

#include "tenon/tenon.h"

/* The bytes in use on the device, NAN if it does not say. */
double memory_now(tn_device *device);
/* The most bytes that the allocator of the device has held at once, tensors, workspaces and what it
 * kept for reuse; NAN if the device does not say. */
double memory_peak(tn_device *device);
/* A line for people; `before`: memory_now() before the first step. Nothing if the device does not
 * say. */
void memory_line(FILE *out, tn_device *device, double before);

#endif
