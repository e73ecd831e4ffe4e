/* Switching layers on and off; notify.h has what those that are on are told beside calls. */
#ifndef TENON_DISPATCHER_LAYERS_H
#define TENON_DISPATCHER_LAYERS_H

#include "tenon/tenon.h"

/* Opens those that the configuration names and puts them before every kernel. */
tn_status layers_open(tn_runtime *runtime);
void layers_close(tn_runtime *runtime);

#endif
