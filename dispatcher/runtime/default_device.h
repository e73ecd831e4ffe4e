/* The default device of a runtime. */
#ifndef TENON_DISPATCHER_DEFAULT_DEVICE_H
#define TENON_DISPATCHER_DEFAULT_DEVICE_H

#include "tenon/tenon.h"

/* Opens the device that the configuration asks for, or else the best. */
tn_status device_choose(tn_runtime *runtime, tn_device **device);

#endif
