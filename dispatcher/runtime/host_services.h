/* The services that plugins get (tn_host). */
#ifndef TENON_DISPATCHER_HOST_SERVICES_H
#define TENON_DISPATCHER_HOST_SERVICES_H

#include "dispatcher/objects/runtime.h"

/* Fills runtime->host. pre: configuration and callbacks are read. */
void host_init(tn_runtime *runtime);

/* What table cells run on a deterministic runtime. */
tn_status host_run_deterministic(const tn_kernel_args *args);

/* Logs that a runtime has fewer threads than wanted. */
void host_tell_shortage(void *runtime, uint32_t started, uint32_t wanted, const char *why);

#endif
